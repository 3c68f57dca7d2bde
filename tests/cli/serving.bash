# SPDX-License-Identifier: MIT
# What suites of spot-run serve have in common: a batch in in.jsonl, and in `want` its undisturbed answers.
# shellcheck shell=bash disable=SC2034 # the suites use it

load eventually

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    ln -s "$BATS_FILE_TMPDIR/model" "$BATS_FILE_TMPDIR/in.jsonl" "$BATS_FILE_TMPDIR/want" .
    pids=
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

# What does not depend on the time, on names that are drawn, or on what was computed before.
answers() {
    sed -E 's/"(id|created)":("[^"]*"|[0-9]+),?//g; s/"worker":"[^"]*",?//g; s/"(epoch|cached_tokens)":[0-9]+,?//g' "$1" | sort
}

same() {
    answers "$1" | cmp - want
}

worker() { # name: it takes its time, so that a batch has a middle on any machine
    ${SPOT_PACE:+env "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$SPOT_PACE" SPOT_PACE_SEND_MS=2} spot-run worker -q --join unix:j --name "$1" --join-timeout 60s 3>&- &
    pids="$pids $!"
    newest=$!
}
