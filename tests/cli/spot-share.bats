#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-plan share, spot-replay share and import of jobs: documents in, plans and rows out, refusals.

bats_require_minimum_version 1.5.0

setup() {
    T=$BATS_TEST_TMPDIR
    S=$BATS_TEST_DIRNAME/../../examples/share
    set -o pipefail
    cp "$S"/*.csv "$S"/*.json "$T"
}

plan() { spot-plan share --jobs "$T/jobs.csv" --throughput "$T/throughput.json" --cluster "$T/cluster.csv" --no-provenance "$@"; }
replay() { spot-replay share --jobs "$T/jobs.csv" --throughput "$T/throughput.json" --cluster "$T/cluster.csv" "$@"; }

fits() { # no type has more workers in use than there are; no job is twice
    jq -e '([.run[].job] | length == (unique | length)) and
        (reduce .run[] as $r ({}; .[$r.instance_type] += $r.workers)
            | (.v100 // 0) <= 4 and (.p100 // 0) <= 8 and (.k80 // 0) <= 8)'
}

@test "each policy gives a round that fits, and all jobs run or wait" {
    for policy in $(plan --policy list | awk '{ print $1 }'); do
        plan --policy "$policy" >"$T/plan"
        fits <"$T/plan"
        jq -e '.schema == "spot.plan/1" and .kind == "share" and (.run | length) + (.wait | length) == 6' "$T/plan"
        jq -e '.expected.objective <= .bound * (1 + 1e-9)' "$T/plan"
    done
    run -0 --separate-stderr plan --explain
    [[ "$stderr" == *'one more v100 is worth'* ]]
}

@test "the order of rows means nothing" {
    for policy in spot spot:max-min spot:makespan spot:cost; do
        plan --policy $policy >"$T/a"
        { head -1 "$S/jobs.csv"; tail -n +2 "$S/jobs.csv" | sort -r; } >"$T/jobs.csv"
        jq '.rows |= reverse' "$S/throughput.json" >"$T/throughput.json"
        plan --policy $policy >"$T/b"
        cmp "$T/a" "$T/b"
    done
}

@test "who runs stays where nothing is gained, and the more surely the dearer a switch" {
    plan | jq -r '.run[] | [.job, .instance_type] | @csv' | tr -d '"' >"$T/on"
    awk -F, -v OFS=, 'NR == FNR { on[$1] = $2; next } FNR > 1 { $8 = on[$1] } 1' "$T/on" "$S/jobs.csv" >"$T/jobs.csv"
    plan --switch 60s | jq -e 'all(.run[]; .stays)'
}

two_priorities() { # three days; high priority by day
    awk 'BEGIN { print "id,arrival_s,kind,steps,scale,priority"
        for (h = 0; h < 72; h++) {
            for (i = 0; i < (h % 24 < 12 ? 5 : 1); i++) printf "h%02d%d,%d,second,%d,%d,high\n", h, i, h * 3600 + i * 700 + 13, 2000 + 900 * i, 1 + i % 3
            for (i = 0; i < 3; i++) printf "s%02d%d,%d,second,%d,%d,spot\n", h, i, h * 3600 + i * 1100, 1500 + 2500 * i, 1 + i % 2 } }' >"$T/jobs.csv"
    printf 'instance_type,count\na,8\nb,6\n' >"$T/cluster.csv"
}

@test "jobs of two priorities: columns of each, and the plan is what the replay does" {
    two_priorities
    replay --policy spot,gfs,evict-least --switch 40s --checkpoint 1h --round 5m --format tsv >"$T/out"
    [[ "$(head -1 "$T/out")" == *$'\tfailed\tallocation\thigh_jct_mean_h\thigh_queue_h\tspot_jct_mean_h\tspot_queue_h\tspot_evicted\tspot_lost_h' ]]
    # ours evicts fewer than what does not forecast, and high priority waits no longer
    awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } { e[$1] = $at["spot_evicted"]; q[$1] = $at["high_queue_h"] }
        END { exit !(e["spot"] < e["evict-least"] && e["evict-least"] > 0 && q["spot"] <= q["evict-least"] + .01) }' "$T/out"
    "$BATS_TEST_DIRNAME/../decisions.sh" share "$T/jobs.csv" "$T/cluster.csv" "$T/throughput.json" 8 --switch 40s --checkpoint 1h --round 5m
    POLICY=spot:max-min "$BATS_TEST_DIRNAME/../decisions.sh" share "$T/jobs.csv" "$T/cluster.csv" "$T/throughput.json" 4 --switch 40s --checkpoint 1h --round 5m
}

@test "replay has the columns scripts rely on, and pays for switches" {
    replay --policy all >"$T/out"
    [[ "$(head -1 "$T/out")" == policy,jobs,jct_mean_h,jct_p99_h,makespan_h,ftf_max,utilisation,usd,* ]]
    awk -F, 'NR > 1 && ($2 != 6 || $3 <= 0 || $3 > $5 || $7 <= 0 || $7 > 1) { bad = 1 } END { exit bad || NR != 24 }' "$T/out"
    replay --policy spot --seed 4 >"$T/a" && replay --policy spot --seed 4 >"$T/b" && cmp "$T/a" "$T/b"
    dear=$(replay --policy isolated --switch 60s --checkpoint 6m | tail -1 | cut -d, -f3)
    free=$(replay --policy isolated | tail -1 | cut -d, -f3)
    awk -v a="$dear" -v b="$free" 'BEGIN { exit !(a > b) }'
    replay --policy spot --steps | awk -F, 'NR > 1 && $7 <= $6 { bad = 1 } END { exit bad || NR < 7 }'
    replay --policy spot,fifo-perf --plot "$T/p.gp" >/dev/null
    grep -q 'jobs ended' "$T/p.gp"
}

@test "a trace takes workers, and all jobs still end" {
    printf 'time_s,instance_type,available\n0,v100,4\n3000,v100,0\n9000,v100,4\n99000,v100,4\n' >"$T/t.csv"
    replay --policy spot,max-min-perf --trace "$T/t.csv" --switch 20s --checkpoint 6m >"$T/out"
    awk -F, 'NR > 1 && ($2 != 6 || $13 < 1) { bad = 1 } END { exit bad }' "$T/out"
    replay --policy spot --trace "$T/t.csv" --steps |
        awk -F, '$3 == "v100" && $6 < 9000 && $7 > 3000 { bad = 1 } END { exit bad || NR < 20 }'
}

@test "a job that can change its scale takes what is there" {
    printf 'id,arrival_s,kind,steps,scale,scale_min,scale_max\nx,0,lm,500000,1,1,4\n' >"$T/jobs.csv"
    plan | jq -e '.run == [{job: "x", instance_type: "v100", workers: 4, steps_per_s: .run[0].steps_per_s, stays: false}]'
    printf 'id,arrival_s,kind,steps,scale,scale_min,scale_max,on,on_workers,done,unsaved\nx,0,lm,500000,1,1,4,v100,4,900,900\n' >"$T/jobs.csv"
    plan | jq -e '.run[0].stays and .run[0].workers == 4'
    sed -i 's/900,900/900,901/' "$T/jobs.csv"
    run -3 --separate-stderr plan
    [[ "$stderr" == *jobs.csv:2:*unsaved* ]]
}

@test "import: Gavel's files, Philly-like CSV and sacct" {
    printf 'LM (batch size 5)\tpython main.py\tlm\t--steps\t1\t4433\t2\t1\t-1.000000\t60\n' >"$T/g.trace"
    [ "$(spot-replay import --from gavel "$T/g.trace" | tail -1)" = '000000,60,LM (batch size 5),4433,2,1,,' ]
    printf '{"v100": {"(%sLM (batch size 5)%s, 2)": {"null": 81.5, "x": [1, 2]}}}' "'" "'" >"$T/oracle.json"
    spot-replay import --from gavel "$T/oracle.json" | jq -e '.rows == [{kind: "LM (batch size 5)", scale: 2, instance_type: "v100", steps_per_s: 81.5}]'
    printf 'job_id,user,submit_time,run_time_s,gpus\na,u,2017-10-01 00:01:00,360,4\nb,v,2017-10-01 00:00:00,60,1\nc,v,2017-10-01 00:00:00,,1\n' >"$T/p.csv"
    run -0 --separate-stderr spot-replay import --from philly-csv "$T/p.csv"
    [ "${lines[1]}" = b,0,second,60,1,1,,v ] && [ "${lines[2]}" = a,60,second,360,4,1,,u ]
    [[ "$stderr" == *'1 job with less than a second on a worker: left out'* ]]
    printf 'JobID|User|Submit|Elapsed|AllocTRES\n7|u|2026-01-01T10:00:00|1-02:03:04|billing=8,gres/gpu=4,node=2\n7.0|u|2026-01-01T10:00:00|00:01|\n' >"$T/s.txt"
    [ "$(spot-replay import --from sacct "$T/s.txt" | tail -1)" = 7,0,second,93784,4,1,,u ]
    spot-replay import --from sacct "$T/s.txt" >"$T/jobs.csv"
    replay --policy spot | tail -1 | grep -q '^spot,1,26.05'
}

@test "what cannot be is refused, with its place" {
    sed -i 's/,240000,/,0,/' "$T/jobs.csv"
    run -3 --separate-stderr plan
    [[ "$stderr" == *jobs.csv:2:*steps* ]]
    sed 's/,2,1,,v100/,2,-1,,v100/' "$S/jobs.csv" >"$T/jobs.csv"
    run -3 --separate-stderr plan
    [[ "$stderr" == *jobs.csv:2:*weight* ]]
    sed 's/,recsys,80000,4/,recsys,80000,16/' "$S/jobs.csv" >"$T/jobs.csv"
    run -1 --separate-stderr plan
    [[ "$stderr" == *"job 'recsys-2'"*16* ]]
    sed 's/recsys-2/recsys-1/' "$S/jobs.csv" >"$T/jobs.csv"
    run -3 --separate-stderr plan
    [[ "$stderr" == *"'recsys-1'"* ]]
    sed 's/,v100,ann/,a100,ann/' "$S/jobs.csv" >"$T/jobs.csv"
    run -3 --separate-stderr plan
    [[ "$stderr" == *"'a100'"* ]]
    cp "$S/jobs.csv" "$T/jobs.csv"
    jq '.rows |= map(select(.kind != "lm"))' "$S/throughput.json" >"$T/throughput.json"
    run -1 --separate-stderr plan
    [[ "$stderr" == *"'lm'"* ]]
    jq '.rows += [.rows[0]]' "$S/throughput.json" >"$T/throughput.json"
    run -3 plan
    cp "$S/throughput.json" "$T/throughput.json"
    printf 'time_s,instance_type,available\n0,a100,4\n' >"$T/t.csv"
    run -3 replay --trace "$T/t.csv"
    printf 'instance_type,count\nv100,4\nv100,2\n' >"$T/cluster.csv"
    run -3 plan
    run -2 plan --policy best
    run -2 replay --rounds gavel --switch 20s
    run -2 spot-plan share --jobs "$T/jobs.csv"
    { echo id,arrival_s,kind,steps,scale; seq -f %.0f,0,k,1,1 100001; } >"$T/jobs.csv"
    run -3 --separate-stderr plan
    [[ "$stderr" == *'more than 100000 jobs'* ]]
}
