#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# State that moves ahead of a new grid, while the old one works: whoever is killed meanwhile, and
# whatever comes between, the bits are those of the undisturbed job, and no grid waits for bytes.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

moved() { # LOG: bytes that an epoch waited for, with the one that began the job
    jq -s 'map(select(.event == "migrate").moved_byte) | add' "$1"
}

ahead() { # LOG: bytes that were to move beside steps
    jq -s 'map(select(.event == "migrate").precopy_byte // 0) | add' "$1"
}

grid() { # LOG D P: is formed, or will be
    eventually "grep -q '\"formed\".*\"D\":$2,\"P\":$3,' $1"
}

plan() { # D P: is wanted
    echo "{\"schema\":\"spot.plan/1\",\"kind\":\"train\",\"job\":\"x\",\"time_s\":$((++plans)),\"next\":{\"D\":$1,\"P\":$2,\"M\":1,\"B\":1}}" |
        spot-run replan --join unix:j -
}

@test "one who joins is given the state bundle by bundle, and a replica begins without a move" {
    SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000
    worker a
    at_step log 3
    worker b
    grid log 2 1
    more_steps log
    [ "$(ahead log)" -gt 0 ]
    [ "$(moved log)" -eq 0 ]
    [ "$(grep -c '"formed".*"D":1,' log)" -ge 2 ] # the old grid again, meanwhile
    stops_right log
}

at_once() { # ARGUMENTS
    train log --steps 1000000 --seq 256 "$@"
    worker a
    at_step log 9
    worker b
    grid log 2 1
    [ "$(ahead log)" -eq 0 ]
    [ "$(moved log)" -gt 0 ]
    stops_right log --seq 256
}

@test "what moves in less than a step is moved at once" { at_once; }
@test "so is what is less than asked for" { SPOT_TEST_PRECOPY_BYTE=1e9 at_once; }

# tier: long
@test "from grid to grid by plans: every cut of the stages, without a move in between" {
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --layers 4 --grid 1x1
    for name in a b c d; do worker $name; done
    at_step log 3
    for to in "1 2" "1 3" "2 2" "1 4" "2 1" "4 1" "1 1"; do
        plan $to
        grid log $to
        more_steps log
    done
    [ "$(moved log)" -eq 0 ]
    [ "$(ahead log)" -gt 0 ]
    stops_right log --layers 4
}

doubles() { # ARGUMENTS
    SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --grid 1x2 "$@"
    worker a
    worker b
    at_step log 3
    worker c
    worker d
    plan 2 2
    grid log 2 2
    more_steps log
    stops_right log "$@"
}

@test "a tied head is handed over with both its ends" { doubles --tied; }
@test "a Llama is handed over" { doubles --arch llama --heads 4 --kv-heads 2; }

@test "a buddy that comes later gets its stage the same way, and has it when the owner is killed" {
    SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --grid 1x1 --durable-every 1h
    worker a
    owner=$pid
    at_step log 3
    worker b
    eventually 'grep formed log | tail -n 1 | jq -e ".buddies == [\"b\"]" >/dev/null'
    more_steps log
    kill -9 $owner
    seen log lost 1
    more_steps log
    [ "$(moved log)" -eq 0 ]
    [ "$(ahead log)" -gt 0 ]
    [ "$(events log rolled_back)" = 0 ]
    stops_right log
}

# slow LOG ARGUMENTS: many bundles, one member; who joins takes a while to inherit
slow() {
    SPOT_TEST_PRECOPY_BYTE=0 train "$1" --steps 1000000 --layers 30 "${@:2}"
    worker first
    first=$pid
    at_step "$1" 3
    worker receiver
    receiver=$pid
    eventually "grep -q precopy_byte $1"
}

@test "a receiver that is killed half-way is no loss; the next one begins anew" {
    slow log
    kill -9 $receiver
    seen log lost 1
    worker other
    grid log 2 1
    more_steps log
    stops_right log --layers 30
}

@test "a receiver that is told to leave half-way leaves" {
    slow log
    kill -TERM $receiver
    wait $receiver && status=0 || status=$?
    [ "$status" -eq 75 ]
    more_steps log
    stops_right log --layers 30
}

@test "the giver is killed half-way: back to the disk, same bits" {
    slow log --durable-every 0.05s
    seen log durable 1
    kill -9 $first
    seen log lost 1
    more_steps log
    stops_right log --layers 30
}

@test "the giver is told to leave half-way: what is left moves at once, and nothing is lost" {
    slow log
    kill -TERM $first
    wait $first && status=0 || status=$?
    [ "$status" -eq 75 ]
    more_steps log
    [ "$(events log rolled_back)" = 0 ]
    stops_right log --layers 30
}

@test "one joins after the other, plans change, the coordinator is stopped: nothing is lost" {
    slow log --state st --layers 12
    for name in c d; do worker $name; done
    plan 1 3
    worker e
    plan 2 2
    worker f
    more_steps log
    plan 1 1
    plan 2 3
    grid log 2 3
    more_steps log
    stops_right log --layers 12
    SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --layers 12 --state st --resume
    seen log joined 12
    more_steps log
    stops_right log --layers 12
}

# tier: long
@test "grids that change all the time, in a job whose sums want smaller exponents now and then" {
    unset SPOT_PACE
    more="--layers 6 --lr 3"
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 $more
    for name in a b c; do worker $name; done
    at_step log 3
    for k in $(seq $(size 25 5)); do
        for to in "2 1" "1 3" "1 2" "1 1"; do plan $to; done
    done
    at_step log $(size 200 100) # by then exponents were too large more than once
    [ "$(events log formed)" -ge $(size 20 4) ]
    stops_right log $more
}

@test "kills and notices at random times, one after the other, same final bits" {
    RANDOM=11
    unset SPOT_PACE # kills come in the midst of things
    SPOT_TEST_PRECOPY_BYTE=0 train log --steps 1000000 --grid 2x2 --layers 6 --durable-every 0.1s
    local -A alive=()
    for i in 1 2 3 4; do worker n$i && alive[$pid]=1; done
    at_step log 5
    churn 5 $(size 24 14) 0. 3
    grid log 2 2
    more_steps log
    [ "$(ahead log)" -gt 0 ]
    stops_right log --layers 6
}
