#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-plan deadline and spot-replay deadline: the choice as a document, policies as rows, refusals.

bats_require_minimum_version 1.5.0
load errors

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail
    { echo time_s,zone,instance_type,available
      for i in $(seq 0 199); do echo "$((i * 600)),a,g,$((i / 9 % 3 > 0))"; done; } >"$T/t.csv"
}

plan() { spot-plan deadline --work 12h --deadline 16h --restart 12m --no-provenance "$@"; }
replay() { spot-replay deadline --trace "$T/t.csv" --work 12h --deadline 16h --restart 12m "$@"; }

@test "the plan is a mode, its cost and what else would cost" {
    plan | jq -e '.schema == "spot.plan/1" and .kind == "deadline" and .mode == "spot" and .hold_s == 600
        and all(.alternatives[]; .usd >= 0) and (.why | length) == 5 and .expected.moves >= 0'
    plan --no-has-spot | jq -e '.mode != "spot" and all(.alternatives[]; .mode != "spot")'
    plan --trace "$T/t.csv" | jq -e '.time_s == 199 * 600 and .expected.usd > 0'
    plan --deadline 12h20m 2>/dev/null || plan --deadline 44400 --no-has-spot | jq -e '.mode == "on-demand"'
    spot-predict --interval 600s "$T/t.csv" | plan --forecast - | jq -e '.hold_s == 600 and .mode == "spot"'
    run -0 --separate-stderr plan --explain
    [[ "$stderr" == *'usd in all, chosen'* ]]
}

@test "a price that is assumed is said" {
    for tool in plan replay; do
        run -0 --separate-stderr $tool
        [ "$(grep -c assumed <<<"$stderr")" = 2 ]
        run -0 --separate-stderr $tool --usd-per-h 1
        [[ "$stderr" == *3.06*'on demand'* ]]
        run -0 --separate-stderr $tool --usd-per-h 1:3
        [ -z "$stderr" ]
        run -0 --separate-stderr $tool --quiet
        [ -z "$stderr" ]
    done
}

@test "a loop of plans is the policy that is replayed" {
    # the trace is known up to the job's start only, so no law is learnt on the way: 'spot' with a long --learn
    replay --policy spot --from 60000 --learn 1000h --steps |
        awk -F, 'NR > 1 && $4 == "spot" && $3 == 0 { bad = 1 } END { exit bad }'
    mode=$(awk -F, 'NR == 1 || $1 <= 60000' "$T/t.csv" >"$T/past.csv"; plan --trace "$T/past.csv" | jq -r .mode)
    [ "$(replay --policy spot --from 60000 --steps | awk -F, 'NR == 2 { print $4 }')" = "$mode" ]
}

@test "policies are rows with the columns scripts rely on, none late, none below the optimum" {
    replay >"$T/out"
    [ "$(head -1 "$T/out")" = policy,usd,finish_h,is_late,switches ]
    [ "$(wc -l <"$T/out")" = 14 ]
    awk -F, 'NR > 1 && $4 != 0 { bad = 1 } { usd[$1] = $2 }
        END { for (p in usd) if (p != "policy" && usd[p] < usd["offline"] - 1e-9) bad = 1; exit bad }' "$T/out"
    replay --policy list | grep -q '^uniform-progress '
    replay --policy greedy,offline --plot "$T/p.gp" >/dev/null && grep -q 'even pace' "$T/p.gp"
}

@test "what cannot be is refused" {
    run -1 --separate-stderr plan --deadline 12h
    [[ "$stderr" == *'a deadline of 12.3333 h would do, it is 12 h'* ]]
    run -1 plan --done 12h
    run -1 replay --deadline 12h
    run -2 plan --forecast x --trace y
    run -2 plan --now elsewhere
    run -2 replay --policy best
    run -2 replay --policy offline --work 1000h --deadline 1100h --restart 7.3m --tick 300
    run -2 spot-replay deadline --trace "$T/t.csv"
    run -3 --separate-stderr plan --trace <(printf 'time_s,available\n0,x\n')
    [[ "$stderr" == *:2:3:* ]]
    printf 'time_s,prompt_tokens,output_tokens\n0,8,3\n600,7,3\n1200,8,3\n' | spot-predict --kind load >"$T/load.json"
    fails 3 data.value spot-plan deadline --work 1h --deadline 2h --forecast "$T/load.json"
    at "$T/load.json" 16 12 /model
    run -2 plan --restart 6m:.5,12m:.6
    run -2 plan --restart 6m:x
    run -2 plan --restart 6m:.5,12m:.5,
    run -2 plan --restart ''
    run -2 plan --at nowhere
    run -2 replay --restart 12m,6m
    run -3 replay --zone nowhere
}

two_zones() { sed 's/,a,/,b,/;1d' "$T/t.csv" | awk -F, -v OFS=, '{ $4 = NR % 7 > 2 } 1' | cat "$T/t.csv" - >"$T/two.csv"; }

@test "several zones: a place with each mode, all policies, never late" {
    two_zones
    plan --trace "$T/two.csv" | jq -e '.mode == "spot" and (.zone == "a" or .zone == "b") and .instance_type == "g"
        and ([.alternatives[].mode] | index("on-demand") and index("idle"))'
    plan --trace "$T/two.csv" --zone b | jq -e '.zone == "b"'
    run -2 --separate-stderr plan --trace "$T/two.csv" --now spot
    [[ "$stderr" == *'--at is needed'* ]]
    plan --trace "$T/two.csv" --now spot --at b --restart 6m:.5,18m:.5 --egress-usd 3 | jq -e '.expected.usd > 0'
    spot-predict --interval 600s "$T/two.csv" | plan --forecast - | jq -e '.zone | length == 1'
    spot-replay deadline --trace "$T/two.csv" --work 12h --deadline 16h --restart 6m:.5,18m:.5 --egress-usd .5 >"$T/out"
    awk -F, 'NR > 1 { if ($4) bad = 1; usd[$1] = $2 } END { for (p in usd) if (usd[p] < usd["offline"] - 1e-9) bad = 1; exit bad || NR != 14 }' "$T/out"
    # two zones are never dearer than one with the future known
    both=$(spot-replay deadline --trace "$T/two.csv" --work 12h --deadline 16h --restart 12m --policy offline | awk -F, 'NR == 2 { print $2 }')
    replay --policy offline | awk -F, -v b="$both" 'NR == 2 { exit !(b <= $2 + 1e-9) }'
    spot-replay deadline --trace "$T/two.csv" --work 12h --deadline 16h --policy spot --steps | awk -F, 'NR > 1 && $4 != "idle" && $6 == "" { bad = 1 } END { exit bad }'
    spot-replay deadline --trace "$T/two.csv" --work 12h --deadline 16h --policy spot,greedy --plot "$T/p.gp" >/dev/null
    grep -q 'even pace' "$T/p.gp"
}

@test "a catalogue gives each type its price and speed" {
    two_zones
    sed 's/,b,g,/,b,h,/' "$T/two.csv" >"$T/types.csv"
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,speed\ng,1,3,1\nh,.1,,1\n' >"$T/c.csv"
    plan --trace "$T/types.csv" --catalogue "$T/c.csv" | jq -e '.instance_type == "h"'
    sed 's/,,1/,,.01/' "$T/c.csv" >"$T/slow.csv"
    plan --trace "$T/types.csv" --catalogue "$T/slow.csv" | jq -e '.instance_type != "h"'
    run -3 --separate-stderr plan --trace "$T/types.csv" --catalogue <(sed '/^h/d' "$T/c.csv")
    [[ "$stderr" == *"'h'"* ]]
    sed 's/^g,1,3/g,1,/' "$T/c.csv" >"$T/spot-only.csv"
    plan --trace "$T/types.csv" --catalogue "$T/spot-only.csv" |
        jq -e '.expected.late >= 0 and .expected.late < 1 and all(.alternatives[]; .mode != "on-demand")'
    play() { spot-replay deadline --trace "$T/types.csv" --restart 12m --catalogue "$T/spot-only.csv" -q "$@"; }
    [ "$(play --work 6h --deadline 16h | cut -d, -f1,4)" = "$(printf '%s\n' policy,is_late spot,0 known-law,0)" ]
    [ "$(play --work 12h --deadline 13h --policy spot | awk -F, 'NR == 2 { print $3, $4 }')" = "13 1" ]
    run -2 play --work 6h --deadline 16h --policy greedy
    cut -d, -f1,2,4 "$T/two.csv" >"$T/untyped.csv"
    run -3 --separate-stderr plan --trace "$T/untyped.csv" --catalogue "$T/c.csv"
    [[ "$stderr" == *"/untyped.csv: instance_type is missing: the prices of '$T/c.csv' are by it"* ]]
    fails 3 data spot-replay deadline --trace "$T/untyped.csv" --work 12h --deadline 16h --catalogue "$T/c.csv"
    run -2 --separate-stderr plan --catalogue "$T/c.csv"
    [[ "$stderr" == *'a trace or forecast has to name it'* ]]
}

@test "several jobs under one quota" {
    two_zones
    sed -i '$d' "$T/two.csv" && echo 119400,b,g,1 >>"$T/two.csv"
    printf 'job,work_s,deadline_s\ntight,40000,43600\nloose,4000,400000\n' >"$T/jobs.csv"
    offer() { printf 'instance_type,zone,spot_usd_per_h,on_demand_usd_per_h,quota\ng,a,1,3,%s\ng,b,1.1,3,%s\n' "$1" "$2" >"$T/q.csv"; }
    jobs() { spot-plan deadline --jobs "$T/jobs.csv" --trace "$T/two.csv" --restart 12m --catalogue "$T/q.csv" --no-provenance "$@"; }
    offer '' ''
    jobs | jq -e '.quotas == [] and ([.jobs[] | .job] == ["tight", "loose"]) and all(.jobs[]; .quota_usd == 0)
        and (.expected.usd - ([.jobs[].usd] | add) | fabs) < 1e-6'
    # alone each says the same
    jq -ne --argjson all "$(jobs)" --argjson one "$(spot-plan deadline --work 40000 --deadline 43600 --trace "$T/two.csv" --restart 12m \
        --catalogue "$T/q.csv" --no-provenance)" '$all.jobs[0].mode == $one.mode and ($all.jobs[0].usd - $one.expected.usd | fabs) < 1e-6'
    offer 0 1
    jobs | jq -e '.jobs[0].mode == "spot" and .jobs[0].zone == "b" and .jobs[1].mode != "spot" and .quotas[1].quota == 1 and .expected.usd > 0'
    offer 0 0
    jobs | jq -e 'all(.jobs[]; .mode != "spot") and .quotas[1].worth > 0'
    jobs --format table | grep -E '^tight: on-demand in [ab], g for 600 s, [0-9.]+ usd expected in all; alone it would take spot'
    jobs --format table | grep -E '^one more of the quota of 0 in b, g is worth [0-9.]+ usd$'
    echo again,50000,100 >>"$T/jobs.csv"
    run -1 --separate-stderr jobs
    [[ "$stderr" == *"job 'again': "*'deadline'* ]]
    sed -i 's/again/tight/' "$T/jobs.csv"
    run -3 --separate-stderr jobs
    [[ "$stderr" == *"jobs.csv:4:1: job: 'tight' is there twice"* ]]
    run -2 jobs --work 3h
    run -2 --separate-stderr spot-plan deadline --work 3h
    [[ "$stderr" == *'--work and --deadline are needed, or --jobs'* ]]
    run -2 spot-plan deadline --jobs "$T/jobs.csv"
}

@test "time that is gone and the price on demand are part of the choice" {
    cost() { plan --deadline 17h "$@" | jq .expected.usd; }
    jq -ne --argjson early "$(cost)" --argjson late "$(cost --elapsed 4.5h)" '$late > $early'
    run -1 --separate-stderr plan --elapsed 9h
    # what only demand can do costs its price, and spot as before
    jq -ne --argjson cheap "$(plan --deadline 17h --no-has-spot | jq '.alternatives[] | select(.mode == "on-demand").usd')" \
        --argjson dear "$(plan --deadline 17h --no-has-spot --usd-per-h .9731:30.6 | jq '.alternatives[] | select(.mode == "on-demand").usd')" \
        '$dear > 2 * $cheap'
}

# Nine zones of three regions, with prices.
nine_zones() {
    { echo time_s,zone,instance_type,available,price_usd_per_h
      for r in us-1 eu-2 ap-3; do for z in a b c; do for i in $(seq 0 149); do
          echo "$((i * 600)),$r$z,g,$(((i + ${#r} * 31 + $(printf %d "'$z") * 7 + $(printf %d "'$r")) / 11 % 3 > 0)),$((9 + $(printf %d "'$z") % 5 + i / 60))e-1"
      done; done; done; } >"$T/nine.csv"
    printf 'instance_type,zone,spot_usd_per_h,on_demand_usd_per_h,egress_usd_per_gb,egress_byte_per_s\n' >"$T/c.csv"
    for r in us-1:3 eu-2:3.2 ap-3:4; do for z in a b c; do
        echo "g,${r%:*}$z,1,${r#*:},.02,1e9"; done; done >>"$T/c.csv"
}

@test "nine zones with prices and moves: never late, the order of the file and the scale of prices change nothing" {
    nine_zones
    play() { spot-replay deadline --trace "$1" --work 12h --deadline 17h --restart 12m --catalogue "${2:-$T/c.csv}" --state-gb 50 "${@:3}"; }
    play "$T/nine.csv" >"$T/out"
    awk -F, 'NR > 1 { if ($4) bad = 1; usd[$1] = $2 } END { for (p in usd) if (usd[p] < usd["offline"] - 1e-9) bad = 1; exit bad || NR != 14 }' "$T/out"
    play "$T/nine.csv" "" --policy spot --steps >"$T/steps"
    { head -1 "$T/nine.csv"; sed 1d "$T/nine.csv" | sort -t, -k2,2r -k1,1n; } >"$T/turned.csv"
    play "$T/turned.csv" "" --policy spot --steps | cmp - "$T/steps"
    awk -F, -v OFS=, 'NR > 1 { $5 *= 2 } 1' "$T/nine.csv" >"$T/dear.csv"
    awk -F, -v OFS=, 'NR > 1 { $3 *= 2; $4 *= 2; $5 *= 2 } 1' "$T/c.csv" >"$T/dear-c.csv"
    play "$T/dear.csv" "$T/dear-c.csv" --policy spot --steps | cmp - "$T/steps"
}

@test "four zones: under other names in another order, and at other prices, every decision is the same, byte for byte" {
    nine_zones
    grep -E ',(us-1|eu-2)[ab],|^time' "$T/nine.csv" >"$T/four.csv"
    # the last zone is the first, within its region and between regions
    turn() { sed -E 's/us-1a/Xb/; s/us-1b/Xa/; s/eu-2a/us-1b/; s/eu-2b/us-1a/; s/Xa/eu-2a/; s/Xb/eu-2b/' "$@"; }
    play() { # TRACE CATALOGUE
        spot-replay deadline --trace "$1" --work 12h --deadline 17h --restart 12m --catalogue "$2" --state-gb 50 --policy spot --steps
    }
    play "$T/four.csv" "$T/c.csv" >"$T/steps"
    [ "$(awk -F, '$6 != "" { print $6 }' "$T/steps" | sort -u | wc -l)" -gt 2 ] # more than one zone and the header
    turn "$T/four.csv" | { read -r head && echo "$head" && sort -t, -k2,2r -k1,1n; } >"$T/turned.csv"
    turn "$T/c.csv" | { read -r head && echo "$head" && sort -r; } >"$T/turned-c.csv"
    play "$T/turned.csv" "$T/turned-c.csv" | turn | cmp - "$T/steps"
    for scale in 2 .125 3 10; do
        awk -F, -v OFS=, -v s=$scale 'NR > 1 { $5 *= s } 1' "$T/four.csv" >"$T/dear.csv"
        awk -F, -v OFS=, -v s=$scale 'NR > 1 { $3 *= s; $4 *= s; $5 *= s } 1' "$T/c.csv" >"$T/dear-c.csv"
        play "$T/dear.csv" "$T/dear-c.csv" | cmp - "$T/steps"
    done
    # so is the plan of now, whose alternatives are in the order of places
    plan() { spot-plan deadline --trace "$1" --work 12h --deadline 17h --restart 12m --catalogue "$2" --state-gb 50 --no-provenance | jq -c '[.mode, .zone, (.expected.usd * 1e6 | round)]'; }
    cmp <(plan "$T/four.csv" "$T/c.csv") <(plan "$T/turned.csv" "$T/turned-c.csv" | turn)
}

@test "probes: places that may refuse are asked in order, and what they told is what they cost" {
    clouds=$BATS_TEST_DIRNAME/../../examples/clouds
    spot-predict -q --interval 10m --horizon 24 "$clouds/probes.csv" >"$T/f.json"
    ask() { spot-plan deadline --work 6h --deadline 7h --restart 3m --forecast "$T/f.json" --catalogue "$clouds/types.csv" "$@"; }
    run -0 --separate-stderr ask
    [ -z "$stderr" ]
    jq -e '.zone == .ask[0].zone and (.ask | length) >= 1 and all(.ask[]; .granted > .5)
        and .expected.usd > .ask[0].usd and .expected.moves > 1' <<<"$output"
    # a question that costs is asked less
    jq -ne --argjson free "$(ask | jq .expected.usd)" --argjson dear "$(ask --probe-usd .1 | jq .expected.usd)" '$dear > $free'
    ask --probe-usd 5 | jq -e '.ask == null and .mode != "spot"'
    # what runs is there
    ask --now spot --at us-east-1b | jq -e '.expected.usd > 0 and all(.ask[]?; .zone != "us-east-1b")'
}
