#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
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
    for edit in '/"job"/{s/0",/1",/;t;s/.",/0",/}' '0,/"byte"/s/"byte": */&999999/' '/"step"/{s/: *9/: 8/;t;s/[0-9]/9/}'; do
        rm -rf st log
        two_generations
        step=$(jq .step $newest/manifest.json)
        sed -i "$edit" $newest/manifest.json
        timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --steps $((step + 5)) --state st \
            --resume --events log 2>talk
        grep -q "1 generation set aside, continuing from step" talk
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
    background timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s \
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
    background timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s \
        --events log --steps 1000000 --state st --durable-every 0.05s 2>log.err
    train=$pid
    worker w1
    seen log durable 2
    kill -STOP $pid # nothing new comes
    settled 'ls st'
    [ "$(spot-run status --join unix:j | jq .durable_step)" -ge 1 ]
    rm -r st
    eventually '[ "$(spot-run status --join unix:j | jq .durable_step)" -eq -1 ]'
    grep -q "has been deleted" log.err
    kill -CONT $pid
    eventually '[ "$(spot-run status --join unix:j | jq .durable_step)" -ge 1 ]'
    stops_right log
    ls st/gen-*/manifest.json
}

@test "stop: the state is durable, workers leave with 75, and so does the job; the command tells where" {
    train log --steps 1000000 --state st --durable-every 1h
    worker w1 && w1=$pid
    worker w2 && w2=$pid
    at_step log 20
    run --separate-stderr timeout 60 spot-run stop --join unix:j
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    step=$(sed -n "s/^spot-run stop: stopped; the state of step \([0-9]*\) is in 'st'.*/\1/p" <<<"$stderr")
    [ "$step" -ge 20 ]
    [ "$(jq .step "st/gen-$(printf %012d "$step")/manifest.json")" -eq "$step" ]
    for id in $w1 $w2 $train; do
        wait $id && status=0 || status=$?
        [ "$status" -eq 75 ]
    done
    [ "$(events log committed)" -eq "$step" ]
    train log --steps $((step + 5)) --state st --resume --workers 1
    wait $train
    same_as log $((step + 5))
    run -4 --separate-stderr timeout 60 spot-run stop --join unix:j
}

@test "stop of a job without workers is at once; of steps that nobody can save it is 1" {
    train log --steps 1000000
    eventually 'spot-run status --join unix:j >/dev/null'
    timeout 60 spot-run stop -q --join unix:j
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    train log --steps 1000000 --durable-every 1h
    worker w1
    at_step log 20
    kill -9 $pid
    seen log lost 1
    run -1 --separate-stderr timeout 60 spot-run stop --join unix:j
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
}

@test "two that stop the job both hear of it, and a second wish does not break off the first" {
    train log --steps 1000000 --state st --durable-every 1h
    worker w1
    at_step log 5
    kill -STOP $pid
    for k in 1 2; do
        background spot-run stop --join unix:j 2>said$k
        stop[$k]=$pid
        eventually "ls -l /proc/$pid/fd | grep -q socket" # it has asked
    done
    passes 0.2
    kill -CONT "$(sed -n 2p pids)"
    wait ${stop[1]}
    wait ${stop[2]}
    grep -q "state of step" said1
    cmp said1 said2
}

@test "what is under --state is its owner's alone, whatever the umask; of a directory that others may write there is a warning" {
    umask 000
    head -c 3000 corpus >text
    timeout 100 spot-run train -q --data text --layers 1 --width 16 --heads 1 --seq 16 --steps 6 --workers 1 --state st \
        --durable-every 0.01s --save model
    echo '{"custom_id":"a","url":"/v1/completions","body":{"model":"model","prompt":"7","max_tokens":3}}' >in.jsonl
    timeout 100 spot-run serve -q --model model --workers 1 --batch in.jsonl -o out.jsonl --state serve
    timeout 100 spot-run exec -q --workers 1 --state copies --state-dir nodes -- sh -c '
        [ $TORCHELASTIC_RESTART_COUNT = 1 ] || { echo 1 >$SPOT_STATE_DIR/a; spot-run commit -q --durable --step 1; exit 1; }'
    for file in st/job.json serve/tokens.log nodes/0/lock; do [ -e $file ]; done
    ls st/gen-*/manifest.json copies/held/* nodes/0/held/*
    [ -z "$(find st serve copies nodes -path nodes/0/live/a -o -type f ! -perm 600 -print)" ]
    [ -z "$(find st serve copies nodes -type d ! -perm 700)" ]

    chmod 644 serve/tokens.log # of an earlier build
    rm out.jsonl
    timeout 100 spot-run serve -q --model model --workers 1 --batch in.jsonl -o out.jsonl --state serve --resume
    [ "$(stat -c %a serve/tokens.log)" = 600 ]
    mkdir open
    for command in "train --data text --steps 1 --width 16" "serve --model nowhere --batch in.jsonl" "exec --workers 1"; do
        timeout 100 spot-run $command --state open -- $([ "${command%% *}" != exec ] || echo true) 2>said || true
        grep -q "warning: other users may write in 'open' (mode 0777)" said
    done
}
