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

# strike_server COMMAND...: kills and notices while a batch is computed; three workers or more are there
strike_server() {
    rm -f out log j
    "$@" -o out --listen unix:j --max-batch 32 --grace 5s --events log 3>&- &
    server=$!
    pids="$pids $server"
    for name in a b c d; do worker $name; done
    last=$newest k=0
    while kill -0 $server 2>/dev/null && [ $k -lt 8 ]; do
        k=$((k + 1))
        sleep 0.05
        kill -"$([ $((k % 2)) = 0 ] && echo KILL || echo TERM)" "$last" 2>/dev/null || break # the batch is done
        worker "w$k"
        last=$newest
    done
    wait $server
    same out
}
