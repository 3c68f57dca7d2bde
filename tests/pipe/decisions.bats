#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: what is measured is what ships. At prefixes of a trace the policy of spot-replay and the pipe of the shipped tools, which
# sees no more than the prefix, decide the same. All of it: tests/decisions.sh JOB TRACE 200.
bats_require_minimum_version 1.5.0

setup() { cd "$BATS_TEST_DIRNAME/../.." || return; }

@test "a training job: replay and predict | plan decide the same, losses told or not" {
    head -61 examples/traces/demo.csv >"$BATS_TEST_TMPDIR/t.csv"
    tests/decisions.sh examples/jobs/demo.json "$BATS_TEST_TMPDIR/t.csv" 4 120
    tests/decisions.sh examples/jobs/demo.json "$BATS_TEST_TMPDIR/t.csv" 4 0
}
