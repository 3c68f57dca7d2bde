#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# spot-plan fleet --kind train: as published, better, with losses, from what runs, refusals.

bats_require_minimum_version 1.5.0
load errors

setup() {
    T=$BATS_TEST_TMPDIR
    J=examples/fleet/resnet110.json
    C=examples/fleet/resnet110.csv
    set -o pipefail
}

plan() { spot-plan fleet --kind train --job "$J" --catalogue "$C" --no-provenance "$@"; }

@test "spotdnn-code answers as released" {
    plan --solver spotdnn-code --loss .8 --deadline 2400 | jq -e '
        [.buy[] | .instance_type, .count] == ["p2.xlarge", 2, "g3.8xlarge", 4] and
        .expected.usd == 2.985872 and .expected.time_s == 2351.08'
    G=../shared/data/golden/spotdnn/provisioner.csv
    [ -e "$G" ] || skip 'no golden data here'
    sed 1d "$G" >"$T/rows"
    while IFS=, read -r loss time n0 n1 n2 n3 n4 _ seconds usd _; do
        if [ $((n0 + n1 + n2 + n3 + n4)) = 0 ]; then
            run -1 plan --solver spotdnn-code --loss "$loss" --deadline "$time"
            continue
        fi
        got=$(plan --solver spotdnn-code --loss "$loss" --deadline "$time" | jq -r '
            [(["p2.xlarge", "g4dn.4xlarge", "g3.8xlarge", "g3.16xlarge", "p2.8xlarge"][] as $t |
              [.buy[] | select(.instance_type == $t) | .count][0] // 0),
             .expected.time_s, .expected.usd] | @csv')
        [ "$(awk -v a="$got" -v b="$n0,$n1,$n2,$n3,$n4,$seconds,$usd" 'BEGIN {
            split(a, x, ","); n = split(b, y, ","); for (i = 1; i <= n; i++) if (x[i] + 0 != y[i] + 0) exit print("no") }')" = "" ]
    done <"$T/rows"
}

@test "ours is proven, and no dearer than the window under its own law" {
    plan --loss .8 --deadline 2400 | jq -e '.schema == "spot.plan/1" and .kind == "fleet" and .bound == .expected.usd
        and .gap == 0 and .expected.time_s <= 2400 and (.alternatives | length) == 3
        and ([.alternatives[].usd] | min) >= .expected.usd and (.why | length) >= 3'
    run -0 --separate-stderr plan --loss .8 --deadline 2400 --explain
    [[ "$stderr" == *'none is cheaper'* ]]
}

@test "losses of spot make plans dearer, and many of them make on demand the choice" {
    calm=$(plan --loss .8 --deadline 2400 | jq .expected.usd)
    plan --loss .8 --deadline 2400 --losses-per-h 1 --restart 120 | jq -e ".expected.usd > $calm"
    plan --loss .8 --deadline 3000 --losses-per-h 100 --restart 600 |
        jq -e '[.buy[].market] | unique == ["on-demand"]'
    # the same by a forecast: two series, of which one is lost in each interval
    cat >"$T/f.csv" <<-EOF
	time_s,zone,instance_type,available
	EOF
    for i in $(seq 0 80); do echo "$((i * 600)),a,p2.xlarge,$((i % 3 ? 2 : 0))"; done >>"$T/f.csv"
    echo "48600,a,p2.xlarge,2" >>"$T/f.csv"
    spot-predict --interval 600s "$T/f.csv" | plan --loss .8 --deadline 2400 --restart 120 --forecast - |
        jq -e '[.buy[] | select(.instance_type == "p2.xlarge" and .market == "spot") | .count] | add // 0 <= 2'
}

@test "planning anew keeps what runs where starting costs" {
    plan --loss .8 --loss-now 1.2 --deadline 1800 --restart 600 --current p2.xlarge:spot=2,g3.8xlarge:spot=4 >"$T/kept"
    plan --loss .8 --loss-now 1.2 --deadline 1800 --restart 600 >"$T/new"
    jq -e -s '.[0].expected.usd < .[1].expected.usd' "$T/kept" "$T/new"
    jq -e '[.why[] | select(test("join and"))] | length == 1' "$T/kept"
    run -1 plan --loss .8 --loss-now .7 --deadline 100
}

@test "a synchronous job goes by its profile" {
    J=$T/sync.json
    cat >"$J" <<-'EOF'
	{"schema":"spot.job/1","name":"s","kind":"train","instance_type":"g","global_batch":64,
	 "profile":[{"D":1,"P":1,"step_s":8},{"D":2,"P":1,"step_s":4.2},{"D":4,"P":1,"step_s":2.4}]}
	EOF
    C=$T/c.csv
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,quota\ng,1,3,4\nother,.1,.2,9\n' >"$C"
    plan --samples 64000 --deadline 3h | jq -e '.buy[0].instance_type == "g" and .expected.time_s <= 10800 and .gap == 0'
    plan --samples 64000 --deadline 3h --losses-per-h 30 --restart 300 | jq -e '[.buy[].market] | unique == ["on-demand"]'
    run -1 --separate-stderr plan --samples 64000 --deadline 10m
    [[ "$stderr" == *'a deadline of '*' would do'* ]]
    run -2 plan --deadline 3h
    run -3 plan --samples 5 --deadline 3h --solver spotdnn-code
}

@test "what cannot be is refused, with what would do" {
    run -1 --separate-stderr plan --loss .8 --deadline 240
    [[ "$stderr" == *'a deadline of '*' s would do, or a loss of '* ]]
    run -1 --separate-stderr plan --loss .5 --deadline 1e6
    [[ "$stderr" == *gamma5* ]]
    printf 'time_s,prompt_tokens,output_tokens\n0,8,3\n600,7,3\n1200,8,3\n' | spot-predict --kind load >"$T/f"
    run -3 --separate-stderr plan --loss .8 --deadline 2400 --forecast "$T/f"
    [[ "$stderr" == *'/model: a forecast of load, expected one of instances'* ]]
    run -2 plan --deadline 100
    run -2 plan --loss .8
    run -2 plan --loss .8 --deadline 100 --current x=1
    run -2 plan --loss .8 --deadline 100 --current p2.xlarge=-1
    run -3 plan --loss .8 --deadline 100 --solver spotdnn-paper
    sed 's/"gpus": 1/"gpus": 0/' "$J" >"$T/bad.json"
    J=$T/bad.json run -3 --separate-stderr plan --loss .8 --deadline 2400
    [[ "$stderr" == *bad.json:*/async/types/0/gpus* ]]
    sed 's/,5$/,-5/' "$C" >"$T/bad.csv"
    C=$T/bad.csv run -3 plan --loss .8 --deadline 2400
    printf 'instance_type,spot_usd_per_h\nnone,1\n' >"$T/bad.csv"
    C=$T/bad.csv run -3 plan --loss .8 --deadline 2400
}

@test "an option of the other kind, or of another job, is refused, and a goal outside its range" {
    run -2 --separate-stderr plan --loss .8 --samples 10 --deadline 2400
    [[ "$stderr" == *"--samples"* ]]
    fails 2 usage spot-plan fleet --kind train --job examples/jobs/demo.json --catalogue "$C" --samples 9 --loss 3 --deadline 1h
    fails 2 usage spot-plan fleet --kind serve --catalogue "$C" --load examples/fleet/melange.json --loss 3
    run -2 --separate-stderr plan --loss .8 --deadline 2400 --zone-max 2
    [[ "$stderr" == *'--zone-max has no effect without --kind serve'* ]]
    run -2 --separate-stderr plan --loss 0 --deadline 2400
    [[ "$stderr" == *'--loss must be between 1e-09 and'* ]]
}

@test "the deadline that would do is told however far it is, and would do" {
    C=$T/c.csv J=examples/jobs/demo.json
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h\ng,1,3\n' >"$C"
    run -1 --separate-stderr plan --samples 1e18 --deadline 24h
    [[ "$stderr" =~ a\ deadline\ of\ ([0-9.e+]+)\ s\ would\ do,\ or\ ([0-9.e+]+)\ samples ]]
    plan --samples "${BASH_REMATCH[2]}" --deadline 24h | jq -e '.expected.time_s <= 86400'
    far=${BASH_REMATCH[1]}
    # the same rate as of a goal that a deadline can be given for
    plan --samples 1e9 --deadline "$(awk -v far="$far" 'BEGIN { printf "%.0f", far * 1.002 / 1e9 }')" | jq -e '.gap == 0'
    run -1 plan --samples 1e9 --deadline "$(awk -v far="$far" 'BEGIN { printf "%.0f", far * .997 / 1e9 }')"
}
