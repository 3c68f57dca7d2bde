#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: the loop that cron runs steers a live job, and a plan for an epoch that is over is refused.
bats_require_minimum_version 1.5.0

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
    for i in $(seq 200); do
        [ "$(grep -c '"joined"' log 2>/dev/null)" = 4 ] && grep -q '"committed"' log && break
        sleep 0.05
    done
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
    # twenty minutes of quiet before it, as a job that has run for a while would have logged
    run -2 "$root/examples/cron/replan.sh" "$root/examples/jobs/demo.json" unix:j
    [[ "$output" == usage:* ]]
    run -0 "$root/examples/cron/replan.sh" "$root/examples/jobs/demo.json" unix:j log
    want=$(spot-replay import --from spot-event --quiet log | spot-predict --interval 60s --horizon 6 --cap 6 |
        spot-plan train --job "$root/examples/jobs/demo.json" --forecast - --now 4 | jq -r '"\(.next.D)x\(.next.P)"')
    for i in $(seq 100); do
        [ "$(grid)" = "$want" ] && break
        sleep 0.05
    done
    [ "$(grid)" = "$want" ]
    [ "$want" != 4x1 ]
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
