#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train: the learning rate goes by a schedule, or is changed at a resume; neither changes who
# may compute a step, nor what comes out.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

plan="--lr-schedule cosine:warmup=4,decay=30,min=1e-4"

rates() { jq -c 'select(.event == "committed") | .lr' "$1"; }

@test "every step tells its rate: up in a line, down by a cosine, then the least; the last is that of Python" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 32 --events log $plan
    rates log >got
    python3 - >want <<-'EOF'
	import math
	for s in range(1, 33):
	    t = min((s - 4) / 26, 1)
	    print(1e-3 * s / 4 if s <= 4 else 1e-4 + 9e-4 * (1 + math.cos(math.pi * t)) / 2)
	EOF
    paste got want | awk '{ d = $1 - $2; if (d < 0) d = -d; bad += d > 1e-18 } END { exit bad || NR != 32 }'
    # a job of one rate tells that one
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --events plain
    [ "$(rates plain | tr '\n' ' ')" = "0.001 0.001 " ]
}

@test "every grid has the bits of one worker" {
    for grid in 2x2 1x3; do
        spot-run train -q --data corpus $MODEL --global-batch 5 --steps 12 --workers 4 --grid $grid $plan \
            --events $grid.log
        same_as $grid.log 12 $plan
    done
}

@test "workers and the coordinator are killed on the way up and down: the same bits" {
    train log --steps 100000 --grid 1x2 --state st --durable-every 0.2s $plan
    for name in one two three; do worker $name; done
    at_step log 5
    kill -9 $pid
    seen log lost 1
    more_steps log
    kill_job
    train log --steps 100000 --state st --durable-every 0.2s --resume
    more_steps log
    stops_right log $plan
}

@test "status tells the rate of the step that is computed" {
    train log --steps 100000 --lr-schedule linear:decay=10,min=2e-4
    worker one
    at_step log 12
    spot-run status --join unix:j | jq -e '.lr == 2e-4'
    kill -TERM $train
    wait $train || true
}

@test "a change at a resume is an event, is kept, and another run with the same change is the same" {
    common="-q --data corpus $MODEL --global-batch 5"
    # over kills of workers and of the coordinator, which is not told again
    spot-run train $common --steps 8 --state two --events two.log
    background timeout 300 spot-run train -q --resume two --steps 100000 --lr 3e-4 --weight-decay 0.2 --workers 2 --grid 1x2 \
        --durable-every 0.01s --events two.log
    train=$pid
    at_step two.log 11
    kill_job
    steps=$(($(jq -s 'map(select(.event == "committed").step) | max' two.log) + 6))
    spot-run train -q --resume two --steps $steps --events two.log --workers 4 --grid 2x2
    jq -se 'map(select(.event == "lr_changed")) | length == 1' two.log

    spot-run train $common --steps 8 --state one --events one.log
    spot-run train -q --resume one --steps $steps --lr 3e-4 --weight-decay 0.2 --events one.log
    jq -se 'map(select(.event == "lr_changed")) | length == 1 and (.[0] | .step == 8 and .after == 8 and .lr == 3e-4
        and .weight_decay == 0.2 and .lr_schedule == "constant")' one.log
    jq -e '.lr == 1e-3 and (.changes | length == 1 and .[0].lr == 3e-4)' one/job.json
    [ "$(rates one.log | uniq -c | tr -s ' \n' ' ')" = " 8 0.001 $((steps - 8)) 0.0003 " ]
    spot-run report --reference one.log two.log | jq -e --argjson n $steps '.reference_equal_steps == $n
        and .reference_equal_weights and .lr_changes == [{after: 8, lr: 3e-4, lr_schedule: "constant"}]'
    spot-run report --format table two.log | grep 'learning rate from step 9 *0.0003, constant'
    spot-run report --plot - one.log | grep 'learning rate changed'

    # it is declared before anybody joins, and not for later
    sed 's/"time_s":[0-9.e-]*/"time_s":0/' one.log >still.log
    sed '/lr_changed/{h;d};/resumed/,${/joined/{G}}' still.log >late.log
    refuses 3 "'lr_changed' behind a 'joined'" report late.log
    sed 's/"after":8/"after":9/' one.log >late.log
    refuses 3 "/after: 9 is beyond step 8" report late.log

    # and it is another run than one that was not changed
    spot-run train $common --steps $steps --events three.log
    run -1 spot-run report --reference three.log one.log
}

@test "the same said again changes nothing; something else is the next change, and back is one too" {
    common="-q --data corpus $MODEL --global-batch 5"
    spot-run train $common --steps 3 --state st --events log
    for lr in 1e-3 1e-3 5e-4 5e-4 1e-3; do
        steps=$((${steps:-3} + 1))
        spot-run train -q --resume st --steps $steps --lr $lr --events log
    done
    jq -c 'select(.event == "lr_changed") | [.after, .lr]' log | tr '\n' ' ' >got
    [ "$(cat got)" = "[5,0.0005] [7,0.001] " ]
    # one that no step has seen gives way
    spot-run train -q --resume st --lr 2 --events log
    spot-run train -q --resume st --lr 1e-3 --steps 9 --events log
    jq -e '.changes | map(.lr) == [5e-4, 1e-3]' st/job.json
    spot-run report log | jq -e '.lr_changes | map([.after, .lr]) == [[5, 5e-4], [7, 1e-3], [8, 1e-3]]'
}

@test "what a worker of the job before the change computed beyond it counts for nothing" {
    train log --steps 100000 --state st --durable-every 1h
    worker one
    at_step log 10
    kill_job
    # as if a crash had cost the log its newest lines: the change holds from a step that the worker has passed
    sed -n '1,/"committed".*"step":3,/p' log >short
    cp short log
    train log --steps 100000 --state st --resume --lr 1e-4 --lease 2s
    at_step log 14
    kill -TERM $train
    wait $train || true
    [ "$(jq -s 'map(select(.event == "lr_changed"))[0].after' log)" = 3 ]
    # every step above the third has the new rate, the fourth too
    jq -se 'map(select(.event == "committed" and .step > 3)) | map(.lr == 1e-4) | all' log
}

@test "what makes no sense is refused, and the job stays as it was" {
    common="train --data corpus $MODEL --global-batch 5 --steps 4"
    refuses 2 "--lr-schedule must be constant, cosine or linear, got 'step'" $common --lr-schedule step
    refuses 2 "cosine or linear" $common --lr-schedule constant:min=1e-5
    refuses 2 "cosine or linear" $common --lr-schedule constant:decay=3
    refuses 2 "leaves no step" $common --lr-schedule linear:warmup=4
    refuses 2 "above --lr" $common --lr-schedule linear:min=0.1
    for bad in warmup=x warmup=-1 warmup=1.5 decay=0 rise=1 warmup min=1e13; do
        refuses 2 "--lr-schedule" $common --steps 4 --lr-schedule "linear:$bad"
    done
    spot-run $common -q --state st --lr-schedule linear --events log
    md5sum st/job.json >before
    refuses 2 "above --lr" train --resume st --steps 6 --lr-schedule linear:min=0.1
    refuses 2 "another job: --beta1 0.5, there 0.9" train --resume st --steps 6 --lr 2 --beta1 0.5
    md5sum -c before
    # the decay goes on to the step that it was to go to, however many there are now
    spot-run train -q --resume st --steps 6 --events log
    [ "$(rates log | tail -n 3 | tr '\n' ' ')" = "0 0 0 " ]
}

@test "a state of before there were schedules goes on, and takes a change" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --state st --events log
    jq -c 'with_entries(select(.key | test("^(lr_schedule|warmup_steps|decay_steps|min_lr|val_.*|changes)$") | not))' st/job.json >old
    cp old st/job.json
    spot-run train -q --resume st --steps 5 --events log
    cp old st/job.json
    spot-run train -q --resume st --steps 7 --events log --lr-schedule linear:decay=6
    [ "$(rates log | tail -n 2 | tr '\n' ' ')" = "0 0 " ]
    undisturbed 5 | sed '$d' >want
    jq -r 'select(.event == "committed" and .step <= 5).loss_hex' log | cmp - want
    jq -e '.lr_schedule == "constant" and .changes[0].lr_schedule == "linear" and .val_data == []' st/job.json
}
