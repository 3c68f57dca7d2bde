#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Three small jobs on two workers, given out turn by turn by examples/share/share.sh: each ends with the
# bits of its undisturbed run.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    PATH=$BATS_TEST_DIRNAME/../../examples/share:$PATH
}
teardown() { job_teardown; }

bits() { jq -r 'select(.event == "done") | .state_xxh3_128' "$1"; }

alive() { kill -0 "$1" 2>/dev/null; }

@test "three jobs share two workers by plans, and end with the weights of undisturbed runs" {
    local id jobs=() turns=0 steps=1500
    local -A n
    # a job that takes its time is there for several turns, too
    [ -z "${SPOT_PACE-}" ] || { steps=300 && export SPOT_PACE_MS=20; }
    printf 'instance_type,count\nhost,2\n' >cluster.csv
    jq -n '{schema: "spot.throughput/1", rows: [["slow", 1, 3], ["slow", 2, 5], ["fast", 1, 9], ["fast", 2, 12]
        | {kind: .[0], scale: .[1], instance_type: "host", steps_per_s: .[2]}]}' >throughput.json
    echo id,arrival_s,kind,steps,scale,scale_min,scale_max,join >jobs.csv
    for id in a b c; do
        kind=slow n[$id]=$((2 * steps)) # it outlasts the others by more than a round
        [ $id = a ] || { kind=fast && n[$id]=$steps; }
        echo "$id,0,$kind,${n[$id]},1,1,2,unix:$id" >>jobs.csv
        timeout 100 spot-run train -q --data corpus $MODEL --global-batch 5 --workers 1 --steps ${n[$id]} \
            --seed "$(printf %d "'$id")" --events "$id.alone" 3>&-
    done
    for id in a b c; do
        LD_PRELOAD=${SPOT_PACE-} train "$id.log" --listen "unix:$id" --workers 2 --steps ${n[$id]} --seed "$(printf %d "'$id")" --grid 1x1
        jobs+=($pid)
        eventually "spot-run status --join unix:$id >/dev/null 2>&1"
    done
    while alive "${jobs[0]}" || alive "${jobs[1]}" || alive "${jobs[2]}"; do
        share.sh jobs.csv throughput.json cluster.csv 2>>turns.err
        turns=$((turns + 1))
        sleep 0.3
        [ $turns -lt 400 ]
    done
    wait "${jobs[@]}"
    for id in a b c; do
        [ -n "$(bits "$id.alone")" ]
        [ "$(bits "$id.alone")" = "$(bits "$id.log")" ]
    done
    # the slow one was set aside for the others, came back, and had both workers in the end
    jq -s -e '[.[] | select(.event == "formed")] | length > 1 and any(.[]; .D == 2)' a.log
}
