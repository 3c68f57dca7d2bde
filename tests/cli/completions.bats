# SPDX-License-Identifier: MIT
# Goal: what the shell offers is what the tools take.
bats_require_minimum_version 1.5.0

# offered WORD...: what is offered for the last one
offered() {
    source "$BATS_TEST_DIRNAME/../../completions/spot.bash"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _spot "$1"
    echo "${COMPREPLY[*]}"
}

@test "kinds of models and policies are offered by their names, and every policy is one" {
    [ "$(offered spot-run train --arch "")" = "gpt2 llama" ]
    [ "$(offered spot-run train --arch l)" = llama ]
    [ "$(offered spot-run tr)" = train ]
    [ "$(offered spot-replay train --policy bam)" = "bamboo bamboo-released" ]
    for policy in $(offered spot-replay train --policy ""); do
        [ "$policy" = all ] || [ "$policy" = list ] || spot-replay train --policy list | grep -q "^$policy "
    done
}
