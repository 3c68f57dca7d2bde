#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train: the log of a run that is resumed, piped or pointed at a device.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    mkdir st # to resume from
    set -o pipefail # jq -e of nothing is 0
}
teardown() { job_teardown; }

# resume STATUS STEPS [ARGUMENTS]: what it says goes to `said`
resume() {
    local want=$1 steps=$2
    shift 2
    timeout 60 spot-run train --data corpus $MODEL --global-batch 5 --steps "$steps" --state st --resume "$@" \
        2>said && status=0 || status=$?
    [ "$status" -eq "$want" ] || { echo "gave $status: $(cat said)" >&2; return 1; }
}

@test "only an unfinished last line is cut; any other that is no event is named, and kept" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 10 --state st --events log
    { cat log; printf '{"schema":"spot.event/1","ev'; } >torn
    resume 0 12 --events torn
    jq -es 'map(select(.event == "committed").step) == [range(1; 13)]' torn
    for at in 2 12 '$'; do
        sed "$at"'{p;s/.*/garbage/}' log >broken
        cp broken before
        resume 3 14 --events broken
        grep -q "^spot-run train: broken:$(grep -n garbage broken | cut -d: -f1):" said
        cmp broken before
    done
    seq 100 >other # no log at all
    cp other before
    resume 3 14 --events other
    cmp other before
}

@test "a job with nothing left to do keeps its last loss and is done once" {
    resume 0 20 --events log
    sed '/warning: .st. has no state/d' said >want
    for again in 1 2; do
        resume 0 20 --events log
        cmp said want
        [ "$(events log done)" -eq 1 ]
    done
    # a log that does not tell the loss: none is made up
    resume 0 20 --events other
    [[ "$(cat said)" == "step 20  state "* ]]
    jq -es 'last | .event == "done" and (has("loss") | not)' other
    jq -s 'map(.state_xxh3_128 // empty) | unique | length' log other | grep -qx 1
    resume 2 19 --events log
    grep -q -- "--steps 19 is less than the 20 that are done" said
    resume 0 22 --events log
    [ "$(events log done)" -eq 2 ]
}

@test "a resumed job writes its events to a device or a pipe as well" {
    resume 0 5 --events log
    resume 0 8 --events /dev/null
    [ -c /dev/null ]
    mkfifo pipe
    cat pipe >piped &
    echo $! >>pids
    resume 0 11 --events pipe
    wait $!
    jq -es 'map(select(.event == "committed").step) == [9, 10, 11] and last.event == "done"' piped
}

@test "status tells the grid that is wanted, by what, and who waits, works and is spare" {
    jq -nc '{schema: "spot.plan/1", kind: "train", job: "t", time_s: 7, next: {D: 1, P: 2, M: 1, B: 1}}' >plan.json
    train log --steps 100000 --plan plan.json
    eventually 'spot-run status --join unix:j >status'
    jq -e '.want == {D: 1, P: 2, M: 1} and .plan_time_s == 7 and (.suspended | not)' status
    for i in 1 2 3; do worker w$i; done
    eventually 'spot-run status --join unix:j | jq -e ".phase == \"run\" and .P == 2 and (.members | length) == 3" >/dev/null'
    eventually 'spot-run status --join unix:j | jq -e "[.members[].role] | sort == [\"active\", \"active\", \"spare\"]" >/dev/null'
    spot-run status --join unix:j >status
    jq -e 'all(.members[]; (.role == "active") == has("d"))' status
    jq -r -L "$BATS_TEST_DIRNAME/../lint" --slurpfile schema "$BATS_TEST_DIRNAME/../../docs/schema/status.json" \
        'include "schema"; faults($schema[0]; "")' status >wrong
    [ ! -s wrong ] || { cat wrong >&2; false; }
    spot-run status --join unix:j --format table | grep "^wanted: grid 1x2, by the plan of time 7 s"
    kill -TERM $train
    wait $train || true
}

@test "a vocabulary beyond bytes without a kind of token is doubted" {
    resume 0 1 --vocab 1000 --events v.log
    grep -q "read as bytes.*--tokens u16 or u32" said
    rm -r st/*
    resume 0 1 --vocab 200 --events v.log
    run -1 grep "read as bytes" said
}

@test "a resumed job says so, and a first start does not" {
    timeout 60 spot-run train --data corpus $MODEL --global-batch 5 --steps 3 --state st --events log -q
    run -1 grep resumed log
    resume 0 5 --events log
    [ "$(events log resumed)" = 1 ]
    jq -es 'any(.event == "resumed" and .step == 3)' log
    jq -es 'all(.event != "formed" or .tokens == "bytes")' log
}

@test "what is not known yet is not said: a job that waits for workers has no loss and no end in sight" {
    train log --steps 10
    eventually 'spot-run status --join unix:j --format json >status'
    jq -e '.phase == "wait" and .step == 0 and (has("loss") or has("eta_s") | not)' status
    spot-run status --join unix:j --format table >table
    head -n 1 table | grep -q "loss -  .*ETA -"
    grep -q "^wanted: as members allow, no plan" table
    worker w1
    wait $train
}

@test "a job that a plan suspends has no pace and no end in sight" {
    train log --steps 100000
    worker w
    at_step log 5
    jq -nc '{schema: "spot.plan/1", kind: "train", job: "t", time_s: 7, next: {D: 0, P: 0, M: 0, B: 0}}' |
        spot-run replan --join unix:j -
    eventually 'spot-run status --join unix:j | tee status | jq -e ".suspended and .phase == \"wait\""'
    jq -e 'has("eta_s") | not' status
    spot-run status --join unix:j --format table >table
    grep -q "the plan of time 7 s suspends the job" table
    run -1 grep -E "ms/step|ETA|tokens/s" table
}

@test "neither the log of another run nor what is no log is overwritten" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --events log
    cp log before
    refuses 2 "'log' is the log of another run: continue it with --resume" train -q --data corpus $MODEL --steps 1 --events log
    refuses 2 "'log' is the log of another run" train -q --data corpus $MODEL --global-batch 5 --steps 2 --events log --save w
    cmp log before
    [ ! -e w ]
    echo notes >other
    : >empty
    refuses 2 "'other'" train -q --data corpus $MODEL --steps 1 --events other
    [ "$(cat other)" = notes ]
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --events empty
    cmp <(outcome log) <(outcome empty)
}
