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

@test "a job with a deadline: replay and plan decide the same, in one zone and two, runs learned anew" {
    { echo time_s,zone,instance_type,available
      for i in $(seq 0 199); do echo "$((i * 600)),us-1a,g,$((i / 9 % 3 > 0))"; done; } >"$BATS_TEST_TMPDIR/t.csv"
    tests/decisions.sh deadline "$BATS_TEST_TMPDIR/t.csv" 6 24000 --work 12h --deadline 17h --restart 12m --learn 6h
    sed 's/us-1a/eu-1a/;1d' "$BATS_TEST_TMPDIR/t.csv" | awk -F, -v OFS=, '{ $4 = NR % 7 > 2 } 1' | cat "$BATS_TEST_TMPDIR/t.csv" - >"$BATS_TEST_TMPDIR/two.csv"
    tests/decisions.sh deadline "$BATS_TEST_TMPDIR/two.csv" 6 24000 --work 12h --deadline 17h --restart 25m --egress-usd .2 --learn 6h
}

@test "a fleet of replicas: replay and predict | plan decide the same, in zones that lose together and beside them" {
    { echo time_s,zone,instance_type,available
      for z in us-1a us-1b eu-1a; do for i in $(seq 0 199); do echo "$((i * 300)),$z,g,$((i / (5 + ${#z} % 2 + $(printf %d "'${z: -1}") % 5) % 3))"; done; done; } >"$BATS_TEST_TMPDIR/t.csv"
    tests/decisions.sh fleet "$BATS_TEST_TMPDIR/t.csv" 6 2 .99
}

@test "a plan reacts to every step of a forecast, not only to the next" {
    spot-predict examples/traces/demo.csv >"$BATS_TEST_TMPDIR/f"
    for from in 2 6; do # none from that step on, for certain
        jq --argjson from $from '.series[0] |= (.available |= map(if .step >= $from then .p |= (map(0) | .[0] = 1) | .mean = 0 else . end))' \
            "$BATS_TEST_TMPDIR/f" | spot-plan train --job examples/jobs/demo.json --forecast - --current 2x3 >"$BATS_TEST_TMPDIR/p$from"
    done
    spot-plan train --job examples/jobs/demo.json --forecast "$BATS_TEST_TMPDIR/f" --current 2x3 >"$BATS_TEST_TMPDIR/p0"
    expected() { jq .expected.samples_per_s "$BATS_TEST_TMPDIR/p$1"; }
    # of 12 intervals two run, or six
    jq -en --argjson all "$(expected 0)" --argjson six "$(expected 6)" --argjson two "$(expected 2)" \
        '($two / $all) as $a | ($six / $all) as $b | $a > 1 / 12 and $a < 1 / 4 and $b > 5 / 12 and $b < 7 / 12'
}

@test "a change is made where it is earned back before a certain collapse, else not" {
    spot-predict examples/traces/calm.csv >"$BATS_TEST_TMPDIR/f"
    next() { # CURRENT STEP
        jq --argjson from "$2" '.series[0] |= (.available |= map(if .step >= $from then .p |= (map(0) | .[0] = 1) | .mean = 0 else . end))' \
            "$BATS_TEST_TMPDIR/f" | spot-plan train --job examples/jobs/gpt-1.5b.json --forecast - --current "$1" 2>/dev/null |
            jq -r '"\(.next.D)x\(.next.P)"'
    }
    [ "$(next 2x14 99)" != 2x14 ]
    [ "$(next 2x14 6)" = 2x14 ]
}

@test "a return that is certain to come in time is waited for, else another grid is taken" {
    spot-predict examples/traces/calm.csv >"$BATS_TEST_TMPDIR/f"
    next() { # STEP from which thirty are there, for certain; twenty before
        jq --argjson from "$1" '.series[0] |= (.cap as $cap | .available |= map(
            (if .step >= $from then 30 else 20 end) as $n | .mean = $n | .p = [range($cap + 1) | if . == $n then 1 else 0 end]))' \
            "$BATS_TEST_TMPDIR/f" | spot-plan train --job examples/jobs/gpt-1.5b.json --forecast - --now 20 --current 1x12 \
            --starts next --announced 0 2>/dev/null | jq -r '"\(.next.D)x\(.next.P)"'
    }
    [ "$(next 2)" = 1x12 ]
    [ "$(next 99)" = 2x10 ]
}
