#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# spot-replay fleet: policies as rows, ticks as rows, a picture, refusals.

bats_require_minimum_version 1.5.0
load errors

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail
    { echo time_s,zone,instance_type,available
      for z in 1 2 3; do
          for i in $(seq 0 199); do echo "$((i * 300)),us-east-1$z,g,$((i / (5 * z) % 4 > 0))"; done
      done; } >"$T/t.csv"
}

replay() { spot-replay fleet --trace "$T/t.csv" "$@"; }

@test "policies are rows with the columns scripts rely on, on demand costs 1" {
    replay --n 2 --availability 0.99 >"$T/out"
    [[ "$(head -1 "$T/out")" == policy,availability,cost_ratio,usd,unserved_share* ]]
    [ "$(wc -l <"$T/out")" = 9 ]
    # 2 replicas, 200 ticks of 300 s, 3.06 usd/h; the first tick is cold
    grep -q '^on-demand,0.995,1,102,0.005,1,0,0,0$' "$T/out"
    awk -F, 'NR > 1 { a[$1] = $2; c[$1] = $3 }
        END { exit !(a["omniscient"] >= 0.99 && c["omniscient"] < c["spothedge"]) }' "$T/out"
    replay --policy list | grep -q '^spothedge-repaired '
}

@test "steps add up to the totals" {
    usd=$(replay --policy spot --steps | awk -F, 'NR > 1 { usd += $8; n++; bad += $7 > 0 } END { printf "%.4f %.4f", usd, 1 - bad / n }')
    [ "$(replay --policy spot | awk -F, 'NR == 2 { printf "%.4f %.4f", $4, $2 }')" = "$usd" ]
}

@test "what serves is a trace: its share with as many as are wanted is the availability, and serving is played on it" {
    for cold in 300 300:0 300:120 10m:400 300:450; do
        replay --n 2 --policy spothedge,spot --availability .99 --cold-start $cold --serving "$T/serving.csv" >"$T/out"
        awk -F, 'NR == 2 { n = $2; was = $1 } NR > 2 { s += n >= 2 ? $1 - was : 0; n = $2; was = $1 } END { printf "%.4f\n", s / was }' "$T/serving.csv" >"$T/share"
        awk -F, '$1 == "spot" { printf "%.4f\n", $2 }' "$T/out" | cmp - "$T/share"
        [ "$(tail -n 1 "$T/serving.csv" | cut -d , -f 1)" = 60000 ]
    done
    printf '%s\n' time_s,prompt_tokens,output_tokens 1200,512,128 2400,512,128 >"$T/l"
    jq '.serve += { gpus: 1, gpus_min: 1 }' examples/serve/gpt-6.7b.json >"$T/job.json"
    spot-replay serve --job "$T/job.json" --trace "$T/serving.csv" --load "$T/l" --policy rerouting --arrivals-only >"$T/out"
    run -2 replay --n 2 --serving "$T/x" --demand x
}

@test "a tick's choice does not depend on what comes" {
    awk -F, 'NR == 1 || $1 <= 30000' "$T/t.csv" >"$T/past.csv"
    for p in round-robin spothedge spothedge-repaired spot; do
        cmp <(replay --n 2 --policy $p --steps | head -100) \
            <(spot-replay fleet --trace "$T/past.csv" --n 2 --policy $p --steps | head -100)
    done
}

@test "the fleet is drawn by zone and market" {
    replay --policy spot --n 3 --plot "$T/p.gp" >/dev/null
    grep -q 'us-east-12' "$T/p.gp" && grep -q 'on demand' "$T/p.gp" && grep -q 'did not answer' "$T/p.gp" && grep -q 'cost so far' "$T/p.gp"
}

@test "what cannot be is refused, or left out of all" {
    run -2 spot-replay fleet
    run -2 replay --policy best
    run -2 replay --n 0
    replay --policy omniscient --availability 0.9 --cold-start 15m | awk -F, 'NR == 2 { exit !($2 >= 0.9) }'
    run -1 --separate-stderr replay --policy omniscient --cold-start 5h
    [[ "$stderr" == *'cold start of 60 ticks'* ]]
    run -0 --separate-stderr replay --cold-start 5h
    [[ "$stderr" == *'left out: omniscient'* && "$output" != *omniscient* ]]
    fails 3 data.value spot-replay fleet --trace <(printf 'time_s,available\n0,x\n')
    at /dev/fd/63 2 3
}

@test "replicas follow a load, and its first columns stay" {
    { echo time_s,prompt_tokens,output_tokens; for i in $(seq 0 5999); do echo "$((i * 10 / (1 + (i / 2000) % 2))),100,50"; done | sort -t, -n; } >"$T/l"
    replay --load "$T/l" --per-replica .06 --availability .95 >"$T/out"
    [[ "$(head -1 "$T/out")" == policy,availability,cost_ratio,usd,unserved_share,*,wait_s ]]
    awk -F, 'NR > 1 { c[$1] = $4; u[$1] = $5 }
        END { exit !(c["on-demand-peak"] > c["on-demand"] && u["on-demand-peak"] <= u["on-demand"] && c["omniscient"] < c["spot"] && c["spot"] < c["on-demand-peak"]) }' "$T/out"
    replay --load "$T/l" --per-replica .06 --policy spot --steps | awk -F, 'NR > 1 && $3 + $5 > most { most = $3 + $5 } END { exit !(most > 2) }'
    run -2 --separate-stderr replay --load "$T/l"
    run -2 replay --load "$T/l" --per-replica 1e-6
}

@test "ours spreads over zones that fall whole, where two replicas of one would fall together" {
    # three zones of four, all of one gone at once every 250 ticks or so, for ten: one spare in another zone will do
    { echo time_s,zone,instance_type,available
      awk 'BEGIN { srand(5); for (t = 0; t < 4000; t++) for (z = 1; z <= 3; z++) {
          if (t >= back[z] && rand() < .004) back[z] = t + 10
          print t * 60 ",us-" z "-a,g," (t < back[z] ? 0 : 4) } }'; } >"$T/whole.csv"
    spot-replay fleet --trace "$T/whole.csv" --n 2 --policy spot,spothedge-repaired >"$T/out"
    # three of two wanted, at .3 of on demand, are .45 of it
    awk -F, 'NR > 1 { a[$1] = $2; c[$1] = $3 }
        END { exit !(c["spot"] < .53 && a["spot"] >= .998) }' "$T/out"
}

mixed() {
    { echo time_s,zone,instance_type,available
      for i in $(seq 0 119); do for z in 1 2; do echo "$((i * 300)),us-east-1$z,small,$((i / (5 * z) % 4))"; done; echo "$((i * 300)),us-east-12,large,$((i / 9 % 2))"; done; } >"$T/m.csv"
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone\nsmall,.3,1,\nlarge,1,3.2,\nsmall,.25,,us-east-12\n' >"$T/c"
    jq -n '{schema: "spot.demand/1", buckets: [{name: "short", rate_per_s: 1, prompt_tokens: 100, per_s: {small: 1, large: 4}},
        {name: "long", rate_per_s: 1, prompt_tokens: 4000, per_s: {small: 0.1, large: 1}}]}' >"$T/d"
    { echo time_s,prompt_tokens,output_tokens; for i in $(seq 0 1799); do echo "$((i / (2 + i / 450 % 2))),$((i % 9 ? 90 : 3000)),50"; done | sort -t, -n; } >"$T/l"
    spot-replay fleet --trace "$T/m.csv" --load "$T/l" --demand "$T/d" --catalogue "$T/c" --unserved .02 "$@"
}

@test "types are mixed beside each alone, with the least that any fleet pays for as much" {
    mixed >"$T/out"
    [ "$(head -1 "$T/out")" = policy,availability,cost_ratio,usd,unserved_share,on_demand_share,preempted,bound_usd,to_bound ]
    for p in on-demand on-demand:small on-demand:large on-demand-peak spothedge:small spothedge:large spot spot:large; do grep -q "^$p," "$T/out"; done
    run ! grep -q '^spothedge,' "$T/out"
    awk -F, 'NR > 1 { usd[$1] = $4; left[$1] = $5; if ($9 < 1 - 1e-6) bad = 1 }
        END { exit !(!bad && left["spot"] < .06 && usd["spot"] < usd["on-demand"] && usd["spot"] < usd["spothedge:small"] && usd["omniscient"] < usd["spot"]) }' "$T/out"
}

@test "steps of mixed types add up, and the fleet is drawn by type" {
    usd=$(mixed --policy spot --steps --plot "$T/p.gp" | awk -F, '$1 == "spot" { usd += $7; bad += $6 > 0 } END { printf "%.2f %.4f", usd, 1 - bad / 120 }')
    [ "$(mixed --policy spot | awk -F, '$1 == "spot" { printf "%.2f %.4f", $4, $2 }')" = "$usd" ]
    grep -q 'large us-east-12' "$T/p.gp" && grep -q 'small on demand' "$T/p.gp"
}

@test "a load for more machines than a policy weighs leaves that policy out" {
    mixed --policy on-demand >/dev/null # makes the files
    awk -F, 'NR == 1 { print; next } { print $1 "," $2 "," $3 "," 4000 }' "$T/m.csv" >"$T/many.csv"
    jq '.buckets |= map(.per_s |= map_values(. / 8000))' "$T/d" >"$T/slow"
    fleet() { run "-$1" --separate-stderr spot-replay fleet --trace "$T/many.csv" --load "$T/l" --demand "$T/slow" --catalogue "$T/c" "${@:2}"; }
    fleet 1 --policy spot
    [[ "$stderr" == *"needs 1024 machines or more of '"*"play a part of the load"* ]]
    fleet 0
    [[ "$stderr" == *"left out: spot: the load of"* && "$output" == *on-demand,* ]]
    run ! grep -q '^spot,' <<<"$output"
    awk -F, 'NR == 1 { print; next } { for (i = 0; i < 40; i++) print }' "$T/l" >"$T/crowd"
    fails 2 usage spot-replay fleet --trace "$T/t.csv" --load "$T/crowd" --per-replica 1e-9
}

@test "mixed types that cannot be are refused" {
    run -2 spot-replay fleet --trace "$T/t.csv" --load "$T/l" --demand "$T/d"
    run -2 --separate-stderr mixed --policy even-spread
    [[ "$stderr" == *on-demand-peak* ]]
    mixed --policy on-demand >/dev/null # makes the files
    cut -d, -f1,2,4 "$T/m.csv" | awk -F, '!seen[$1 $2]++' >"$T/untyped.csv"
    run -3 --separate-stderr spot-replay fleet --trace "$T/untyped.csv" --load "$T/l" --demand "$T/d" --catalogue "$T/c"
    [[ "$stderr" == *"/untyped.csv: instance_type is missing: the prices of '$T/c' are by it"* ]]
    refuse() { run "-$1" --separate-stderr spot-replay fleet --trace "$T/m.csv" --load "$T/l" --demand "${3:-$T/d}" --catalogue "${4:-$T/c}"; [[ "$stderr" == *"$2"* ]]; }
    jq '.buckets[1].per_s = {small: 0, large: 0}' "$T/d" >"$T/none"
    refuse 1 'bucket 1, long' "$T/none"
    sed '/large/d' "$T/c" >"$T/few"
    refuse 3 "no spot price of 'large'" "$T/d" "$T/few"
    sed 's/3.2/-3/' "$T/c" >"$T/bad"
    refuse 3 :3:9: "$T/d" "$T/bad"
    jq '.buckets[0].per_s.small = "x"' "$T/d" >"$T/bad"
    refuse 3 /buckets/0/per_s/small "$T/bad"
}
