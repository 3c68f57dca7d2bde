#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: the log of a run is a trace: what is described, forecast and replayed of it is what happened to the job.
bats_require_minimum_version 1.5.0
load ../cli/job

setup() {
    root=$PWD
    job_setup
}
teardown() { job_teardown; }

# A job that one worker leaves with notice, another without, and that two newcomers join.
lived() {
    local a b
    train log --steps 100000
    worker a
    a=$pid
    worker b
    b=$pid
    worker c
    seen log joined 3
    more_steps log
    kill -TERM $a
    seen log left 1
    more_steps log
    kill -KILL $b
    seen log lost 1
    more_steps log
    worker d
    seen log joined 4
    worker e
    seen log joined 5
    more_steps log
    spot-run status --join unix:j >status.json
    spot-run stop -q --join unix:j
    wait $train || [ $? -eq 75 ]
}

@test "import, describe and predict count what the log says" {
    lived
    spot-replay import --from spot-event -q -o counts.csv log

    # the counts are those of the events, one by one
    jq -nr 'reduce (inputs | select(.event | IN("joined", "left", "lost"))) as $e ([];
        . + [(.[-1] // 0) + (if $e.event == "joined" then 1 else -1 end)]) | .[]' log >want
    spot-replay import --from spot-event --events -q log | grep -v notice |
        awk -F, '$2 == "add" { print ++n } $2 == "remove" { print --n }' >got
    # those that stop with the job are not lost to it
    head -n "$(wc -l <got)" want | cmp - got

    spot-replay describe --format json counts.csv >summary.json
    jq -e '.series[0] | .max == 3 and .lost.machines == 2 and .gained.machines >= 4' summary.json

    spot-predict --interval 100ms --horizon 3 --cap 4 counts.csv >forecast.json
    jq -e --slurpfile status status.json '.series[0] | .now == ($status[0].members | length) and .now == 3 and
        .past_changes >= 2 and (.available | length) == 3 and (.available | all((.p | add) - 1 | fabs < 1e-9))' forecast.json
    # losses were seen, so they are expected
    jq -e '[.series[0].change[] | select(.lost > 0).p] | add > 0' forecast.json
    # the node form tells the same
    spot-replay import --from spot-event --events -q log | spot-predict --interval 100ms --horizon 3 --cap 4 - |
        jq -e '.series[0].now == 3'
    spot-replay import --from spot-event --events -q log | grep -c ',notice,a$'
}

@test "the same log gives the same bytes, whatever compresses it" {
    lived
    chain() {
        spot-replay import --from spot-event -q "$@" | spot-predict --interval 100ms --cap 4 --no-provenance |
            spot-plan train --job "$root/examples/jobs/demo.json" --forecast - --now 3 --no-provenance
    }
    chain log >want
    jq -e '.next.D * .next.P <= 3' want
    zstd -q log
    chain log.zst | cmp - want
    chain log log.zst | cmp - want # what is said twice counts once
}
