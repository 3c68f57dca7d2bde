#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, plain
# spot-run train that is told to stop ends, whatever it was at: it is stopped once at each line of its log, from the
# first on, and goes on from what it left, with the bits of an undisturbed job.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() {
    job_setup
    seq 70000 70400 | tr -d '\n' >val
}
teardown() { job_teardown; }

VAL="--val-data val --val-every 1 --val-batches 2"

# alone LOG LINE WORKERS ARGUMENTS...: a job with its own workers is stopped at that line of its log; its status
alone() {
    local log=$1 line=$2 n=$3 status=0
    shift 3
    LD_PRELOAD=$SPOT_PACE SPOT_PACE_MS=${PACE_MS-0} SPOT_PACE_STOP=$line timeout 120 spot-run train -q --data corpus $MODEL \
        --global-batch 5 --steps 2 --workers "$n" --state st --events "$log" "$@" 2>"$log.err" || status=$?
    echo $status
}

# with_bad LOG LINE WORKERS ARGUMENTS...: the same with workers of which one is $FAULT
with_bad() {
    local log=$1 line=$2 n=$3 status=0 i
    shift 3
    background faulty unix:j bad $FAULT 2>>workers.err
    for i in $(seq 2 "$n"); do
        worker "good$i"
    done
    LD_PRELOAD=$SPOT_PACE SPOT_PACE_MS=${PACE_MS-0} SPOT_PACE_STOP=$line SPOT_TEST_FIRST=$n timeout 120 spot-run train -q --data \
        corpus $MODEL --global-batch 5 --steps 4 --state st --events "$log" --listen unix:j --lease 20s "$@" \
        2>"$log.err" || status=$?
    kill $(cat pids) 2>/dev/null || true # a job that was not finished would be waited for
    wait $(cat pids) || true
    : >pids
    echo $status
}

# at_each JOB STEPS WORKERS ARGUMENTS...: JOB is stopped at its first line, its second, and so on until it has ended
# before that line; the events that it was stopped at are in `kinds`. A stop after all steps comes too late: 0
at_each() {
    local job=$1 steps=$2 n=$3 line status
    shift 3
    : >kinds
    for line in $(seq 1 200); do
        rm -rf st log
        status=$($job log "$line" "$n" "$@")
        [ "$status" -ne 0 ] || [ "$(wc -l <log)" -ge "$line" ] || break
        sed -n "${line}s/.*\"event\":\"\([a-z_]*\)\".*/\1/p" log >>kinds
        if [ "$status" -ne 0 ]; then
            [ "$status" -eq 75 ] || { cat log.err && return 1; }
            spot-run train -q --data corpus $MODEL --global-batch 5 --steps "$steps" --workers 1 --state st \
                $([ ! -d st ] || echo --resume) --events log ${VAL_ON-} 2>>log.err
        fi
        same_as log "$steps" ${VAL_ON-}
    done
    [ "$line" -lt 200 ]
}

met() { # KIND...: it was stopped at each of these
    local kind
    for kind in "$@"; do
        grep -qx "$kind" kinds || { echo "never at $kind" >&2 && return 1; }
    done
}

@test "one worker: at each event of its beginning, its validation and its steps" {
    VAL_ON=$VAL at_each alone 2 1 $VAL
    met joined quiesce migrate formed validated step committed
}

@test "two workers, and with all verified" {
    VAL_ON=$VAL at_each alone 2 2 --grid 2x1 $VAL
    met joined quiesce migrate formed validated step committed
    VAL_ON=$VAL at_each alone 2 2 --grid 2x1 $VAL --verify 1
    met joined quiesce migrate formed validated step committed
    PACE_MS=12 at_each alone 2 2 --grid 1x2 --durable-every 10ms # each step asks for a generation
    met joined quiesce migrate formed step committed durable
}

@test "when somebody is accused, of a sum or of its state, the newest of which is being written" {
    FAULT="sum 2 100 30 once" at_each with_bad 4 3 --grid 3x1 --verify 1
    met differs corrupt quiesce
    PACE_MS=12 FAULT="update 2 5 20" at_each with_bad 4 3 --grid 3x1 --durable-every 10ms
    met corrupt quiesce
}
