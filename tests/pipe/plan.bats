#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: generate | predict | plan starts a job and steers it while it runs, and its result is that of an undisturbed job.
bats_require_minimum_version 1.5.0
load ../cli/job

setup() {
    job=$PWD/examples/jobs/demo.json
    job_setup
}
teardown() { job_teardown; }

trace() {
    spot-replay generate --profile stormy --cap 4 --hours 2 --seed 12 "$@"
}

forecast() {
    spot-predict --interval 60s --horizon 6 --cap 4 --no-provenance "$@"
}

plan() { # OPTION...: a forecast on stdin
    spot-plan train --job "$job" --forecast - --no-provenance "$@"
}

next() { # PLAN: its grid
    jq -r '"\(.next.D)x\(.next.P)"' "$1"
}

grid() { # of the newest epoch
    grep '"formed"' log | tail -n 1 | jq -r '"\(.D)x\(.P)"'
}

@test "a planned job runs on the grid of its plan, then on that of the next one, with the same bits" {
    trace | forecast | plan --now 4 -o plan.json
    trace | forecast | plan --now 4 | cmp - plan.json # equal seeds, equal bytes
    first=$(next plan.json)
    [ "$first" != 4x1 ] # what four workers run on without a plan
    jq -e '.next.D * .next.P <= 4 and .expected.samples_per_s > 0 and (.why | length) > 1' plan.json

    train log --steps 2000 --plan plan.json --state st
    for name in a b c d; do worker $name; done
    eventually '[ "$(grid)" = "$first" ] && [ "$(events log joined)" = 4 ]'
    spot-run status --join unix:j | jq -e --slurpfile plan plan.json '[.D, .P] == ($plan[0].next | [.D, .P])'
    at_step log 20

    # three of four are left for the next one; the file is replaced in one go, as cron's loop does
    trace | forecast | plan --now 3 --current "$first" --leaving 1 -o other.json
    second=$(next other.json)
    [ "$second" != "$first" ]
    mv other.json plan.json
    eventually '[ "$(grid)" = "$second" ]'
    more_steps log
    stops_right log
    spot-run report log | jq -e '.samples_lost == 0 and .samples_repeated == 0 and .epochs >= 2'
}

@test "a plan that says to suspend stops the steps until one with a grid follows" {
    train log --steps 2000 --state st
    for name in a b; do worker $name; done
    at_step log 5
    trace | forecast | plan --now 1 -o none.json # P_min of the job is 2
    [ "$(next none.json)" = 0x0 ]
    spot-run replan --join unix:j none.json
    eventually "spot-run status --join unix:j | jq -e .suspended"
    before=$(events log committed)
    trace | forecast | plan --now 2 -o two.json
    spot-run replan --join unix:j --force two.json
    eventually '[ "$(grid)" = "$(next two.json)" ] && [ "$(events log committed)" -gt $before ]'
    stops_right log
}
