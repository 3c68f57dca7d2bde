#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: compute
# Jobs of more members than exchange sums in pairs (comm/sum_route.h).

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

hash_of() { jq -r 'select(.event == "done").state_xxh3_128' "$1"; }

# local_workers: ids of those of the job whose coordinator is $pid
local_workers() { pgrep -P "$pid"; }

@test "sums over forty members of whom two are killed are those of one" {
    common="train -q --data corpus $MODEL --global-batch 40 --steps 12"
    spot-run $common --events one
    background spot-run $common --workers 40 --events log --lease 20s
    at_step log 2
    kill -9 $(local_workers | sed -n '7p;30p')
    wait "$pid"
    [ "$(events log lost)" -ge 2 ]
    [ "$(hash_of log)" = "$(hash_of one)" ]
    diff <(jq -c 'select(.event == "committed") | [.step, .loss_hex]' one) \
        <(jq -c 'select(.event == "committed") | [.step, .loss_hex]' log)
}

# sockets PID: that it has open
sockets() { find "/proc/$1/fd" -lname 'socket:*' 2>/dev/null | wc -l; }

@test "members connect only to those with whom they exchange frames" {
    # a pipeline of three stages, by sixteen: two neighbours at most, fifteen replicas, the ends of three pipelines
    background spot-run train -q --data corpus $MODEL --global-batch 48 --steps 100000 --workers 48 --grid 16x3 --events log \
        --lease 20s --listen unix:j
    at_step log 2
    for id in $(local_workers); do sockets "$id"; done >count
    [ "$(wc -l <count)" -eq 48 ]
    # a listener, the coordinator, 15 replicas, 2 others in the pipeline, two buddies at most
    [ "$(sort -n count | tail -n 1)" -le 21 ]
    kill -9 $(local_workers | tail -n 1)
    seen log lost 1
    seen log formed 2
    more_steps log
    spot-run stop -q --join unix:j || [ $? -le 75 ]
    wait "$pid" || [ $? -eq 75 ]
}
