#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs asan, lane: wait
# spot-run status --watch: again and again, in place on a terminal, a line each in a pipe, to the end of the job.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

lines() { # FILE: how many
    wc -l <"$1" 2>/dev/null || echo 0
}

@test "--watch writes a document a line and ends with the job, status 0" {
    train log --steps 1000000 --workers 1
    background spot-run status --join unix:j --join-timeout 60s --watch 0.02s >got 2>said
    watch=$pid
    eventually '[ "$(lines got)" -ge 5 ]'
    at_step log 10
    more=$(lines got)
    eventually '[ "$(lines got)" -gt $((more + 2)) ]'
    kill -TERM $train
    wait $train || true
    # with a timeout it looks for the job that long; without one it ends
    kill $watch
    wait $watch || true
    jq -es 'length > 5 and all(.schema == "spot.status/1") and (map(.step) | . == sort) and last.step > 0' got
    [ ! -s said ]
    train log --steps 1000000 --workers 1
    eventually 'spot-run status --join unix:j >/dev/null'
    background spot-run status --join unix:j --watch=0.02s
    watch=$pid
    background spot-run status --format table --join unix:j --watch >table
    table=$pid
    eventually '[ "$(grep -c ^phase table)" -ge 2 ]'
    kill -TERM $train
    wait $train || true
    wait $watch
    wait $table
    run -1 grep $'\033' table
}

@test "--watch without a job is what status is without one; the time is checked" {
    refuses 4 "cannot connect" status --join unix:none --watch
    refuses 2 "--watch must be a duration of 0.01s to 1d, such as 2s, got 'soon'" status --join unix:none --watch soon
    refuses 2 "--watch must be a duration" status --join unix:none --watch 0s
}

@test "on a terminal each table takes the place of the one before" {
    command -v script || skip "no script(1)"
    train log --steps 1000000 --workers 1
    eventually 'spot-run status --join unix:j >/dev/null'
    background script -qec "spot-run status --join unix:j --watch 0.05s" typed </dev/null >/dev/null
    watch=$pid
    eventually '[ "$(grep -c "phase " typed)" -ge 3 ]'
    kill -TERM $train
    wait $train || true
    wait $watch
    [ "$(grep -o $'\033\[H\033\[J' typed | wc -l)" -ge 3 ]
}
