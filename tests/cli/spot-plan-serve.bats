#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-plan serve: SpotServe's rule as a document, and what it refuses.

bats_require_minimum_version 1.5.0
load errors

setup() {
    T=$BATS_TEST_TMPDIR
    job=examples/serve/gpt-20b.json
    set -o pipefail # jq -e of nothing is 0
}

serve() { spot-plan serve --job "$job" --policy spotserve "$@"; }
ours() { spot-plan serve --job "$job" "$@"; }

@test "the plan is the published choice, with reasons and alternatives" {
    serve --now 12 --rate .4 | jq -e '.schema == "spot.plan/1" and .kind == "serve"
        and .next == {D: 3, P: 2, M: 8, B: 2, prefill_parts: 2, decode_parts: 1}
        and (.expected.latency_s - 12.116159 | fabs) < 1e-6 and .expected.rate_per_s == 0.4
        and (.expected.usd_per_h - 12 * 1.9046 | fabs) < 1e-9 and .spares == 0
        and (.alternatives | length) == 8 and all(.alternatives[]; .M and .B and .why)'
    serve --now 5 --rate .4 | jq -e '.spares == 1 and .expected.requests_per_s < 0.4
        and any(.why[]; test("the queue grows")) and any(.why[]; test("4 of 20 GPUs idle"))'
    run -0 --separate-stderr serve --now 12 --rate .4 --explain -o "$T/p"
    [[ "$stderr" == *"artifact would run this at 4"* ]]
    serve --now 12 --rate .4 --format table | grep -q '^3 x 2 x 8  *2 .*the plan'
}

@test "instances come from a forecast, the rate from a load" {
    printf 'time_s,available\n0,12\n60,12\n120,8\n180,8\n240,8\n' | spot-predict >"$T/f"
    serve --forecast "$T/f" --rate .4 | jq -e '.time_s == 240 and .next.D == 2 and .next.M == 8'
    serve --forecast "$T/f" --now 12 --rate .4 | jq -e '.next.D == 3'
    printf 'time_s,prompt_tokens,output_tokens\n0,1,1\n10,1,1\n11,1,1\n12,1,1\n' >"$T/l"
    serve --now 12 --load "$T/l" | jq -e '.expected.rate_per_s == 0.25'
    run -0 --separate-stderr serve --now 12 --load "$T/l" --window 2s
    jq -e '.expected.rate_per_s == 1' <<<"$output"
    [[ "$stderr" == *'--window: 2 requests in the last 2 s of '*'more than chance'* ]]
    awk 'BEGIN { print "time_s,prompt_tokens,output_tokens"; for (i = 0; i < 20; i++) print i ",1,1" }' >"$T/l"
    run -0 --separate-stderr serve --now 12 --load "$T/l" --window 10s
    [ -z "$stderr" ]
}

@test "ours weighs price and latency, and says what binds" {
    ours --now 10 --rate .35 | jq -e '.next == {D: 2, P: 3, M: 4, B: 4, prefill_parts: 4, decode_parts: 1}
        and .spares == 0 and .expected.e2e_p99_s > 14.4 and .expected.e2e_p99_s < 40
        and (.expected.usd_per_h - 6 * 1.9046 | fabs) < 1e-9 and any(.why[]; test("4 instances of 10 not needed"))
        and (.alternatives | length) == 8 and all(.alternatives[]; .why)'
    ours --now 24 --rate .35 --slo e2e-p99=20s | jq -e '.expected.e2e_p99_s <= 20 and any(.why[]; test("the end is what binds"))'
    ours --now 24 --rate .35 --slo ttft-p95=6s | jq -e 'any(.why[]; test("the first token is what binds"))'
    ours --now 6 --rate .5 --slo e2e-p99=15s | jq -e 'any(.why[]; test("nothing here keeps the SLO"))'
    ours --now 6 --rate 3 | jq -e '.next.D == 2 and (.expected | has("e2e_p99_s") | not) and any(.why[]; test("the queue grows"))'
    ours --now 24 --rate .35 --loss-per-h 1 | jq -e '.spares >= 1 and any(.why[]; test("an instance is lost each 1 h"))'
    ours --now 10 --rate .35 --current 2x2x8 --stay 1m | jq -e '.next.M == 8 and any(.why[]; test("what runs is kept"))'
    run -0 --separate-stderr ours --now 10 --rate .35 --current 9x9x9 --no-provenance
    [[ "$stderr" == *'--current 9x9x9: the job has no such pipelines'*'not charged'* ]]
    ours --now 10 --rate .35 --no-provenance | cmp - <(echo "$output")
    run -0 --separate-stderr ours --now 10 --rate .35 --explain -o "$T/p"
    [[ "$stderr" == *"a percent of price"* ]]
}

@test "ours reads bursts from a load and losses from a forecast" {
    spot-replay generate -q --kind load --rate .35 --arrivals gamma:6 --hours 4 >"$T/burst"
    spot-replay generate -q --kind load --rate .35 --hours 4 >"$T/calm"
    [ "$(ours --now 24 --load "$T/burst" | jq '.next.D * .next.P * .next.M')" -gt "$(ours --now 24 --load "$T/calm" | jq '.next.D * .next.P * .next.M')" ]
    spot-predict --kind load "$T/calm" >"$T/f.json"
    ours --now 24 --load "$T/f.json" | jq -e '.expected.rate_per_s > .2 and .expected.rate_per_s < .5'
    awk 'BEGIN { print "time_s,available"; for (i = 0; i < 200; i++) print 60 * i "," 10 + (i % 5 == 0) - (i % 7 == 0) }' |
        spot-predict >"$T/a.json"
    ours --forecast "$T/a.json" --rate .35 | jq -e '.spares >= 1'
    run -3 --separate-stderr ours --now 24 --load "$T/a.json"
    [[ "$stderr" == *'expected a forecast of load'* ]]
}

@test "an answer is kept with a clock only, for the same SLO, and where instances are enough" {
    printf 'time_s,available\n0,24\n60,24\n120,24\n' | spot-predict >"$T/f"
    kept() { jq -e 'any(.why[]; test("is kept: what was asked"))'; }
    ask() { ours --forecast "$T/f" --rate .35 --state "$T/s" "$@"; }
    ask --current 0x1x1 | jq .next >"$T/next"
    cp "$T/s" "$T/first"
    ask --current 0x1x1 | kept
    run ! kept < <(ask --current 0x1x1 --slo e2e-p99=60s)
    run ! kept < <(ask --current 0x1x1 --boot 90s)
    awk '{ $(NF - 2) = "900x3x4"; $(NF - 1) = 9999; print }' "$T/first" >"$T/s"
    ask --current 0x1x1 | jq .next | cmp - "$T/next"
    sed 's/^serve [^ ]*/serve 121/' "$T/first" >"$T/s"
    run ! kept < <(ask --current 0x1x1)
    for _ in 1 2; do
        ours --now 24 --rate .35 --current 0x1x1 --state "$T/none" >"$T/p"
        run ! kept <"$T/p"
    done
}

@test "what ours cannot plan is refused" {
    run -1 --separate-stderr ours --now 2 --rate 1
    [[ "$stderr" == *'3 would do'* ]]
    run -2 ours --now 5 --rate 1 --slo e2e
    run -2 --separate-stderr ours --now 5 --rate 1 --slo e2e-p99=2s,ttft-p50=3s
    [[ "$stderr" == *'first token come after 3 s'* ]]
    run -2 ours --now 5 --rate 1 --current 2
    run -2 ours --now 5 --rate 1 --current 0x
    run -2 ours --now 5 --rate 1 --policy spotserve --slo e2e-p99=2s
    run -2 ours --now 5 --rate 1 --policy best
}

@test "what cannot be planned is refused" {
    run -1 --separate-stderr serve --now 2 --rate 1
    [[ "$stderr" == *'2 instances of 4 GPUs cannot hold the model; 3 would do'* ]]
    run -2 --separate-stderr serve --now 5
    [[ "$stderr" == *'neither --rate nor --load'* ]]
    run -2 serve --rate 1
    run -2 serve --now 5 --rate 0
    run -2 serve --now 5 --rate 1 --load x
    run -2 serve --now 5 --rate 1 --window 3
    run -2 --separate-stderr serve --now 4096 --rate 1
    [[ "$stderr" == *'more than 4096 GPUs'* ]]
    fails 3 data.value spot-plan serve --job examples/jobs/demo.json --now 5 --rate 1
    at examples/jobs/demo.json 4 11 /kind
    fails 3 data.value spot-plan train --job "$job" --now 5
    at examples/serve/gpt-20b.json 4 11 /kind
    printf 'time_s,prompt_tokens,output_tokens\n0,1,1\n0,1,1\n' >"$T/l"
    run -3 --separate-stderr serve --now 12 --load "$T/l"
    [[ "$stderr" == *'no rate'* ]]
}

@test "holes in a profile are named" {
    jq 'del(.serve.cells[] | select(.M == 4 and .B == 2))' "$job" >"$T/j"
    fails 3 data.value spot-plan serve --job "$T/j" --now 5 --rate 1
    at "$T/j" 22 14 /serve/cells
    jq '.serve.prompt_token = 5' "$job" >"$T/j"
    run -0 --separate-stderr spot-plan serve --job examples/serve/gpt-6.7b.json --now 5 --rate 1 -o "$T/p"
    [ -z "$stderr" ]
}

@test "a job that trains refuses a plan to serve" {
    serve --now 3 --rate .1 >"$T/p"
    run -1 --separate-stderr timeout 60 spot-run train -q --data LICENSE --layers 1 --width 32 --heads 2 --seq 16 \
        --shards 2 --steps 2 --workers 1 --plan "$T/p"
    [[ "$stderr" == *'the plan is for serving, but this job trains'* ]]
}

@test "machines that are long in coming make a plan that bears them" {
    p99() { ours --now 8 --rate .4 "$@" | jq .expected.e2e_p99_s; }
    jq -ne --argjson soon "$(p99 --loss-per-h .3 --boot 1m)" --argjson late "$(p99 --loss-per-h .3 --boot 30m)" '$late > $soon'
}
