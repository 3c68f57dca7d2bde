#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock, plain
# A coordinator that is started again waits for the memory of those who held the newest step; it goes back once, when
# their leases have ended, and what is found again after that is told.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

export SPOT_TEST_BUDDIES=0
FOREVER="--steps 100000 --state st --durable-every 1h"

# resume ARGUMENTS...: SIGKILL for the coordinator, and another one goes on
resume() {
    local n=$(events log resumed)
    kill_job
    train log $FOREVER "$@" --resume
    seen log resumed $((n + 1))
}

# How often the step changed but by a commit
changes() {
    echo "$(events log rolled_back) back, $(events log restored) restored"
}

@test "the holder of a stage that stands still while its coordinator is killed is waited for" {
    train log $FOREVER --grid 1x2
    worker w1 && w1=$pid
    worker w2 && w2=$pid
    for k in 1 2 3; do
        at_step log $(($(events log committed) + 10))
        local slow=$([ $k = 2 ] && echo $w1 || echo $w2)
        kill -STOP $slow
        resume --grid 1x2
        passes 0.7 # more than the time that others may still come in
        kill -CONT $slow
        more_steps log
    done
    stops_right log
    [ "$(changes)" = "0 back, 0 restored" ]
}

@test "nor does one who comes first, with nothing, make the job begin anew" {
    train log $FOREVER --grid 2x1
    worker w1 && w1=$pid
    worker w2 && w2=$pid
    at_step log 10
    kill -STOP $w1 $w2
    resume --grid 2x1
    worker w3
    seen log joined 3
    passes 0.7
    [ "$(events log quiesce)" = 1 ]
    kill -CONT $w1 $w2
    more_steps log
    stops_right log
    [ "$(changes)" = "0 back, 0 restored" ]
}

@test "a plan that comes during the restart does not cut the wait short" {
    local plan='{"schema":"spot.plan/1","time_s":1,"next":{"D":1,"P":1}}'
    train log $FOREVER --grid 1x2
    worker w1
    worker w2 && w2=$pid
    at_step log 10
    kill -STOP $w2
    resume --grid 1x2
    seen log joined 3
    local n=$(events log quiesce)
    echo "$plan" | spot-run replan --join unix:j -
    passes 0.5
    [ "$(events log quiesce)" = $n ]
    kill -CONT $w2
    more_steps log
    [ "$(jq -r 'select(.event == "formed") | "\(.D)x\(.P)"' log | tail -n 1)" = 1x1 ] # the plan counts
    stops_right log
    [ "$(changes)" = "0 back, 0 restored" ]
}

@test "whoever stands still for longer than its lease is not waited for; what it holds is found again" {
    train log $FOREVER --grid 1x1 --lease 4s
    worker w1 && w1=$pid
    at_step log 30
    kill -STOP $w1
    resume --grid 1x1 --lease 4s
    worker w2
    seen log rolled_back 1
    at_step log 3
    kill -CONT $w1
    seen log restored 1
    more_steps log
    [ "$(changes)" = "1 back, 1 restored" ]
    jq -es '(map(select(.event == "rolled_back"))[0].from) as $at
        | map(select(.event == "restored"))[0] | .from < $at and .step == $at' log
    resume --grid 1x1 --lease 4s
    more_steps log
    stops_right log
    [ "$(changes)" = "1 back, 1 restored" ]
    spot-run report log | jq -e '.samples_lost == 0 and .samples_repeated == 0 and .steps_recomputed > 0'
}

@test "without a restart as well: the only copy stands still, the job goes back, then on from the copy" {
    train log $FOREVER --grid 1x1 --lease 4s
    worker w1 && w1=$pid
    at_step log 30
    worker w2 # a spare, without state
    seen log joined 2
    kill -STOP $w1
    seen log rolled_back 1
    more_steps log
    kill -CONT $w1
    seen log restored 1
    more_steps log
    stops_right log
    [ "$(changes)" = "1 back, 1 restored" ]
}

@test "holders that are gone for good cost a lease, and one roll-back" {
    train log $FOREVER --grid 1x2 --lease 4s
    worker w1
    worker w2 && w2=$pid
    at_step log 10
    kill -STOP $w2
    resume --grid 1x2 --lease 4s
    kill -9 $w2
    more_steps log
    worker w3
    seen log joined 4
    more_steps log
    stops_right log
    [ "$(changes)" = "1 back, 0 restored" ]
}

@test "a holder that is told to leave during the wait leaves no step behind" {
    train log $FOREVER --grid 1x2
    worker w1 && w1=$pid
    worker w2 && w2=$pid
    at_step log 10
    kill -STOP $w2
    resume --grid 1x2
    seen log joined 3
    kill -TERM $w1
    seen log notice 1
    worker w3
    passes 0.5
    [ "$(events log left)" = 0 ]
    kill -CONT $w2
    more_steps log
    seen log left 1
    stops_right log
    [ "$(changes)" = "0 back, 0 restored" ]
}

@test "at random: workers stand still, coordinators are killed, plans come" {
    run "$BATS_TEST_DIRNAME/../standstill.sh" $(size 4 1)
    echo "$output" # with the seeds
    [ "$status" -eq 0 ]
}

@test "what a killed coordinator was writing is swept by the next one, what another process writes is not" {
    train log --steps 100000 --state st --save w.safetensors
    worker w1
    seen log durable 1
    kill_job
    touch st/job.json.new w.safetensors.tmp.$train w.safetensors.tmp.$$ # $train is dead
    train log --steps 100000 --state st --save w.safetensors --resume
    worker w2
    more_steps log
    [ ! -e st/job.json.new ]
    [ ! -e w.safetensors.tmp.$(head -n 1 pids) ]
    [ -e w.safetensors.tmp.$$ ]
    stops_right log
}

@test "a job.json that a power failure left empty, torn or zeroed is named, with what to do" {
    timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --state st --events log
    cp st/job.json whole
    : >st/empty
    head -c 100 whole >st/torn
    head -c 500 /dev/zero >st/zeroed
    for how in empty torn zeroed; do
        cp st/$how st/job.json
        for more in "" "--data corpus $MODEL --global-batch 5"; do
            run --separate-stderr timeout 60 spot-run train -q $more --steps 4 --state st --resume --events log
            [ "$status" -eq 3 ]
            [[ "$stderr" == *"'st/job.json'"* ]]
        done
        run --separate-stderr timeout 60 spot-run eval --data corpus --state st
        [ "$status" -eq 3 ]
        [[ "$stderr" == *"'st/job.json'"* ]]
    done
    rm st/job.json
    timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 --state st --resume --events log
    jq -e '.schema == "spot.training/1"' st/job.json
    [ "$(events log committed)" -eq 4 ]
}
