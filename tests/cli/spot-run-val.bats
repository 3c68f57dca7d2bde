#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --val-data: the loss of data that are not learnt has the same bits on every grid and
# through kills, and what is learnt has the bits it has without.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() {
    job_setup
    seq 70000 70400 | tr -d '\n' >val
}
teardown() { job_teardown; }

val="--val-data val --val-every 3 --val-batches 2"

vals() { jq -c 'select(.event == "validated") | [.step, .loss_hex]' "$1" | sort -u; }

# of an undisturbed job of so many steps
vals_of() {
    rm -f calm.log
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps "$1" $val --events calm.log
    vals calm.log
}

# killed jobs tell what a calm one of as many steps tells, if that ends with a step that is not of --val-every
same_vals() { # LOG
    local last
    last=$(jq -s 'map(select(.event == "validated").step) | max' "$1")
    vals_of $((last + 1)) | grep -v "^\[$((last + 1))," >want
    vals "$1" >got
    cmp want got
}

@test "before the first step, every so many, and after the last; the training has the bits it has without" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 11 $val --events log
    [ "$(jq -c 'select(.event == "validated").step' log | tr '\n' ' ')" = "0 3 6 9 11 " ]
    jq -se 'map(select(.event == "validated").sequences == 10) | all' log
    same_as log 11
    spot-run report log | jq -e '(.validations | length) == 5 and .validations[4].step == 11'
    spot-run report --format table log | grep 'validation loss  *[0-9.]* at step 11, least'
    spot-run report --plot - log | grep validation
    # of the weights after a step, so not within the next one, nor of another
    sed -i 's/"time_s":[0-9.e-]*/"time_s":0/' log
    sed '/"validated".*"step":3,/{h;d};/"event":"step".*"step":4}/{G}' log >within
    refuses 3 "'validated' within a step" report within
    sed 's/\("validated".*"step":\)6,/\16000,/' log >other
    refuses 3 "/step: expected 6, where the lines above led" report other
}

@test "it is the mean loss of the sequences, as a trainer that learns nothing sees them" {
    # 20 sequences in all, so four batches of five are each of them
    head -c 321 val >small
    common="-q $MODEL --global-batch 5"
    spot-run train $common --data corpus --steps 7 --val-data small --val-batches 4 --val-every 100 --save w.safetensors --events a.log
    spot-run train $common --data small --load w.safetensors --lr 0 --weight-decay 0 --steps 4 --events b.log
    [ "$(jq -s '[.[] | select(.event == "committed").samples[]] | length' b.log)" = 20 ]
    jq -se --slurpfile b b.log '(map(select(.event == "validated"))[-1].loss) as $got
        | ($b | map(select(.event == "committed").loss) | add / 4) as $want
        | ($got - $want) | fabs < 1e-6' a.log
}

@test "every grid has the bits of one worker" {
    vals_of 8 >one
    for grid in 2x2 1x3 1x2x2; do
        spot-run train -q --data corpus $MODEL --global-batch 5 --steps 8 --workers 4 --grid $grid $val --events $grid.log
        vals $grid.log | cmp - one
        spot-run report --reference calm.log $grid.log | jq -e '.reference_equal_validations == 4 and .reference_validations == 4'
    done
    # another loss is another run
    sed 's/\("validated".*"loss_hex":"\)......../\100000000/' calm.log >other.log
    run -1 --separate-stderr spot-run report --reference other.log calm.log
    [[ "$stderr" == *"'other.log'"* ]]
}

@test "workers and the coordinator are killed, within validations too: the same bits" {
    # most of the time goes into validation
    val="--val-data val --val-every 3 --val-batches 15"
    train log --steps 100000 --grid 2x2 --state st --durable-every 0.2s $val
    for name in a b c d e; do worker $name; done
    for k in 1 2 3; do
        more_steps log
        victim=$pid
        worker "new$k"
        kill -9 $victim
        seen log lost $k
    done
    more_steps log
    kill_job
    train log --steps 100000 --state st --durable-every 0.2s --resume
    more_steps log
    stops_right log
    same_vals log
}

@test "a rollback voids what was told, and it is computed again" {
    SPOT_TEST_BUDDIES=0 train log --steps 100000 --workers 1 --state st --durable-every 1h $val
    at_step log 10
    kill -9 $(pgrep -P $(pgrep -P $train))
    seen log rolled_back 1
    at_step log 10
    more_steps log
    stops_right log
    same_vals log
    spot-run report log | jq -e '[.validations[].step] | . == unique'
}

@test "a resume goes on with it, says nothing twice, and may have other data" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 6 $val --state st --events log
    jq -e '.val_data == [$v] and .val_every == 3 and .val_batches == 2' --arg v "$(realpath val)" st/job.json
    spot-run train -q --resume st --events log
    spot-run train -q --resume st --steps 9 --events log
    [ "$(jq -c 'select(.event == "validated").step' log | tr '\n' ' ')" = "0 3 6 9 " ]
    vals_of 9 | cmp - <(vals log)
    spot-run train -q --resume st --steps 12 --events log --val-data corpus --val-every 1
    [ "$(jq -c 'select(.event == "validated").step' log | tail -n 3 | tr '\n' ' ')" = "10 11 12 " ]
}

@test "status tells the newest; a stop is not kept waiting by a long one" {
    train log --steps 100000 $val
    worker one
    seen log validated 3
    spot-run status --join unix:j | jq -e '.val_loss > 0 and .val_step % 3 == 0'
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    head -c 2000000 /dev/zero | tr '\0' a >long
    train log2 --steps 100000 --val-data long --val-batches 20000 --state st
    worker two
    seen log2 formed 1
    eventually '[ "$(cut -d " " -f 14 /proc/'$pid'/stat)" -gt 20 ]' # 0.2 s of a processor: it computes
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    [ "$(events log2 validated)" -eq 0 ]
}

@test "too little, or what is no file, is refused" {
    common="train --data corpus $MODEL --global-batch 5 --steps 4"
    head -c 160 val >short # 9 sequences and their last targets
    refuses 3 "short: 9 sequences are fewer than --val-batches 2 of 5 need" $common --val-data short --val-batches 2
    refuses 2 "--val-data must be files, not standard input" $common --val-data -
    refuses 4 "nothere" $common --val-data nothere
    refuses 2 "--val-every has no effect without --val-data" $common --data corpus --val-every 3
    refuses 2 "--val-every" $common --val-data val --val-every 0
}
