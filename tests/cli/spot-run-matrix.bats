#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock, plain
# The fault matrix, one fault for each phase; `make faults` prints all of it.

bats_require_minimum_version 1.5.0

@test "each phase survives a fault" {
    run "$BATS_TEST_DIRNAME/../faults.sh" few
    echo "$output"
    [ "${lines[-1]}" = "10 passed, 0 failed" ]
    [ "$status" -eq 0 ]
}
