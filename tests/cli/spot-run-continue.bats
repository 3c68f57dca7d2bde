#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --resume: the job is in its state directory; what contradicts it is refused by name.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

@test "--resume DIR alone goes on with the job that is there, from anywhere" {
    mkdir elsewhere
    for more in "" "--tied --seed 18446744073709551615 --lr 0.003" "--arch llama --heads 4 --kv-heads 2 --ffn 90 --rope-theta 5e4" \
        "--tokenizer $BATS_TEST_DIRNAME/../data/bpe --micro-batch 5 --clip 0 --weight-decay 0"; do
        rm -rf st log
        train log --steps 1000000 --state st --workers 1 --durable-every 0.05s $more
        seen log durable 1
        kill -TERM $train
        wait $train || true
        at=$(jq -s 'map(select(.event == "committed").step) | max' log)
        (cd elsewhere && spot-run train -q --resume ../st --steps $((at + 3)) --events ../log)
        same_as log $((at + 3)) $more
        jq -e --argjson n $((at + 3)) '.schema == "spot.training/1" and .steps == $n and .data == [$c]' --arg c "$(realpath corpus)" st/job.json
        # nothing is left to do, which the directory alone tells
        spot-run train -q --state st --resume --events log
        same_as log $((at + 3)) $more
    done
}

@test "what differs is named, each with both values; the state stays" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --state st --events log
    find st -type f -exec md5sum {} + | sort >before
    refuses 2 "'st' holds the state of another job: --seed 2, there 1; --clip 3, there 1" train --resume st --seed 2 --clip 3 --lr 0.5 --steps 4
    refuses 2 "another job: --layers 3, there 2" train --state st --resume --layers 3
    refuses 2 "another job: --tied yes, there no" train --resume st --tied
    refuses 2 "another job: --device portable, there " train --resume st --device portable
    seq 1 3001 >other
    refuses 2 "another job: --data with other contents (xxh3 " train --resume st --data other
    refuses 2 "--resume st, but --state other" train --resume st --state other
    refuses 2 "--steps 2 is less than the 3 that are done" train --resume st --steps 2
    refuses 2 "--resume has no effect without --state" train --resume
    find st -type f -exec md5sum {} + | sort >after
    cmp before after
    cp corpus same
    spot-run train -q --resume st --data same --seed 1 --steps 5 --events log
    same_as log 5
    # a state of before there was a note is told by what was said, and by its number
    rm st/job.json
    refuses 2 "'st' holds the state of another job" train --resume st --data corpus $MODEL --global-batch 5 --seed 2 --steps 6
    spot-run train -q --resume st --data corpus $MODEL --global-batch 5 --steps 6 --events log
    same_as log 6
    sed -i 's/"lr": .*/"lr": "x",/' st/job.json
    refuses 3 "st/job.json:" train --resume st
}

@test "a job that was killed before its first generation begins anew from what is there" {
    train log --steps 1000000 --state st --durable-every 1h --listen unix:none
    eventually '[ -s st/job.json ]'
    kill_job
    spot-run train -q --resume st --steps 4 --events new
    same_as new 4
}
