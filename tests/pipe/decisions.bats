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

@test "a job with a deadline in nine zones of three regions, with prices and moves: replay and plan decide the same" {
    T=$BATS_TEST_TMPDIR
    { echo time_s,zone,instance_type,available,price_usd_per_h
      for k in 0 1 2 3 4 5 6 7 8; do for i in $(seq 0 119); do
          echo "$((i * 600)),r$((k / 3))z$((k % 3)),g,$(((i + 13 * k) / (7 + k % 4) % 3 > 0)),$((9 + k % 5 + i / 50))e-1"; done; done; } >"$T/nine.csv"
    echo instance_type,spot_usd_per_h,on_demand_usd_per_h,egress_usd_per_gb,egress_byte_per_s >"$T/c.csv"
    echo g,1,3,.02,1e9 >>"$T/c.csv"
    tests/decisions.sh deadline "$T/nine.csv" 8 6000 --work 8h --deadline 12h --restart 12m --catalogue "$T/c.csv" --state-gb 50
    tests/decisions.sh deadline "$T/nine.csv" 4 6000 --zone r0z0,r0z1,r1z0,r1z1,r2z2 --work 8h --deadline 10h --restart 25m --catalogue "$T/c.csv" --learn 90m
}

@test "serving: replay and predict | plan decide the same, spares, lengths, a backlog and nothing at all among them" {
    T=$BATS_TEST_TMPDIR
    printf 'time_s,zone,available\n0,a,5\n0,b,3\n600,a,2\n1200,b,7\n2400,a,1\n2460,b,0\n2700,b,4\n3000,a,9\n5400,a,9\n' >"$T/t.csv"
    jq 'del(.instance_type)' examples/serve/gpt-20b.json >"$T/job.json"
    spot-replay generate -q --kind load --rate .35 --arrivals gamma:6 --hours 1.5 >"$T/l.csv"
    tests/decisions.sh serve "$T/job.json" "$T/t.csv" "$T/l.csv" 6
    jq '.serve.context = 2048 | .serve.cells |= map(.prefill_token_s = .9 * .prefill_s / 512 | .decode_token_s = .2 * .decode_s / 640)' \
        "$T/job.json" >"$T/lengths.json"
    spot-replay generate -q --kind load --rate .1 --hours 1.5 --prompt-tokens lognormal:400:.7 --output-tokens lognormal:100:.7 \
        --context 2048 >"$T/l.csv"
    tests/decisions.sh serve "$T/lengths.json" "$T/t.csv" "$T/l.csv" 6 --slo e2e-p99=40s
    awk -F, -v OFS=, 'NR == 1 { print $0, "blocks"; next } { b = int(($2 + 63) / 64); print $0, "64:" NR % 5 * 100 "-" NR % 5 * 100 + b - 1 }' "$T/l.csv" >"$T/b.csv"
    tests/decisions.sh serve "$T/lengths.json" "$T/t.csv" "$T/b.csv" 6 --cache-tokens 1500
}

@test "jobs that share a cluster: replay and plan decide the same, of what had arrived by then" {
    D=examples/share
    tests/decisions.sh share $D/jobs.csv $D/cluster.csv $D/throughput.json 12 --switch 20s --checkpoint 7m
    printf 'id,arrival_s,kind,steps,scale,scale_min,scale_max\nx,0,lm,5000000,1,1,4\ny,2000,lm,900000,2,1,2\n' >"$BATS_TEST_TMPDIR/j.csv"
    POLICY=spot:max-min tests/decisions.sh share $D/jobs.csv $D/cluster.csv $D/throughput.json 12 --switch 20s --checkpoint 7m
    tests/decisions.sh share "$BATS_TEST_TMPDIR/j.csv" $D/cluster.csv $D/throughput.json 12 --round 5m --switch 20s
}

@test "a fleet of replicas: replay and predict | plan decide the same, in zones that lose together and beside them" {
    { echo time_s,zone,instance_type,available
      for z in us-1a us-1b eu-1a; do for i in $(seq 0 199); do echo "$((i * 300)),$z,g,$((i / (5 + ${#z} % 2 + $(printf %d "'${z: -1}") % 5) % 3))"; done; done; } >"$BATS_TEST_TMPDIR/t.csv"
    tests/decisions.sh fleet "$BATS_TEST_TMPDIR/t.csv" 6 2 .99
}

@test "a fleet that follows a load, in zones of which one comes later and rows that fall between ticks" {
    T=$BATS_TEST_TMPDIR
    awk 'BEGIN { print "time_s,zone,instance_type,available"; srand(5)
        for (z = 0; z < 3; z++) for (t = z == 2 ? 2900 : 0; t < 36000; t += 40 + 300 * int(4 * rand())) print t ",us-1" substr("abc", z + 1, 1) ",g," int(4 * rand()) }' >"$T/t.csv"
    awk 'BEGIN { print "time_s,prompt_tokens,output_tokens"; for (t = 0; t < 40000; t += 1 + int(t / 3000) % 3) print t ",9,9" }' >"$T/l.csv"
    tests/decisions.sh fleet "$T/t.csv" 8 2 .99 300
    tests/decisions.sh fleet "$T/t.csv" 8 2 .99 300 "$T/l.csv" .4
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
