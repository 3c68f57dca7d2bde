#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: examples/etcd/coordinator.sh goes on whoever is killed, ends when the job is done or was stopped, and the
# job has the bits of an undisturbed run.
# shellcheck disable=SC2086,SC2154 # words; background sets $pid, etcd_up $store

bats_require_minimum_version 1.5.0
load job
load etcd

setup() {
    job_setup
    examples=$BATS_TEST_DIRNAME/../../examples
}
teardown() { job_teardown; }

# coordinator NAME STEPS: the loop of the example
coordinator() {
    mkdir -p "$1"
    background env STORE="$store" LISTEN="unix:$PWD/$1/j" DIR="$PWD/$1" ${SPOT_PACE:+"LD_PRELOAD=$SPOT_PACE"} \
        SPOT_TEST_STORE_LEASE_S=2 "$examples/etcd/coordinator.sh" --data "$PWD/corpus" $MODEL --global-batch 5 --steps "$2" --lease 2s 2>>"$1.err"
}

leads() { # NAME HOW-OFTEN: it has begun to
    eventually "[ \"\$(grep -c 'listening at' $1.err)\" -ge $2 ]"
}

@test "etcd: coordinators of the example follow one another, and end when the job is done" {
    world
    etcd_up
    coordinator a 300
    a=$pid
    leads a 1
    coordinator b 300
    b=$pid
    for name in w1 w2; do
        background spot-run worker -q --join "$store" --join-timeout 60s --name $name 2>>workers.err
    done
    eventually "grep -q 'standing by' b.err"
    at_step a/events.jsonl 20
    kill -TERM "$(pgrep -P $a spot-run)" # it leaves, and stands by from then on
    leads b 1
    eventually "[ \"\$(grep -c 'standing by' a.err)\" -ge 1 ]"
    eventually "[ \"\$(events b/events.jsonl committed)\" -ge 20 ]"
    kill -TERM "$(pgrep -P $b spot-run)"
    wait $a
    wait $b
    undisturbed 300 | tail -n 1 >want
    jq -rs '[.[] | select(.event == "done").state_xxh3_128] | last' a/events.jsonl b/events.jsonl >got
    cmp want got
    undisturbed 300 | sed '$d' >want
    jq -rn '[inputs | select(.event == "committed") | [.step, .loss_hex]] | unique | .[][1]' {a,b}/events.jsonl >got
    cmp want got
}

@test "etcd: a job that was stopped ends its coordinators" {
    world
    etcd_up
    coordinator a 100000
    a=$pid
    leads a 1
    coordinator b 100000
    b=$pid
    background spot-run worker -q --join "$store" --join-timeout 60s --name w1 2>>workers.err
    at_step a/events.jsonl 10
    spot-run stop -q --join "$store" --join-timeout 60s
    for id in $a $b; do
        wait "$id" && status=0 || status=$?
        [ "$status" -eq 1 ]
    done
    grep -q 'the job was stopped at step' b.err
}

@test "the README has at most 30 lines" {
    [ "$(wc -l <"$examples/etcd/README.md")" -le 30 ]
}
