#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, plain
# spot-run serve: chosen cells of `make faults-serve`; in each phase of a request a fault, and no
# client gets another token than undisturbed.

setup() {
    command -v curl >/dev/null || skip "no curl here"
    tests=$(dirname "$(command -v spot-run)")/../tests
    [ -e "$tests/load" ] && [ -e "$tests/proxy" ] && [ -e "$tests/disk.so" ] && [ -e "$tests/pace.so" ] ||
        skip "make check builds load, proxy, disk.so and pace.so"
}

cells() { # PHASE FAULT ...
    run "$BATS_TEST_DIRNAME/../faults-serve.sh" "$@"
    echo "$output"
    [ "$status" = 0 ]
    [ "$(grep -c 'same tokens' <<<"$output")" = $(($# / 2)) ]
}

@test "workers that are killed before, in and after the prompt" {
    cells prefill kill last kill
}

@test "two replicas at once, and a worker that stands still, between tokens" {
    cells first two decode stop
}

@test "a leaver is killed while it hands its pages over" {
    cells move kill
}

@test "nobody is left: requests wait, then hear 503, and the streams go on with those who come" {
    cells queued every
}

@test "the coordinator is killed in the middle, and the disk of its journal is full" {
    cells decode coordinator decode disk
}

@test "clients that vanish and clients that stand still" {
    cells decode vanish decode slow
}
