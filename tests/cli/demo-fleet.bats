#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: the demonstration of a fleet fails no request, and nothing that it started outlives it.

bats_require_minimum_version 1.5.0
load eventually

setup() {
    [ -e "$(dirname "$(command -v spot-run)")/../tests/load" ] || skip "make check builds load"
    export TMPDIR=$BATS_TEST_TMPDIR/t SPOT_DEMO_STEPS=3
    mkdir "$TMPDIR"
}

teardown() {
    [ -z "${pid-}" ] || kill -9 "$pid" 2>/dev/null || true
    for pid in $(left); do kill -9 "$pid" 2>/dev/null || true; done
}

left() { # processes with the directory of this test, but for ours
    for at in /proc/[0-9]*; do
        ! grep -qz "^CLOUD=$TMPDIR/" "$at/environ" 2>/dev/null || basename "$at"
    done
}

@test "a fleet loses machines and no request, and is gone with its directory" {
    SPOT_DEMO_SECONDS=11 run -0 --separate-stderr timeout 400 examples/demo-fleet.sh 3>&-
    awk '$1 == "requests" { n = $2 } $1 == "failed" { failed = $2 } /^taken away/ { taken = $3 } /^machines launched/ { launched = $3 }
        /^share of time/ { n_share = $7 > 0 && $8 > 0 } END { exit !(n == 88 && failed == "0" && taken > 0 && launched > 2 && n_share) }' <<<"$output"
    [ -z "$(left)" ]
    [ -z "$(ls "$TMPDIR")" ]
}

@test "stopped in the middle, it ends its machines" {
    SPOT_DEMO_SECONDS=60 examples/demo-fleet.sh >/dev/null 2>&1 3>&- &
    pid=$!
    eventually 'ls "$TMPDIR"/tmp.*/cloud/machine/*/pid'
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    pid=
    [ "$status" -eq 143 ]
    [ -z "$(left)" ]
    [ -z "$(ls "$TMPDIR")" ]
}
