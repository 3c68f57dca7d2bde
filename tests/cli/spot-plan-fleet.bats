#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# spot-plan fleet: Melange's example as a document, quotas, and what it refuses.

bats_require_minimum_version 1.5.0
load errors

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail
}

fleet() { spot-plan fleet --kind serve --catalogue "${c:-examples/fleet/melange.csv}" --load "${l:-examples/fleet/melange.json}" --no-provenance "$@"; }

@test "the example costs what was published, and less without slices" {
    fleet --policy melange --slices 1 | jq -e '.kind == "fleet" and (.expected.usd_per_h - 6.70 | fabs) < 1e-9
        and [.buy[] | {instance_type, count, market}] == [{instance_type: "A10G", count: 3, market: "on-demand"},
            {instance_type: "A100-80GB", count: 1, market: "on-demand"}]'
    fleet --policy melange --slices 4 | jq -e '(.expected.usd_per_h - 5.69 | fabs) < 1e-9'
    fleet --rho 1 | jq -e '(.expected.usd_per_h - 4.68 | fabs) < 1e-9 and .gap == 0 and .bound == .expected.usd_per_h
        and ([.route[] | .share] | add - 4 | fabs) < 1e-9'
    fleet | jq -e '.expected.usd_per_h > 4.68'
    fleet --format table | grep -q '^ *A10G\|A100'
}

@test "quotas, zones and spot are those of the catalogue, and worth what they save" {
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone,quota\nA10G,.4,.3,a,1\nA100-80GB,1.2,3.67,a,9\n' >"$T/c"
    c=$T/c fleet --market spot | jq -e 'all(.buy[]; .market == "spot" and .zone == "a")'
    run -0 --separate-stderr env c="$T/c" bash -c "spot-plan fleet --catalogue $T/c --load examples/fleet/melange.json --explain -o $T/p"
    [[ "$stderr" == *'one more of the quota of A10G in a, on-demand, is worth'* ]]
}

@test "machines of several zones and markets are told apart" {
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone,quota\nA10G,.4,.9,a,4\nA10G,.4,.9,b,4\nA10G,,1,,\n' >"$T/c"
    c=$T/c fleet --market both | jq -r '.why[]' >"$T/why"
    grep -Eq '^[0-9]+ x A10G in a, spot: [0-9.]+ % busy$' "$T/why"
    grep -Eq '^[0-9]+ x A10G in b, spot: [0-9.]+ % busy$' "$T/why"
    grep -Eq '^[0-9]+ x A10G in [ab], on-demand: [0-9.]+ % busy$' "$T/why"
    [ -z "$(sort "$T/why" | uniq -d)" ]
}

replicas() { spot-plan fleet --kind replicas --catalogue "$T/r.csv" --forecast "$T/f" --no-provenance "$@"; }

zones() { # a forecast of two zones, their prices
    { echo time_s,zone,instance_type,available
      for z in us-1a eu-1a; do for i in $(seq 0 49); do echo "$((i * 300)),$z,g,$((i / 7 % 3))"; done; done; } >"$T/t.csv"
    spot-predict --interval 300 --horizon 2 "$T/t.csv" >"$T/f"
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h\ng,.9,3\n' >"$T/r.csv"
}

@test "a fleet that misses a high aim can be asked again" {
    zones
    for _ in 1 2 3; do
        replicas --n 2 --availability .999999 --state "$T/s" | jq -e '[.buy[].count] | add >= 2'
        awk '!($2 > 0 && $2 <= 1e5) { exit 1 }' "$T/s"
    done
}

@test "replicas refuse what they do not look at, and two types for a series of none" {
    zones
    for option in --market=on-demand --unserved=.5 --time=5 --format=table --explain; do
        run -2 replicas --n 2 "$option"
    done
    cut -d, -f1,2,4 "$T/t.csv" | spot-predict --interval 300 --horizon 2 >"$T/f"
    replicas --n 2 | jq -e '.buy | length > 0'
    echo 'h,.8,2' >>"$T/r.csv"
    run -3 --separate-stderr replicas --n 2
    [[ "$stderr" == *'r.csv:3:'*type* ]]
}

@test "a plan that is not written leaves the state, to serve, to train, of replicas" {
    zones
    run -4 replicas --n 2 --state "$T/s" -o "$T/none/p"
    run -4 spot-plan serve --job examples/serve/gpt-20b.json --now 24 --rate .35 --state "$T/s" -o "$T/none/p"
    run -4 spot-plan train --job examples/jobs/demo.json --now 6 --state "$T/s" -o "$T/none/p"
    [ ! -e "$T/s" ]
    replicas --n 2 --state "$T/s" -o "$T/p"
    [ -s "$T/s" ] && [ -s "$T/p" ]
}

@test "what is not held has to be granted, and zones of a region fall together as the forecast says" {
    { echo time_s,zone,instance_type,available
      for z in us-1a us-1b; do for i in $(seq 0 49); do echo "$((i * 300)),$z,A10G,$((i / 7 % 2 * 2 + 8))"; done; done; } >"$T/t.csv"
    spot-predict --interval 300 --horizon 2 "$T/t.csv" >"$T/f"
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone\nA10G,.3,1,us-1a\nA10G,.31,1,us-1b\nA100-80GB,,3.67,\n' >"$T/c"
    buys() { c=$T/c fleet --forecast "$T/f" "$@"; }
    jq -e '.regions | length == 1' "$T/f"
    buys -o "$T/plain"
    jq -e '[.why[] | select(test("^us-1: its zones are lost together"))] | length == 1' "$T/plain"
    jq '.series |= map(. + {start: {granted: .2, stays_1h: .5, stays: [.9, .9], probe_age_s: 0, probes: 9}})' "$T/f" >"$T/g"
    mv "$T/g" "$T/f"
    buys -o "$T/asked"
    jq -e '[.buy[] | select(.market == "spot")] == []' "$T/asked"
    jq -e '[.why[] | select(test("what is not held is granted with 0.20"))] | length == 2' "$T/asked"
    # a fleet that has its machines needs no grant
    buys --current "$T/plain" | jq -e --slurpfile was "$T/plain" '[.buy[] | select(.market == "spot").count] | add > 0'
}

@test "what cannot be answered is infeasible, and says what would do" {
    printf 'instance_type,on_demand_usd_per_h,quota\nA10G,1.01,2\nA100-80GB,3.67,0\n' >"$T/c"
    c=$T/c run -1 --separate-stderr fleet
    [[ "$stderr" == *'binding are those of A10G (2)'*'requests/s would do'* ]]
    jq '.buckets[1].per_s = {"A10G": 0}' examples/fleet/melange.json >"$T/l"
    l=$T/l run -1 --separate-stderr fleet
    [[ "$stderr" == *'bucket short-long: no instance type can serve it'* ]]
}

@test "bad catalogues and loads are refused with their place" {
    printf 'instance_type,on_demand_usd_per_h,quota\nA10G,1.01,-3\n' >"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'/c:2:'*quota* ]]
    printf 'instance_type,on_demand_usd_per_h,quota\nA10G,-1,\n' >"$T/c"
    c=$T/c run -3 fleet
    printf 'instance_type,on_demand_usd_per_h\nA10G,\n' >"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'no row has a price'* ]]
    jq '.buckets[0].per_s.A10G = -2' examples/fleet/melange.json >"$T/l"
    l=$T/l run -3 --separate-stderr fleet
    [[ "$stderr" == *'/buckets/0/per_s/A10G'* ]]
    jq '.buckets[2].rate_per_s = "x"' examples/fleet/melange.json >"$T/l"
    l=$T/l run -3 --separate-stderr fleet
    [[ "$stderr" == *'/buckets/2'* ]]
    printf 'time_s,prompt_tokens,output_tokens\n0,8,3\n600,7,3\n1200,8,3\n' | spot-predict --kind load >"$T/f"
    run -3 --separate-stderr fleet --forecast "$T/f"
    [[ "$stderr" == *'/model: a forecast of load, expected one of instances'* ]]
    run -2 fleet --slices 3
    run -2 fleet --policy melange
    run -2 fleet --rho 1.5
    { echo instance_type,on_demand_usd_per_h; echo A10G,1.01; seq 9999 | sed 's/.*/t&,1/'; } >"$T/c"
    c=$T/c fleet | jq -e '.buy == [{zone: "", instance_type: "A10G", market: "on-demand", count: 14}]'
    echo t0,1 >>"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'more than 10000 offers'* ]]
    # two types in 5,000 zones, a machine in each
    awk 'BEGIN { print "instance_type,on_demand_usd_per_h,zone,quota"
        for (z = 0; z < 5000; z++) printf "A10G,%.5f,z%d,1\nA100-80GB,%.5f,z%d,1\n", 1 + z * 7919 % 5000 / 1e4, z, 3.5 + z * 104729 % 5000 / 1e4, z }' >"$T/c"
    c=$T/c fleet --explain -o "$T/p" 2>/dev/null
    jq -e '.gap == 0 and all(.buy[]; .count == 1) and (.buy | length) < 20' "$T/p"
    for quota in 1e30 1.5 99999999999999999999; do
        printf 'instance_type,on_demand_usd_per_h,quota\nA10G,1.01,%s\n' $quota >"$T/c"
        c=$T/c run -3 --separate-stderr fleet
        [[ "$stderr" == *'/c:2:'*quota* ]]
    done
}

@test "a demand above 0 needs a machine, however small it is" {
    printf 'instance_type,on_demand_usd_per_h\nA10G,1\n' >"$T/c"
    for rate in 1e-300 1e-9 1e-7; do
        echo '{"schema": "spot.demand/1", "buckets": [{"name": "b", "rate_per_s": '$rate', "per_s": {"A10G": 1}}]}' >"$T/l"
        l=$T/l c=$T/c fleet | jq -e '[.buy[].count] == [1] and (.route | length) == 1 and .gap == 0'
    done
    echo '{"schema": "spot.demand/1", "buckets": [{"name": "b", "rate_per_s": 0, "per_s": {"A10G": 1}}]}' >"$T/l"
    l=$T/l c=$T/c fleet | jq -e '.buy == []'
}

@test "what would take too many machines is said so" {
    printf 'instance_type,on_demand_usd_per_h\nA10G,1\n' >"$T/c"
    echo '{"schema": "spot.demand/1", "buckets": [{"name": "b", "rate_per_s": 1, "per_s": {"A10G": 1e-300}}]}' >"$T/l"
    l=$T/l c=$T/c run -1 --separate-stderr fleet
    [[ "$stderr" == *'bucket b: it would take 1.111e+300 machines'*'the most are 1e+09'* ]]
}

# 10,000 offers of 500 types in 20 zones each, ten buckets that each type answers
many() {
    awk 'BEGIN { srand(1); print "instance_type,on_demand_usd_per_h,zone,quota"
        for (i = 0; i < 10000; i++) printf "t%d,%.3f,r%dz%d,%d\n", i % 500, 1 + 14 * rand(), i % 7, i % 3, int(21 * rand()) }' >"$T/c"
    awk 'BEGIN { srand(2); printf "{\"schema\": \"spot.demand/1\", \"buckets\": ["
        for (b = 0; b < 10; b++) { printf "%s{\"name\": \"b%d\", \"rate_per_s\": %.2f, \"per_s\": {", b ? "," : "", b, 5 + 50 * rand()
            for (t = 0; t < 500; t++) printf "%s\"t%d\": %.2f", t ? "," : "", t, .5 + 4.5 * rand(); printf "}}" } print "]}" }' >"$T/l"
}

@test "of 10,000 offers there is a fleet when the time runs out, and its gap is told" {
    many
    l=$T/l c=$T/c fleet --limit 1s --explain -o "$T/p" 2>"$T/why"
    jq -e '.gap > 0 and .gap < .1 and .bound < .expected.usd_per_h and ([.route[].share] | add - 10 | fabs) < 1e-6' "$T/p"
    grep -q 'time ran out' "$T/why"
    # each machine is one of the catalogue's, within its quota, and none does more than .9 of what it can
    jq -r '.buy[] | [.instance_type, .zone, .count] | @csv' "$T/p" | tr -d '"' | while IFS=, read -r type zone n; do
        awk -F, -v t="$type" -v z="$zone" -v n="$n" '$1 == t && $3 == z && n <= $4 { ok = 1 } END { exit !ok }' "$T/c"
    done
    jq -n -e --slurpfile p "$T/p" --slurpfile l "$T/l" '($l[0].buckets | map({key: .name, value: .}) | from_entries) as $b
        | all($p[0].buy[]; . as $m | ([$p[0].route[] | select(.instance_type == $m.instance_type and .zone == $m.zone)
            | $b[.bucket].rate_per_s * .share / $b[.bucket].per_s[.instance_type]] | add) <= .9 * $m.count + 1e-5)'
}

@test "a catalogue without a price in the market is refused" {
    run -3 --separate-stderr fleet --market spot
    [[ "$stderr" == *"market 'spot'" ]]
    printf 'instance_type,zone\nA10G,a\n' >"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'/c:1: header lacks the prices: expected a column on_demand_usd_per_h or spot_usd_per_h' ]]
    fails 3 data spot-plan fleet --kind train --catalogue "$T/c" --job examples/jobs/demo.json --samples 9 --deadline 1h
    printf 'instance_type,on_demand_usd_per_h\n' >"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'/c: no row under the header' ]]
}

# forecast: three zones of A10G, $1 machines each with probability 1 - $2, none with $2
forecast() {
    jq -n --argjson cap "$1" --argjson gone "$2" '{schema: "spot.forecast/1", interval_s: 300, horizon: 2, series: [
        ("us-east-1a", "us-east-1b", "us-west-2a") | {zone: ., instance_type: "A10G", time_s: 600, now: $cap, cap: $cap,
            available: [{step: 1, p: ([$gone] + [range($cap - 1) | 0] + [1 - $gone])},
                {step: 2, p: ([$gone] + [range($cap - 1) | 0] + [1 - $gone])}],
            change: [{lost: 0, gained: 0, p: (1 - $gone)}, {lost: $cap, gained: 0, p: $gone}]}]}' >"$T/f"
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone\nA10G,.30,,us-east-1a\nA10G,.31,,us-east-1b\nA10G,.32,,us-west-2a\nA10G,,1.01,\nA100-80GB,,3.67,\n' >"$T/c"
}

risky() { c=$T/c fleet --forecast "$T/f" "$@"; }

@test "under a forecast: dearer the likelier zones go, its promise kept by scenarios it has not seen" {
    forecast 9 0.001
    risky >"$T/safe"
    forecast 9 0.05
    risky --explain -o "$T/p" 2>"$T/why"
    jq -e --slurpfile safe "$T/safe" '.expected.usd_per_h > $safe[0].expected.usd_per_h and .gap <= .0051 and .bound <= .expected.usd_per_h
        and .expected.unserved_tail <= .01 + 1e-9 and .expected.fresh.unserved_tail < .03 and .time_s == 600
        and any(.buy[]; .market == "spot") and any(.buy[]; .market == "on-demand")' "$T/p"
    grep -q -- '--unserved 0.02 instead of 0.01 is worth' "$T/why"
    risky --unserved .2 | jq -e --slurpfile p "$T/p" '.expected.usd_per_h < $p[0].expected.usd_per_h'
    cmp <(risky --seed 3) <(risky --seed 3)
    jq '.series |= .[:1]' "$T/f" >"$T/one" # of the others nothing is known
    c=$T/c fleet --forecast "$T/one" | jq -e 'all(.buy[]; .market == "on-demand" or .zone == "us-east-1a") and any(.why[]; test("not in the forecast"))'
}

@test "what scenarios there are, and others on which the plan is tested" {
    forecast 9 0.05
    risky | jq -e '.expected.scenarios == 1000 and .expected.fresh.scenarios == 2000'
}

@test "caps of zones are kept" {
    forecast 9 0.01
    sed -i '/^A100-80GB/d' "$T/c"
    risky --zone-max 2 | jq -e '([.buy[] | select(.zone != "") | {zone, count}] | group_by(.zone) | all(map(.count) | add <= 2)) and any(.buy[]; .market == "on-demand")'
    run -1 --separate-stderr risky --zone-max 2 --market spot
    [[ "$stderr" == *'requests/s would do'* ]]
}

@test "a fleet held follows its load after the delays, and the plan carries the clock" {
    forecast 9 0.001
    risky >"$T/p"
    step() { l=$T/l risky --current "$T/p" --time "$1" >"$T/q" && mv "$T/q" "$T/p"; }
    buy=$(jq -c .buy "$T/p")
    jq '.buckets[].rate_per_s *= 2' examples/fleet/melange.json >"$T/l"
    step 1000; [ "$(jq -c .buy "$T/p")" = "$buy" ]; jq -e '.autoscale == {side: "up", since_s: 1000}' "$T/p"
    step 1280; [ "$(jq -c .buy "$T/p")" = "$buy" ]
    step 1300; [ "$(jq -c .buy "$T/p")" != "$buy" ]; jq -e '.autoscale.side == "same" and .expected.unserved_tail <= .01' "$T/p"
    big=$(jq -c .buy "$T/p")
    cp examples/fleet/melange.json "$T/l"
    step 1320; step 2500; [ "$(jq -c .buy "$T/p")" = "$big" ]; jq -e '.autoscale == {side: "down", since_s: 1320}' "$T/p"
    step 2520; [ "$(jq '[.buy[].count] | add' "$T/p")" -lt "$(jq -n "$big" | jq '[.[].count] | add')" ]
    echo '{"schema": "spot.plan/1", "kind": "fleet", "buy": [{"market": "spot", "count": 1}]}' >"$T/bad"
    run -3 --separate-stderr risky --current "$T/bad"
    [[ "$stderr" == *'/buy/0'* ]]
}

@test "rates are those of the last window of a load" {
    forecast 9 0.001
    { echo time_s,prompt_tokens,output_tokens; for i in $(seq 0 599); do echo "$((i / 2)),100,100"; done; } >"$T/r"
    jq '.buckets |= [.[0] + {rate_per_s: 1, prompt_tokens: 100, output_tokens: 100}, .[1] + {rate_per_s: 9, prompt_tokens: 4000, output_tokens: 100}]' examples/fleet/melange.json >"$T/l"
    l=$T/l risky --requests "$T/r" | jq -e '.time_s == 299'
    # 2 requests/s of the first size alone: one A10G at .9 does 1.8, so two machines
    l=$T/l c=$T/c fleet --requests "$T/r" --rho .9 | jq -e '[.buy[].count] | add == 2'
    l=$T/l run -1 --separate-stderr risky --requests "$T/r" --time 4000
    [[ "$stderr" == *'no request came from 3940 to 4000'* ]]
}

# Two laws of the same mean: each machine goes on its own, or all of a zone go together.
law() { # TOGETHER CHANCE
    jq -n --argjson together "$1" --argjson q "$2" '
        def choose($n; $k): if $k == 0 then 1 else choose($n; $k - 1) * ($n - $k + 1) / $k end;
        (if $together then [$q, 0, 0, 0, 0, 0, 0, 0, 1 - $q]
         else [range(9) as $k | choose(8; $k) * pow(1 - $q; $k) * pow($q; 8 - $k)] end) as $p
        | {schema: "spot.forecast/1", interval_s: 300, horizon: 1, model: "m", series: [("us-1a", "eu-1a", "ap-1a")
            | {zone: ., instance_type: "A10G", time_s: 0, now: 8, cap: 8, available: [{step: 1, p: $p}],
               change: [range(9) as $k | {lost: (8 - $k), gained: 0, p: $p[$k]}]}]}' >"$T/f"
}

@test "where neighbours go together a fleet spreads, and holds more" {
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone,quota\nA10G,.40,1.01,us-1a,8\nA10G,.41,1.01,eu-1a,8\nA10G,.42,1.01,ap-1a,8\n' >"$T/c"
    for together in false true; do
        law $together .03
        c=$T/c fleet --market both --forecast "$T/f" --cold-start 5m >"$T/$together"
    done
    jq -n --slurpfile alone "$T/false" --slurpfile together "$T/true" '
        def held: [.buy[].count] | add; def most: [.buy[] | select(.market == "spot") | .count] | max // 0;
        def usd: .expected.usd_per_h;
        $alone[0] as $a | $together[0] as $t | [($a | held), ($t | held), ($a | usd), ($t | usd), ($a | most), ($t | most)]
        | .[3] > .[2] and .[1] > .[0] and .[5] / .[1] <= .[4] / .[0]' -e
}
