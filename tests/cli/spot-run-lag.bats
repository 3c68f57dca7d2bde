#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# How far durable state is behind: generations are as frequent as what they cost steps allows, not as their disk is fast.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

disk=$BATS_TEST_DIRNAME/../../build/release/tests/disk.so

setup() { job_setup; }
teardown() { job_teardown; }

@test "a slow disk that costs steps nothing does not keep generations apart" {
    train log --steps 1000000 --grid 2x1 --state state
    for name in a b; do SPOT_DISK_MS=60 LD_PRELOAD=$disk worker $name; done # who writes
    seen log durable 3
    # each took over half a second; twenty times that would be ten and more
    jq -es '[.[] | select(.event == "durable")] as $d
        | ($d | all(.lag_s > 0.5 and .cost_s >= 0)) and
          ($d[2].time_s - $d[1].time_s) < 12 * ($d | map(.lag_s) | min)' log
    spot-run status --join unix:j --format json | jq -e '.durable_lag_s > 0'
    stops_right log
}

@test "what is behind is work: no wait for the first worker counts" {
    train log --steps 1000000 --grid 1x1 --state state --durable-every 1h
    eventually '[ -S j ]'
    passes 2
    before=$(date +%s%3N)
    worker a
    seen log committed 1
    spot-run status --join unix:j --format json >status.json
    # whatever the machine is busy with, the step began after its worker was started
    jq -e --argjson ms "$(($(date +%s%3N) - before))" '.durable_lag_s > 0 and .durable_lag_s <= $ms / 1000 + 0.01' status.json
    stops_right log
}

@test "storage that is slower than the steps for ever: the job goes on, and status tells" {
    train log --steps 1000000 --grid 2x1 --state state --durable-every 0.05s
    for name in a b; do SPOT_DISK_MS=100 LD_PRELOAD=$disk worker $name; done # a generation takes over a second
    seen log durable 3
    spot-run status --join unix:j --format json | jq -e '.durable_lag_s > 0'
    # one generation at a time, and many steps beside each
    jq -es '[.[] | select(.event == "durable").step] as $d | ($d | length) >= 3 and ([range(1; $d | length) | $d[.] - $d[. - 1]] | min) > 3' log
    more_steps log
    stops_right log
}
