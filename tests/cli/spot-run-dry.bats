#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --dry-run: what a job will take is told before anything starts, and what it then takes is no more.

bats_require_minimum_version 1.5.0
load job

peak=$BATS_TEST_DIRNAME/../../build/release/tests/peak
size="--layers 4 --width 192 --heads 4 --seq 64 --shards 4 --global-batch 4"

setup() { job_setup; }
teardown() { job_teardown; }

# told GRID WORKERS: the estimate, in estimate.json
told_of() { spot-run train --dry-run --data corpus --steps 4 $size --grid "$1" --workers "$2" >estimate.json; }

# ran GRID WORKERS: such a job; the KiB of each process in peak.*
ran() {
    local ids=() i
    rm -rf peak.* state log
    timeout 120 "$peak" peak.coordinator spot-run train -q --data corpus --steps 4 $size --grid "$1" --listen unix:j \
        --state state --durable-every 10ms --lease 20s --events log 2>log.err &
    ids+=($!)
    for i in $(seq "$2"); do
        timeout 120 "$peak" "peak.$i" spot-run worker -q --join unix:j --join-timeout 60s --name "w$i" &
        ids+=($!)
    done
    echo "${ids[@]}" >>pids
    wait "${ids[@]}"
}

@test "no process takes more than 1.15 times what was told" {
    for grid in 1x1 2x1 1x2 2x2; do
        n=$((${grid%x*} * ${grid#*x}))
        told_of $grid $n
        ran $grid $n
        cat peak.[0-9]* | sort -n | tail -n 1 >most
        echo "$grid: workers $(cat peak.[0-9]* | tr '\n' ' ')KiB, coordinator $(cat peak.coordinator) KiB;" \
            "told $(jq -c '[.stages[].total_byte, .coordinator_byte | . / 1024 | floor]' estimate.json)"
        # and what was told is no safe nonsense: at most twice what the largest took
        jq -e --argjson w "$(cat most)" --argjson c "$(cat peak.coordinator)" '
            ([.stages[].total_byte] | max / 1024) as $told
            | $w <= 1.15 * $told and $told <= 2 * $w and
              $c <= 1.15 * .coordinator_byte / 1024 and .coordinator_byte / 1024 <= 2.5 * $c' estimate.json
    done
}

@test "parameters, bytes and moves are those that the job has" {
    told_of 2x2 5
    jq -e '
        .schema == "spot.estimate/1" and [.D, .P, .M, .members] == [2, 2, 1, 5] and .fits and
        .state_byte == 12 * .params and ([.stages[].params] | add) == .params and
        (.stages | all(.weights_byte == 4 * .params and .moments_byte == 8 * .params and .sums_byte == 8 * .params and
            .activations_byte > 0 and .mirrors_byte == 0)) and
        (.stages | all(. as $s | [$s.weights_byte, $s.moments_byte, $s.sums_byte, $s.activations_byte, $s.mirrors_byte,
            $s.transit_byte, $s.process_byte] | add == $s.total_byte)) and
        .step_s > 0 and
        ([.moves[].kind] == ["pipeline_lost", "worker_replaced", "worker_relieved", "pipeline_joins", "stage_more",
            "stage_less", "from_disk"]) and
        .moves[0].moved_byte == 0 and .moves[1].moved_byte == 12 * .stages[1].params and
        .moves[3].moved_byte == .state_byte and .moves[6].moved_byte == 2 * .state_byte and
        .generation.generation_byte == .state_byte' estimate.json
    # what a newcomer is sent is what the log of such a job tells
    rm -rf state
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=1e12 background timeout 120 spot-run train -q --data corpus --steps 1000000 $size --grid 2x1 \
        --listen unix:j --lease 20s --events log 2>log.err
    worker a
    seen log committed 2
    worker b
    eventually 'grep -q "\"formed\".*\"D\":2," log'
    told_of 1x1 2
    jq -es --slurpfile e estimate.json '[.[] | select(.event == "migrate").moved_byte] | max
        == ($e[0].moves[] | select(.kind == "pipeline_joins").moved_byte)' log
}

@test "what does not fit is refused before anything starts" {
    run -1 --separate-stderr spot-run train --dry-run --data corpus --steps 4 --layers 400 --width 2048 --heads 16 --seq 64 \
        --workers 8 --grid 2x4 --state state
    [[ "$stderr" == *"needs "*" GB, "*" GB are available"* ]]
    jq -e '.fits == false and .params > 0' <<<"$output" # the account is told all the same
    [ ! -e state ]
    run -1 --separate-stderr spot-run train --dry-run --data corpus --steps 4 $size --workers 3 --grid 2x2
    [[ "$stderr" == *"grid 2x2 needs 4 members, there are 3"* ]]
    run -1 --separate-stderr spot-run train --dry-run --data corpus --steps 4 $size --state /proc/none # no byte is free there
    [[ "$stderr" == *"--state"* ]]
    spot-run train --dry-run --data corpus --steps 4 $size --state /proc/none --state-command false >/dev/null # nothing lies there then
}

@test "a limit that is hit is named, and what is not there is not resumed" {
    refuses 2 "--grid 64x64 needs 4096 workers, a job has at most 512" train --dry-run --data corpus $size --steps 1 --grid 64x64
    refuses 3 "can be moved in one piece: take a smaller --width or --vocab" train --dry-run --data corpus --steps 1 --layers 2 \
        --width 65536 --heads 4 --vocab 32768 --seq 64 --tokens u16
    refuses 2 "there is no 'nowhere' to resume from" train --dry-run --data corpus $size --steps 1 --resume nowhere
}
