#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-replay serve: its columns, what it refuses, and SpotServe's published numbers.

bats_require_minimum_version 1.5.0
load errors

setup() {
    top=$PWD
    job=$top/examples/serve/gpt-20b.json
    cd "$BATS_TEST_TMPDIR"
    set -o pipefail # jq -e of nothing is 0
    printf 'time_s,available\n0,8\n600,5\n1200,9\n2400,8\n' >t.csv
    spot-replay generate --kind load --rate .3 --requests 700 >l.csv
}

serve() { spot-replay serve --job "$job" --trace t.csv --load l.csv "$@"; }

@test "a row for each policy, in the columns that scripts rely on" {
    serve >out.csv
    [ "$(head -n 1 out.csv | cut -d, -f1-18)" = 'policy,requests,finished,lost,repeated,ttft_p50_s,ttft_p99_s,tbt_p50_s,tbt_p99_s,e2e_mean_s,e2e_p50_s,e2e_p90_s,e2e_p99_s,unanswered,slo_share,tokens,usd,usd_per_mtoken' ]
    [ "$(cut -d, -f1 out.csv | sed 1d | xargs)" = 'rerouting reparallelization spotserve spotserve-released spot clairvoyant' ]
    awk -F, 'NR > 1 { if ($2 != 700 || $3 != 700 || $4 != 0 || $16 != 700 * 128 ||
        !($6 <= $7 && $8 <= $9 && $11 <= $12 && $12 <= $13)) exit 1 }' out.csv
    # 600 * 8 + 600 * 5 + 1200 * 9 instance-seconds at 1.9046 USD/h
    awk -F, 'NR > 1 && $1 != "spot" && $1 != "clairvoyant" { d = $17 - 18600 / 3600 * 1.9046; if (d * d > 1e-12) exit 1
        d = $18 - $17 / 89600 * 1e6; if (d * d > 1e-9) exit 1 }' out.csv
    serve | cmp - out.csv
}

@test "on demand costs its own price, and an SLO counts who keeps it" {
    serve --policy on-demand-8,on-demand-6 --slo e2e=25s,ttft=20s --format jsonl >out
    jq -es 'length == 2 and .[0].policy == "on-demand-8" and (.[0].usd - 8 * 2400 / 3600 * 3.912 | fabs) < 1e-9
        and .[0].changes == 0 and .[0].repeated == 0 and .[0].slo_share > .[1].slo_share and .[1].slo_share > 0' out
    serve --policy on-demand-8 --slo e2e=1s --format jsonl | jq -e '.slo_share == 0'
    serve --policy list | grep -q '^reparallelization '
    serve --policy spotserve --format table | grep -q '^spotserve  *700 '
}

@test "steps add up to the totals, and a picture shows them" {
    serve --policy spot,spotserve --steps --interval 5m >steps.csv
    [ "$(head -n 1 steps.csv)" = 'policy,time_s,there,held,D,P,M,arrived,in_system,e2e_p50_s,e2e_p99_s,unanswered,usd,losses,decided_s,usable,waiting,runs,asked_D,asked_P,asked_M,spares,state' ]
    # what was decided fits on what was there; the rule of another has no such decision
    awk -F, '$1 == "spot" { if ($15 > $2 || $16 > $3 || $19 * $20 * $21 > 4 * $16) exit 1; n += $23 ~ /^serve / }
        $1 == "spotserve" && $15 $23 != "" { exit 1 } END { exit n < 7 }' steps.csv
    serve --policy spot,spotserve >out.csv
    for policy in spot spotserve; do
        awk -F, -v p="$policy" 'NR == FNR { if ($1 == p) usd = $17; next }
            $1 == p { sum += $13; lost += $14; if ($4 > $3 || $5 * $6 * $7 > 4 * $3) exit 1 }
            END { d = usd - sum; exit d * d > 1e-12 || lost != 3 }' out.csv steps.csv
    done
    serve --policy spot,on-demand-6 --plot p.gp >out.csv
    grep -q 'P99 of requests by when they came' p.gp
    grep -q 'instances lost' p.gp
    [ "$(wc -l <out.csv)" = 3 ]
}

@test "a panel without data says so, and gnuplot has nothing to say" {
    printf 'time_s,available\n0,12\n60,12\n' >short.csv
    printf 'time_s,available\n0,0\n60,0\n' >none.csv
    printf 'time_s,prompt_tokens,output_tokens\n100,512,128\n110,512,128\n' >late.csv
    for trace in short none; do
        for plot in - p.svg p.png; do
            run -0 --separate-stderr spot-replay serve --job "$job" --trace $trace.csv --load late.csv --policy spot --plot $plot -q
            [ -z "$stderr" ]
            [ $plot = - ] || [[ "$output" == policy,*spot,2,* ]]
        done
        spot-replay serve --job "$job" --trace $trace.csv --load late.csv --policy spot --plot - -q >drawn
        [ "$(grep -c 'no data' drawn)" = "$([ $trace = none ] && echo 2 || echo 1)" ]
    done
}

@test "the future is not known: what comes later changes no earlier step" {
    awk -F, 'NR == 1 || $1 <= 1500' t.csv >cut.csv
    printf '2400,9\n' >>cut.csv
    awk -F, 'NR == 1 || $1 <= 1500 || $1 > 1500 && NR % 7 == 0' l.csv >lcut.csv
    for policy in rerouting reparallelization spotserve spot; do
        spot-replay serve --job "$job" --trace t.csv --load l.csv --policy "$policy" --steps | awk -F, '$2 < 1380' | cut -d, -f1-9 >a
        spot-replay serve --job "$job" --trace cut.csv --load lcut.csv --policy "$policy" --steps | awk -F, '$2 < 1380' | cut -d, -f1-9 >b
        cmp a b
        [ "$(wc -l <a)" = 23 ]
    done
}

@test "ours answers sooner for less than the published rule, and gives back what it does not need" {
    printf 'time_s,available\n0,10\n500,9\n700,10\n1100,8\n1400,12\n1900,11\n2400,11\n' >t.csv
    serve --policy spotserve,spot --rate .35 | awk -F, '{ p[$1] = $13; u[$1] = $18 }
        END { exit !(p["spot"] < .9 * p["spotserve"] && u["spot"] < .9 * u["spotserve"]) }'
}

@test "a load on another clock than the trace is warned of" {
    run -0 --separate-stderr serve --policy spotserve
    [ -z "$stderr" ]
    awk -F, -v OFS=, 'NR > 1 { $1 += 1e6 } 1' l.csv >late.csv
    run -0 --separate-stderr spot-replay serve --job "$job" --trace t.csv --load late.csv --policy spotserve
    [[ "$stderr" == *'700 of 700 requests come after the trace ends at 2400 s'*'the same clock?'* ]]
    awk -F, -v OFS=, 'NR > 1 { $1 += 1e6 } 1' t.csv >moved.csv
    run -0 --separate-stderr spot-replay serve --job "$job" --trace moved.csv --load l.csv --policy spotserve
    [[ "$stderr" == *'700 of 700 requests come before the trace begins at 1000000 s'* ]]
}

@test "the rest of the load's lengths is only taken if asked" {
    sed 's/,128$/,100/' l.csv >short.csv
    fails 3 data.value spot-replay serve --job "$job" --trace t.csv --load short.csv
    at short.csv 2 10
    serve >want
    spot-replay serve --job "$job" --trace t.csv --load short.csv --arrivals-only | cmp - want
}

@test "what cannot be played is refused" {
    run -2 serve --policy best
    run -2 serve --policy on-demand-0
    run -2 serve --slo p99=3s
    run -2 --separate-stderr serve --slo ttft-p95=9s,e2e-p99=3s
    [[ "$stderr" == *'first token come after 9 s and the last after 3 s'* ]]
    run -2 serve --plot x.doc
    run -2 serve --slo e2e
    run -2 spot-replay serve --job "$job" --trace t.csv
    run -1 --separate-stderr serve --policy on-demand-2
    [[ "$stderr" == *'2 of 4 GPUs do not hold the model'* ]]
    fails 3 data.value spot-replay serve --job "$top/examples/jobs/demo.json" --trace t.csv --load l.csv
    at "$top/examples/jobs/demo.json" 4 11 /kind
    printf 'time_s,available\n0,3\n60,4097\n' >many.csv
    fails 3 data spot-replay serve --job "$job" --trace many.csv --load l.csv
    printf 'time_s,zone,available\n0,a,4000\n60,a,4000\n60,b,97\n' >many.csv
    fails 3 data spot-replay serve --job "$job" --trace many.csv --load l.csv
    printf 'time_s,prompt_tokens,output_tokens\n5,512,128\n' >one.csv
    spot-replay serve --job "$job" --trace t.csv --load one.csv --rate .1 --policy spotserve | grep -q '^spotserve,1,1,0,0,'
}

@test "a trace shorter than the grace period, and one that breaks off, are played to the end" {
    printf 'time_s,available\n0,8\n10,7\n' >t.csv
    serve --policy spotserve,spot,clairvoyant | awk -F, 'NR > 1 { if ($3 != 700 || $4 != 0) exit 1; n++ } END { exit n != 3 }'
    printf 'time_s,available\n0,6\n300,0\n600,6\n605,1\n900,9\n' >t.csv # nothing survives, twice
    serve --policy spotserve,spot,clairvoyant | awk -F, 'NR > 1 { if ($3 + $4 != 700) exit 1; n++ } END { exit n != 3 }'
}

@test "instances that never come answer nobody" {
    printf 'time_s,available\n0,2\n100,2\n' >t.csv
    # a P99 is of those that were answered; the share of the others stands beside it
    printf 'time_s,available\n0,8\n1200,0\n2400,0\n' >half.csv
    spot-replay serve -q --job "$job" --trace half.csv --load l.csv --policy rerouting,spot --plot p.gp |
        awk -F, 'NR > 1 { d = $14 - $4 / $2; if (!$4 || d * d > 1e-18) exit 1; n++ } END { exit n != 2 }'
    grep -q 'unanswered' p.gp
    spot-replay serve -q --job "$job" --trace half.csv --load l.csv --policy rerouting --until-end | awk -F, 'NR == 2 { exit $14 < $4 / $2 }'
    spot-replay serve -q --job "$job" --trace half.csv --load l.csv --policy rerouting --steps --interval 10m |
        awk -F, 'NR > 1 { n += $8 * $12 } END { exit n < 200 }'
    serve --policy spotserve,rerouting | awk -F, 'NR > 1 && ($3 != 0 || $4 != 700 || $16 != 0) { exit 1 }'
}

# docs/results/serve.md has all twelve pairs and what is off.
@test "SpotServe's published pairs where the simulator has them within 10 %" {
    data=$top/../shared/data/golden/spotserve
    [ -d "$data" ] || skip "no reference data here"
    pair() { # TRACE END POLICY MEAN P99 (0: not within 10 %) [OPTION...]
        awk -F, 'NR == 1 { print "time_s,event,node"; next } $2 == "add" || $2 == "remove" {
            n = split($3, node, ";"); for (i = 1; i <= n; i++) print $1 "," $2 ",n" node[i] }' \
            "$data/trace_$1.csv" >t.csv
        spot-replay generate -q --kind load --arrivals spotserve --rate .35 --hours "$(awk "BEGIN { print $2 / 3600 }")" >l.csv
        serve --rate .4 --policy "$3" "${@:6}" | awk -F, -v mean="$4" -v p99="$5" 'NR == 2 {
            if (mean && ($10 / mean > 1.1 || $10 / mean < .9)) exit 1
            if (p99 && ($13 / p99 > 1.1 || $13 / p99 < .9)) exit 1 }'
    }
    pair A_S 1320 reparallelization 0 61.287
    pair A_S 1320 spotserve 23.518 0
    pair A_S 1320 rerouting 26.333 51.008 --capacity 10 --pool 100
    pair B_S 1020 rerouting 47.57 99.115 --capacity 10 --pool 100
    pair B_SO 720 rerouting 24.58 43.239 --capacity 10 --pool 100
    pair B_S 1020 reparallelization 27.068 0
    pair B_S 1020 spotserve 23.315 37.083
    pair A_SO 1380 reparallelization 0 65.816
    pair A_SO 1380 spotserve 23.416 0
    pair B_SO 720 reparallelization 31.915 0
}

# The published profile with slopes: prompts and contexts in proportion.
lengths() {
    jq '.serve.context = 2048 | .serve.cells |= map(.prefill_token_s = .9 * .prefill_s / 512 | .decode_token_s = .2 * .decode_s / 640)' "$job" >len.json
    spot-replay generate --kind load --rate .1 --requests 300 --prompt-tokens lognormal:400:.7 --output-tokens lognormal:100:.7 \
        --context 2048 >l.csv
}

@test "lengths are free under a profile that knows them, up to its context" {
    lengths
    run -3 --separate-stderr serve
    [[ "$stderr" == *"--arrivals-only"* ]]
    job=$PWD/len.json
    serve --policy all >out.csv
    tokens=$(awk -F, 'NR > 1 { sum += $3 } END { print sum }' l.csv)
    awk -F, -v t="$tokens" 'NR > 1 && ($3 != 300 || $16 != t) { exit 1 }' out.csv
    jq '.serve.context = 700' len.json >short.json
    job=$PWD/short.json
    run -3 --separate-stderr serve
    [[ "$stderr" == *"are above the context, 700"* ]]
    jq '.serve.context = 600' len.json >short.json
    run -3 --separate-stderr serve
    [[ "$stderr" == *"/serve/context:"* ]]
    jq 'del(.serve.cells[3].prefill_token_s)' len.json >short.json
    run -3 --separate-stderr serve
    [[ "$stderr" == *"/serve/cells/3:"* ]]
    jq '.serve.spread = [1, .5]' len.json >short.json
    run -3 --separate-stderr serve
    [[ "$stderr" == *"/serve/spread/1:"* ]]
    printf 'time_s,prompt_tokens,output_tokens\n0,0,5\n' >l.csv
    job=$PWD/len.json
    run -3 --separate-stderr serve
    [[ "$stderr" == *"l.csv:2:3: "* ]]
}

@test "batches pass by pass lose no work, a spread is drawn from the seed, and a plan is of the lengths that come" {
    lengths
    job=$PWD/len.json
    serve --policy rerouting,spotserve,spot --batching passes >passes.csv
    awk -F, 'NR > 1 && ($3 != 300 || $5 != 0) { exit 1 }' passes.csv # whoever is lost goes on behind the last token
    serve --policy rerouting --batching shared >shared.csv
    awk -F, 'NR == FNR { if (FNR == 2) x = $10; next } FNR == 2 { exit !(x < $10) }' passes.csv shared.csv
    jq '.serve.spread = [.5, 1, 1, 1, 1.5]' len.json >spread.json
    job=$PWD/spread.json
    serve --policy spotserve --seed 1 >a
    serve --policy spotserve --seed 1 | cmp - a
    run ! cmp <(serve --policy spotserve --seed 2) a
    longer=$(awk -F, 'NR > 1 { $2 = $2 > 1000 ? $2 : 2 * $2; $3 = $3 > 500 ? $3 : 2 * $3 } { print $1 "," $2 "," $3 }' l.csv | tee l2.csv |
        spot-plan serve --job <(jq 'del(.serve.context)' len.json) --now 10 --load - | jq .expected.latency_s)
    spot-plan serve --job len.json --now 10 --load l.csv | jq -e --argjson longer "$longer" '.expected.latency_s < $longer'
}

# conversations: each turn goes on from the one before it
sessions() {
    awk 'BEGIN { srand(4); print "time_s,prompt_tokens,output_tokens,blocks"
        for (i = 0; i < 400; i++) { s = int(rand() * 12); n[s] = n[s] < 7 ? n[s] + 1 : 1; if (n[s] == 1) id[s] = i
            printf "%.3f,%d,40,256:%d-%d\n", 12 * i + 5 * rand(), 256 * n[s], 8 * id[s], 8 * id[s] + n[s] - 1 } }' >s.csv
}

@test "prompts that a replica holds are not computed, and a plan counts on that" {
    lengths
    sessions
    job=$PWD/len.json
    printf 'time_s,available\n0,8\n4800,8\n' >t.csv
    play() { spot-replay serve --job "$job" --trace t.csv --load s.csv "$@"; }
    for batching in pools shared passes; do
        play --policy rerouting --batching $batching >none.csv
        play --policy rerouting --batching $batching --cache-tokens 1000000 >all.csv
        play --policy rerouting --batching $batching --cache-tokens 4096 >some.csv
        cut -d, -f1-20 none.csv | awk -F, 'NR == 2 { exit !($3 == 400) }'
        paste -d, none.csv some.csv all.csv | awk -F, 'NR == 2 { exit !($21 == 0 && $42 > 0 && $42 < $63 && $63 > .5 &&
            $6 > $48 && $10 > $52) }' # the first token and the end come sooner
    done
    play --policy spot --cache-tokens 1000000 >cached.csv
    play --policy spot >plain.csv
    paste -d, cached.csv plain.csv | awk -F, 'NR == 2 { exit !($21 > .5 && $10 < $31) }'
    ours() { spot-plan serve --job "$job" --now 8 --load s.csv "$@"; }
    ours --cache-tokens 1000000 | jq -e --argjson plain "$(ours | jq .expected.latency_s)" \
        '.expected.latency_s < $plain and any(.why[]; test("cache"))'
    run -3 spot-replay serve --job "$job" --trace t.csv --load l.csv --cache-tokens 1000
    job=$top/examples/serve/gpt-20b.json
    run -3 spot-replay serve --job "$job" --trace t.csv --load s.csv --cache-tokens 1000
    run -2 spot-replay serve --job "$job" --trace t.csv --load s.csv --cache-tokens 1000 --arrivals-only
}

@test "Mooncake's hash_ids become blocks, and a load with them is cut and read again" {
    printf '{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 1000, "input_length": 1536, "output_length": 7, "hash_ids": [0, 1, 9]}
{"timestamp": 2000, "input_length": 3, "output_length": 7}\n' >m.jsonl
    spot-replay import --from mooncake m.jsonl >m.csv
    cmp m.csv <(printf 'time_s,prompt_tokens,output_tokens,blocks\n0,1100,5,512:0-2\n1,1536,7,512:0-1 9\n2,3,7,\n')
    sed '2d' m.csv | spot-predict --kind load - >/dev/null
    for ids in '"x"' '[1.5, 2]' '[-1]' '[1, 2, 3, 4]' '[4294967296]'; do
        printf '{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": %s}\n' "$ids" >bad.jsonl
        fails 3 data.value spot-replay import --strict --from mooncake bad.jsonl
    done
}

@test "moves take their bytes over the links that were measured" {
    jq -n '{schema: "spot.layout/1", model: {layers: 48, width: 6144, ffn: 24576, heads: 48, vocab: 51200, positions: 640, bias: true, tied: true},
        components: [{name: "w", byte_per_param: 4}], grid: {D: 1, P: 3, M: 4}}' >layout.json
    p99() { serve --rate .4 --policy spotserve "$@" | awk -F, 'NR == 2 { print $13 }'; }
    [ "$(p99 --layout layout.json --link-rate 1e15)" = "$(p99 --switch 0)" ] # at once
    awk -v fast="$(p99 --layout layout.json --link-rate 6.25e9)" -v slow="$(p99 --layout layout.json --link-rate 2e9)" \
        'BEGIN { exit !(fast <= slow) }'
    run -2 serve --layout layout.json
}

@test "a gain that a loss follows is one change, and latencies may be of those answered in time" {
    printf 'time_s,available\n0,8\n600,10\n620,7\n1200,8\n' >t.csv
    [ "$(serve --policy reparallelization --rate .4 | awk -F, 'NR == 2 { print $19 }')" = 4 ]
    [ "$(serve --policy reparallelization --rate .4 --merge 30s | awk -F, 'NR == 2 { print $19 }')" = 3 ]
    serve --policy spotserve --rate .4 >all.csv
    serve --policy spotserve --rate .4 --until-end >some.csv
    awk -F, 'NR == FNR { if (FNR == 2) t = $16; next } FNR == 2 { exit !($16 < t && $3 == 700) }' all.csv some.csv
}

@test "a profile is fitted to the log of a server, and plays" {
    awk 'BEGIN { print "{\"schema\":\"spot.event/1\",\"event\":\"formed\",\"time_s\":0,\"view\":0}"
        for (i = 1; i <= 40; i++) { p = 20 + i % 7 * 10; o = 10 + i % 5 * 10; f = .1 + .002 * p; e = f + .05 * (o - 1)
            printf "{\"schema\":\"spot.event/1\",\"event\":\"request\",\"time_s\":%g,\"epoch\":1,\"step\":%d,\"id\":\"r%d\",\"came_s\":%g,\"queue_s\":0,\"ttft_s\":%g,\"e2e_s\":%g,\"prompt_tokens\":%d,\"output_tokens\":%d,\"choices\":1,\"finish\":\"done\"}\n", 10 * i + e, i, i, 10 * i, f, e, p, o } }' >log
    spot-run profile --serve log --replicas 1 -o p.json
    # a first token has its prompt and its own pass
    jq -e '.serve | (.cells[0].decode_s - .05 | fabs) < .001 and (.cells[0].prefill_token_s - .002 | fabs) < .0001
        and (.cells[0].prefill_s - (.1 + .002 * .prompt_tokens - .05) | fabs) < .003 and (.spread[0] - 1 | fabs) < .01
        and .parts_add_up' p.json
    printf 'time_s,available\n0,1\n1000,1\n' >t.csv
    spot-replay import -q --from spot-serve <(grep request log) -o l.csv
    job=$PWD/p.json
    serve --policy on-demand-1 --batching passes >out.csv
    awk -F, 'NR == 2 { exit !($3 == 40 && $11 > .9 && $11 < 2.5) }' out.csv
    # a server that fills its batches does so at any rate that the rule is told
    jq '.serve |= (.max_batch = 4 | .cells = [.cells[0] | (.B = 1, .B = 2, .B = 4)])' p.json >four.json
    awk -F, -v OFS=, 'NR > 1 { $1 /= 8 } 1' l.csv >dense.csv
    for rate in .001 100; do
        spot-replay serve --job four.json --trace t.csv --load dense.csv --policy rerouting --batching passes --rate $rate >rate$rate.csv
    done
    cmp rate.001.csv rate100.csv
    run -2 spot-run profile --serve log --max-batch 3
    head -n 3 log >few
    fails 3 data spot-run profile --serve few --replicas 1
}

@test "an instance that boots longer, and a longer pause at a change, make answers later" {
    mean() { serve --policy spot "$@" | awk -F, 'NR == 2 { print $10 }'; }
    awk -v a="$(mean)" -v b="$(mean --boot 10m)" 'BEGIN { exit !(a < b) }'
}
