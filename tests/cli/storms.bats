#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock, plain
# Two short storms of tests/storms, whose bits must be those of the undisturbed run; `make storms` runs
# all that are kept. And the books of a storm do find what is wrong.

bats_require_minimum_version 1.5.0

setup() {
    command -v python3 >/dev/null || skip "no python3"
    cd "$BATS_TEST_TMPDIR"
    export TMPDIR=/tmp # the address of a socket is short
    storms=$BATS_TEST_DIRNAME/../storms
}

@test "two short storms end with the bits of the undisturbed run" {
    run timeout 300 "$storms/storm.py" --seed 7 --seed 19 --short --keep "$PWD/kept"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "2 storms, 0 failed" ]
}

# books LOG: what they say of a log beside that of the undisturbed run
books() {
    PYTHONPATH=$storms PYTHONDONTWRITEBYTECODE=1 python3 -c '
import sys, ledger
books = ledger.Ledger(ledger.Reference("calm", 20, 5), 5, False).replay(ledger.lines(sys.argv[1]))
print("\n".join(books.faults) or "sound")' "$1"
}

@test "the books of a storm refuse a log in which a loss, a sample, a step or a word is wrong" {
    seq 1 3000 >corpus
    spot-run train -q --data corpus --layers 1 --width 16 --heads 2 --seq 8 --shards 2 --global-batch 5 --steps 20 \
        --events calm
    cp calm log
    [ "$(books log)" = sound ]
    sed '/"committed".*"step":7,/s/"loss_hex":"./"loss_hex":"f/' calm >log
    [[ "$(books log)" == *"loss of step 7 is f"* ]]
    sed '/"committed".*"step":7,/s/"samples":\[30,/"samples":[29,/' calm >log
    [[ "$(books log)" == *"samples of step 7 are [29, "* ]]
    grep -v '"committed".*"step":7,' calm >log
    [[ "$(books log)" == *"step 8 committed after 6"* && "$(books log)" == *"steps [7] were committed in no history"* ]]
    sed '/"committed".*"step":7,/p' calm >log
    [[ "$(books log)" == *"step 7 committed after 7"* ]]
    grep -v '"done"' calm >log
    [[ "$(books log)" == *"no done"* ]]
    sed 's/"state_xxh3_128":"./"state_xxh3_128":"x/' calm >log
    [[ "$(books log)" == *"the final state has another hash"* ]]
    grep -v '"joined"' calm >log
    [[ "$(books log)" == *"of 0 members"* ]]
}
