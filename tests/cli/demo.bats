#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: the demonstration ends when its log tells of enough, counted as the events say.
bats_require_minimum_version 1.5.0

setup() {
    log=tests/golden/spot-run/report-table/lived.jsonl
    calm=tests/golden/spot-run/report-table/calm.jsonl
}

events() { # EVENT: how many
    jq -n --arg event "$1" '[inputs | select(.event == $event)] | length' $log
}

lived() { # HOW-MANY EVENTS
    SPOT_DEMO_PREEMPTIONS=$1 examples/demo.sh --lived "$2"
}

@test "the counters are those of the events, and so many preemptions are enough" {
    n=$(($(events left) + $(events lost)))
    [ "$n" -ge 2 ]
    run -0 lived $n $log
    [ "$output" = "$(events left) preempted with notice, $(events lost) without, $(events joined) joined" ]
    run -1 lived $((n + 1)) $log
    [ "$output" = "$(events left) preempted with notice, $(events lost) without, $(events joined) joined" ]
}

@test "without a pause after each kind of change nothing is enough" {
    run -1 lived 0 $calm
    [[ "$output" == "0 preempted with notice, 0 without, 1 joined" ]]
    # a log that ends before the first kill
    sed '/"lost"/,$d' $log >"$BATS_TEST_TMPDIR/short"
    run -1 lived 1 "$BATS_TEST_TMPDIR/short"
    [[ "$output" == "1 preempted with notice, 0 without, "* ]]
}

@test "a log that is not there is no success" {
    run -4 lived 0 nowhere.jsonl
}

@test "a folder with something else in it is not replaced" {
    mkdir -p "$BATS_TEST_TMPDIR/out/state" && echo precious >"$BATS_TEST_TMPDIR/out/state/mine"
    run -2 examples/demo.sh '' "$BATS_TEST_TMPDIR/out"
    [[ "$output" == *"has something else in it"* ]]
    run -2 examples/demo-serve.sh "$BATS_TEST_TMPDIR/out"
    [[ "$output" == *"has something else in it"* ]]
    [ "$(find "$BATS_TEST_TMPDIR/out" -type f)" = "$BATS_TEST_TMPDIR/out/state/mine" ]
}
