# SPDX-License-Identifier: MIT
# Goal: what the shell offers is what the tools take.
bats_require_minimum_version 1.5.0

setup() { completions=$BATS_TEST_DIRNAME/../../completions; }

# offered WORD...: what is offered for the last one
offered() {
    source "$completions/spot.bash"
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

# not_refused OPTION COMMAND...: is not told that this value of the option is none
not_refused() {
    local option=$1
    shift
    run timeout 120 "$@" </dev/null
    [[ "$output" != *unknown* && "$output" != *"$option must be"* && "$output" != *"$option needs"* && "$output" != *"$option: expected"* &&
        "$output" != *"$option is "* && "$output" != *" is json or table, not"* ]] || { echo "$*: $output" >&2; return 1; }
}

@test "values of every option that takes one of a few are offered, and taken" {
    cd "$BATS_TEST_TMPDIR"
    seq 1 300 >corpus
    for option in device comm recompute shares tokens arch; do
        values=$(offered spot-run train --$option "")
        [ "$(wc -w <<<"$values")" -ge 2 ]
        for value in $values; do
            # a rule that is broken at the end keeps a job from starting
            not_refused --$option spot-run train --data corpus --steps 1 --$option $value --listen 0.0.0.0:1
        done
    done
    for value in $(offered spot-predict --model ""); do not_refused --model spot-predict --model $value corpus; done
    for value in $(offered spot-replay import --from ""); do not_refused --from spot-replay import --from $value corpus; done
    for value in $(offered spot-migrate pack --codec ""); do not_refused --codec spot-migrate pack --codec $value corpus; done
    for value in $(offered spot-migrate assign --objective ""); do
        not_refused --objective spot-migrate assign --objective $value corpus
    done
    for value in $(offered spot-replay generate --profile ""); do
        not_refused --profile spot-replay generate --hours 1 --profile $value
    done
    for value in $(offered spot-run status --format ""); do
        not_refused --format spot-run status --join unix:none --format $value
    done
    [ "$(offered spot-run status --format "")" = "json table" ]
    [ "$(offered spot-plan train --format "")" = "json table" ]
    [ "$(offered spot-plan train --solver "")" = "dp liveput" ]
    [ "$(offered spot-predict --kind "")" = "availability load price" ]
    [ "$(offered spot-run tokenize --tokens "")" = "u16 u32" ]
}

@test "zsh and fish offer the same values and options" {
    for pair in "spot-run train --arch" "spot-run tokenize --tokens" "spot-plan train --solver" \
        "spot-migrate send --codec" "spot-predict  --kind"; do
        read -r tool command option <<<"$pair"
        [ "$option" ] || { option=$command command=; }
        values=$(offered $tool $command $option "")
        grep -qF "values='$values'" "$completions/_spot"
        grep -qE "^complete -c $tool .* -l ${option#--} -x -a '$values'$" "$completions/spot.fish"
    done
    for option in $(offered spot-run worker --); do
        grep -qE "^complete -c spot-run -n '__fish_seen_subcommand_from worker' -l ${option#--}( |$)" \
            "$completions/spot.fish" || [[ "$option" = --help || "$option" = --version ]]
    done
    ! command -v zsh || zsh -n "$completions/_spot"
    ! command -v fish || fish -n "$completions/spot.fish"
}

@test "fish completes what the file says" {
    command -v fish || skip "no fish here"
    run fish -N -c "source '$completions/spot.fish'; complete -C 'spot-run train --arch '"
    [ "$output" = $'gpt2\nllama' ]
    run fish -N -c "source '$completions/spot.fish'; complete -C 'spot-plan tr'"
    [ "$output" = train ]
}
