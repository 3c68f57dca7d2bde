#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# A notice whose deadline is known: state that would go with the leaver moves beside the steps, and the grid
# changes when nothing is left to move; at once only when the deadline is near. Deadlines that are short or not told,
# and notices that come beside each other, are in tests/unit/test_job_placed.c.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

moved() { # LOG: bytes that an epoch waited for, with the one that began the job
    jq -s 'map(select(.event == "migrate").moved_byte) | add' "$1"
}

ahead() { # LOG: bytes that were to move beside steps
    jq -s 'map(select(.event == "migrate").precopy_byte // 0) | add' "$1"
}

# stages LOG N ARGUMENTS: 1x2 of a and b, and N members that hold nothing
stages() {
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=0 train "$1" --steps 1000000 --grid 1x2 "${@:3}"
    local i
    for i in a b; do worker $i && id[$i]=$pid; done
    at_step "$1" 3
    for i in $(seq "$2"); do worker c$i && id[c$i]=$pid; done
    seen "$1" joined $((2 + $2))
}

leaves() { # NAME: with status 75
    wait ${id[$1]} && status=0 || status=$?
    [ "$status" -eq 75 ]
}

@test "a long notice: all of it moves while steps run, and the leaver goes" {
    declare -A id=()
    stages log 1 --grace 60s
    kill -TERM ${id[a]}
    leaves a
    more_steps log
    # at once nothing; on a busy machine a receiver may be behind at the end, and get the rest then
    jq -es '(map(.event == "notice") | index(true)) as $n | .[$n:] | map(select(.event == "migrate"))[0]
        | .moved_byte == 0 and .precopy_byte > 0' log
    [ "$(events log rolled_back)" = 0 ]
    grep -q '"left".*"name":"a"' log
    # the old grid worked on meanwhile, with the leaver in it
    jq -es '(map(.event == "notice") | index(true)) as $n | .[$n:] | map(select(.event == "formed"))
        | (.[0].place | index("a")) and (.[-1].place | index("a") | not)' log
    stops_right log
}

# halfway LOG ARGUMENTS: many bundles; a was told to leave, and some of its bundles have moved
halfway() {
    stages "$1" 2 --grace 60s --layers 30 "${@:2}"
    kill -TERM ${id[a]}
    eventually "grep -q precopy_byte $1"
}

@test "a notice that was shorter than told: nothing is lost but time" {
    declare -A id=()
    halfway log --durable-every 0.05s
    kill -9 ${id[a]}
    # it may have left by then
    eventually '[ "$(events log lost)" -ge 1 ] || grep -q "\"left\".*\"name\":\"a\"" log'
    more_steps log
    stops_right log --layers 30
}

# nearer: a deadline of 600 s, and of none at all while a step that hands over does not end
nearer() {
    declare -A id=()
    export SPOT_PACE_MS=200 # several steps are to come when the first bundles have moved
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --grid 1x2 --layers 30
    local claims
    claims=$(mktemp claims.XXXX)
    background spot-run worker -q --join unix:j --join-timeout 60s --name a --notice "cmd:tail -n +1 -f $claims" 2>>workers.err
    id[a]=$pid
    eventually 'grep -q "\"joined\".*\"name\":\"a\"" log'
    worker b && id[b]=$pid
    at_step log 3
    worker c && id[c]=$pid
    seen log joined 3
    echo preempt 600s >>$claims
    eventually 'grep -q precopy_byte log'
    kill -STOP ${id[c]} # no step ends
    echo preempt 0s >>$claims
    passes 1 # it is told by then, or in another try
    kill -CONT ${id[c]}
    leaves a
    more_steps log
    [ "$(events log rolled_back)" = 0 ]
    stops_right log --layers 30
    kill -9 ${id[b]} ${id[c]} 2>/dev/null || true # none joins the next job
    wait ${id[b]} ${id[c]} || true
}

@test "a deadline that comes nearer half-way: what is left moves at once" {
    # all may have moved before the step that is held up
    for _ in 1 2 3 4 5 6 7 8; do
        nearer
        [ "$(moved log)" -eq 0 ] || return 0
    done
    false
}

# told_by_lines: a, of a grid of 1x2, is told of notices by lines in $claims
told_by_lines() {
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --grid 1x2 --layers 30
    claims=$(mktemp claims.XXXX)
    background spot-run worker -q --join unix:j --join-timeout 60s --name a --notice "cmd:tail -n +1 -f $claims" 2>>workers.err
    id[a]=$pid
    eventually 'grep -q "\"joined\".*\"name\":\"a\"" log'
    worker b && id[b]=$pid
    at_step log 3
    worker c && id[c]=$pid
    seen log joined 3
}

@test "a deadline that moves away half-way: beside the steps all the same" {
    declare -A id=()
    told_by_lines
    echo preempt 300s >>$claims
    eventually 'grep -q precopy_byte log'
    echo preempt 600s >>$claims
    leaves a
    more_steps log
    jq -es '(map(.event == "notice") | index(true)) as $n | .[$n:] | map(select(.event == "migrate"))[0]
        | .moved_byte == 0 and .precopy_byte > 0' log
    [ "$(events log rolled_back)" = 0 ]
    stops_right log --layers 30
}

@test "notices at random times with a deadline, and kills between, same final bits" {
    RANDOM=5
    unset SPOT_PACE # they come in the midst of things
    SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --grace 20s --grid 2x2 --layers 6 --durable-every 0.1s
    local -A alive=()
    for i in 1 2 3 4; do worker n$i && alive[$pid]=1; done
    at_step log 5
    churn 5 $(size 24 14) 0. 3
    eventually "grep -q '\"formed\".*\"D\":2,\"P\":2,' log"
    more_steps log
    stops_right log --layers 6
}
