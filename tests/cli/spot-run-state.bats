#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-run: what is called durable is there, and what is there is used.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

# two_generations: of a job that was stopped; the newest one's directory in $newest
two_generations() {
    train log --steps 100000 --workers 1 --state st --durable-every 0.02s
    seen log durable 3
    kill -TERM $train
    wait $train || true
    [ "$(ls -d st/gen-* | wc -l)" -eq 2 ]
    newest=$(ls -d st/gen-* | tail -n 1)
}

@test "one changed digit in the newest manifest: the generation before goes on, and that is said" {
    for edit in '/"job"/{s/0",/1",/;t;s/.",/0",/}' '0,/"byte"/s/"byte": */&999999/' '/"step"/s/[0-9]/9/'; do
        rm -rf st log
        two_generations
        step=$(jq .step $newest/manifest.json)
        sed -i "$edit" $newest/manifest.json
        timeout 150 spot-run train --data corpus $MODEL --global-batch 5 --steps $((step + 5)) --state st \
            --resume --events log 2>talk
        grep -q "1 generation set aside, going on from step" talk
        [ -d $newest.bad ]
        same_as log $((step + 5))
    done
}

@test "a directory in the place of a generation is in nobody's way" {
    train log --steps 100000 --state st --durable-every 1h
    worker w1
    at_step log 5
    kill -STOP $pid
    step=$(spot-run status --join unix:j | jq .step)
    for next in $(seq $step $((step + 50))); do
        mkdir -p "st/gen-$(printf %012d $next).tmp/a/b"
    done
    kill -CONT $pid
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    [ "$(events log durable)" -eq 1 ]
    outcome log >/dev/null
}

@test "a state directory that is deleted is noticed and made again, with the state in it" {
    background timeout 150 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s \
        --events log --steps 1000000 --workers 1 --state st --durable-every 1h 2>log.err
    train=$pid
    at_step log 5
    rm -r st
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    grep -q "'st' was deleted: it has been made again" log.err
    named=$(sed -n "s/.*the state of step \([0-9]*\) is in 'st'.*/\1/p" log.err)
    [ "$named" -ge 5 ]
    [ "$(jq .step "st/gen-$(printf %012d $named)/manifest.json")" -eq "$named" ]
}

@test "state that is deleted while the job runs is no longer called durable, and is written again" {
    background timeout 150 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s \
        --events log --steps 1000000 --state st --durable-every 0.05s 2>log.err
    train=$pid
    worker w1
    seen log durable 2
    kill -STOP $pid # nothing new comes
    eventually 'at=$(ls st); sleep 0.3; [ "$at" = "$(ls st)" ]'
    [ "$(spot-run status --join unix:j | jq .durable_step)" -ge 1 ]
    rm -r st
    eventually '[ "$(spot-run status --join unix:j | jq .durable_step)" -eq -1 ]'
    grep -q "has been deleted" log.err
    kill -CONT $pid
    eventually '[ "$(spot-run status --join unix:j | jq .durable_step)" -ge 1 ]'
    stops_right log
    ls st/gen-*/manifest.json
}
