#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# lane: clock
# Goal: the loop that cron runs steers a live job, and a plan for an epoch that is over is refused.
bats_require_minimum_version 1.5.0
load ../cli/job

setup() {
    root=$PWD
    cd "$BATS_TEST_TMPDIR"
    cp "$root/LICENSE" corpus
    spot-run train --quiet --data corpus --layers 2 --width 32 --heads 4 --seq 16 --shards 4 --global-batch 8 \
        --steps 1000000 --listen unix:j --state st --events log 3>&- &
    coordinator=$!
    workers=()
    for i in 1 2 3 4; do
        spot-run worker --quiet --join unix:j --name "w$i" 3>&- &
        workers+=($!)
    done
    seen log joined 4
    seen log committed 1
}

teardown() {
    kill -TERM "$coordinator" 2>/dev/null || true
    kill -KILL "${workers[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
}

grid() { # of the newest epoch
    grep '"formed"' log | tail -n 1 | jq -r '"\(.D)x\(.P)"'
}

@test "the cron loop imports, predicts, plans and replans a live job" {
    [ "$(grid)" = 4x1 ]
    run -2 "$root/examples/cron/replan.sh" "$root/examples/jobs/demo.json" unix:j
    [[ "$output" == usage:* ]]
    run -0 "$root/examples/cron/replan.sh" "$root/examples/jobs/demo.json" unix:j log
    want=$(spot-replay import --from spot-event --quiet log | spot-predict --interval 60s --horizon 6 --cap 6 |
        spot-plan train --job "$root/examples/jobs/demo.json" --forecast - --now 4 | jq -r '"\(.next.D)x\(.next.P)"')
    eventually '[ "$(grid)" = "$want" ]'
    [ "$want" != 4x1 ]
}

@test "a turn that goes on from what the last one learned plans the same" {
    mkdir slow # a clock 600 times as fast: some intervals pass between two turns
    real=$(command -v spot-replay)
    printf '#!/bin/sh\n"%s" "$@" | awk -F, -v OFS=, "NR > 1 { \\$1 *= 600 } 1"\n' "$real" >slow/spot-replay
    chmod +x slow/spot-replay
    PATH=$PWD/slow:$PATH
    turn() {
        "$root/examples/cron/replan.sh" "$root/examples/jobs/demo.json" unix:j log state
    }
    forecast() { # OPTION...
        spot-replay import --from spot-event --quiet log |
            spot-predict --interval 60s --horizon 6 --cap 6 --quiet --no-provenance "$@"
    }
    spans() { # EVENT SECONDS: since the newest such event
        jq -sne --arg event "$1" --argjson s "$2" '[inputs[]] | ([.[] | select(.event == $event)] | last) as $from |
            (last.time_s - $from.time_s) * 600 > $s' log
    }
    turn
    [ -s state ]
    cp state first
    kill -KILL "${workers[0]}"
    seen log lost 1
    eventually 'spans lost 120' # of that clock: a whole interval without the lost one
    spot-run worker --quiet --join unix:j --name w5 3>&- &
    workers+=($!)
    seen log joined 5
    eventually 'spans joined 120'
    turn
    run ! cmp -s state first
    spot-run stop -q --join unix:j # nothing is added to the log any more
    wait "$coordinator" || [ $? -eq 75 ]
    forecast --state state >with
    forecast >without
    jq -e '.series[0].past_changes >= 2' with
    cmp with without
}

@test "a second turn leaves at once while the first holds the lock" {
    exec 8>replan.lock
    flock -n 8
    run -0 --separate-stderr "$root/examples/cron/replan.sh" "$root/examples/jobs/demo.json" unix:j ./log
    [ -z "$output" ]
}

@test "a plan for an epoch that is over is refused" {
    spot-plan train --job "$root/examples/jobs/demo.json" --now 4 --epoch 0 -o old.json
    run -1 spot-run replan --join unix:j old.json
    [[ "$output" == *"the plan is for epoch 0"* ]]
}
