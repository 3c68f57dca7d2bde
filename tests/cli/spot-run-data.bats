#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# spot-run train --data: several files are one, and none has to fit in memory.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

@test "several files are what one of all of them is, in the order in which they are said" {
    common="$MODEL --global-batch 5 --steps 4"
    head -c 2000 corpus >a
    : >b
    tail -c +2001 corpus >c
    spot-run train -q --data corpus $common --events one.log
    outcome one.log >one
    spot-run train -q --data a b c $common --events many.log
    cmp one <(outcome many.log)
    spot-run train -q --data a --data=b $common --data c --events again.log --workers 2
    cmp one <(outcome again.log)
    spot-run train -q $common --events pipe.log --data - c <a
    cmp one <(outcome pipe.log)
    spot-run train -q --data c b a $common --events other.log
    run -1 cmp one <(outcome other.log)
    refuses 4 "cannot open 'none'" train --data a none $common
    refuses 2 "standard input can be read once" train --data - a - $common
    refuses 2 "would overwrite 'c', the input of --data" train --data a c $common --events ./c
    refuses 2 "--data needs a <file>" train $common --data
    printf '\377\377' | cat a - >bad
    refuses 3 "bad: token 1000 (byte 2000) is 65535, the vocabulary has 20000" train --tokens u16 --vocab 20000 --data a a bad $common
    printf 12 >x
    refuses 3 "x and 1 more: 4 tokens are less than one sequence" train --data x x $common
}

@test "several texts are one for a tokenizer, their tokens in a file that has gone" {
    data=$BATS_TEST_DIRNAME/../data/bpe
    common="$MODEL --global-batch 5 --steps 3 --tokenizer $data"
    head -n 1500 corpus >a
    tail -n +1501 corpus >b
    for file in a b; do spot-run tokenize -q --tokenizer "$data" --tokens u32 $file; done >tokens
    rm -f want.log
    spot-run train -q $MODEL --global-batch 5 --steps 3 --data tokens --tokens u32 --vocab 700 --events want.log
    rm -f got.log
    spot-run train -q --data a b $common --events got.log
    cmp <(outcome want.log) <(outcome got.log)
    [ -z "$(ls | grep spot-tokens || true)" ]
    TMPDIR=$PWD/none refuses 4 "cannot make a file for tokens like" train --data a $common
}

@test "files larger than memory are trained on" {
    truncate -s 700M big
    seq 1 3000 | cat - >>big
    (ulimit -v 600000 && spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --events e.log) ||
        skip # a sanitizer wants more
    (ulimit -v 600000 && spot-run train -q --data big big $MODEL --global-batch 5 --steps 2 --events log)
    [ "$(events log committed)" -eq 2 ]
}
