#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --verify: a worker that computes or holds wrong numbers is found, named and set aside, and the
# weights are those of an undisturbed job. tests/corrupt.sh does this a thousand times.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

# with_fault GRID SHARE FAULT...: a job of 16 steps with one faulty worker, which joins first, and more options in
# $MORE; status and log
with_fault() {
    local grid=$1 share=$2 i
    shift 2
    rm -f log
    background faulty unix:j bad "$@"
    for i in $(seq 2 $((${grid%x*} * ${grid#*x}))); do
        worker "good$i"
    done
    SPOT_TEST_FIRST=$((${grid%x*} * ${grid#*x})) train log --steps 16 --grid "$grid" --verify "$share" ${MORE-}
    status=0
    wait $train || status=$?
}

# named WHAT...: one is, once, and for one of these
named() {
    jq -es --arg what "$*" 'map(select(.event == "corrupt")) | length == 1 and .[0].name == "bad" and
        (.[0].what | inside($what))' log
}

# tier: check
@test "a single wrong bit of a sum is found before its commit, with its tensor, element and bit" {
    with_fault 3x1 1 sum 4 100 30 once
    [ "$status" -eq 0 ]
    named sum
    jq -es 'map(select(.event == "corrupt"))[0] | .tensor == "embed.wpe" and .element == 100 and .stage == 0 and
        (.difference_hex == "0000000040000000" or .difference_hex == "ffffffffc0000000")' log
    same_as log 16
    spot-run report log | jq -e '.steps == 16'
}

@test "wrong bits of a weight, a moment, an activation and a product are found before their commit, in stages too" {
    with_fault 3x1 1 weight 4 5 20
    named state
    same_as log 16
    with_fault 3x1 1 moment 4 5 20
    named state
    same_as log 16
    with_fault 3x2 1 activation 4 5 20 once
    named "activation gradient sum"
    same_as log 16
    with_fault 3x2 1 gemm 4 3 20 once
    named "activation gradient sum"
    same_as log 16
}

@test "an error in the last update is found before the job ends, and is in no generation" {
    MORE="--state st" with_fault 3x1 off update 16 5 20
    [ "$status" -eq 0 ]
    named state
    same_as log 16
    spot-run audit --state st --events log --steps 1:16
}

@test "a generation that a convicted member wrote is set aside" {
    [ -n "${SPOT_PACE-}" ] || skip "no pace with a sanitizer"
    # each step asks for one
    LD_PRELOAD=$SPOT_PACE SPOT_PACE_MS=30 MORE="--state st --durable-every 10ms --steps 9" \
        with_fault 3x1 off update 8 5 20
    [ "$status" -eq 0 ]
    named state
    same_as log 9
    spot-run audit --state st --events log --steps 1:9
}

@test "who was convicted gets no place in a job that goes on, by its log or its state alone" {
    local by
    for by in log state; do
        rm -rf st
        MORE="--state st" with_fault 3x1 1 sum 4 100 30 once
        grep ' bad$' st/convicted
        [ $by = log ] || rm log
        worker bad
        worker good2
        worker good3
        train log --steps 20 --grid 2x1 --state st --resume
        wait $train
        undisturbed 20 | tail -n 1 >want
        jq -c 'select(.event == "done")' log | grep -o '[0-9a-f]\{32\}' | tail -n 1 >got
        [ -s got ] && grep -f got want
        tail -n +2 log | grep '"formed"' | tail -n 1 >formed
        [ "$(grep -c '"bad"' formed)" -eq 0 ]
    done
}

@test "products that are off by one ulp are found within the stated number of steps" {
    with_fault 3x1 .2 ulp 2 0 0
    [ "$status" -eq 0 ]
    named sum
    # K = D / (share G) = 3
    jq -es '(map(select(.event == "formed" and (.place | index("bad"))))[0].step + 2) as $struck |
        map(select(.event == "corrupt"))[0].step + 1 - $struck < 3' log
}

@test "of two an error that passes names its author; one that lasts ends the job, and accuses nobody" {
    with_fault 2x1 1 sum 4 100 30 once
    [ "$status" -eq 0 ]
    named sum
    same_as log 16
    with_fault 2x1 1 sum 4 100 30
    [ "$status" -eq 4 ]
    [ "$(events log differs)" -ge 1 ]
    [ "$(events log corrupt)" -eq 0 ]
}

@test "who was set aside gets no place again, and status and metrics tell of it" {
    background faulty unix:j bad sum 4 100 30 once
    worker good2
    worker good3
    SPOT_TEST_FIRST=3 train log --steps 100000 --grid 3x1 --verify 1 --metrics 127.0.0.1:0
    seen log corrupt 1
    eventually 'sed "1,/\"corrupt\"/d" log | grep -q "\"formed\""'
    more_steps log
    spot-run status --join unix:j --format json | jq -e '.verify.corrupt == 1 and .verify.share == 1 and
        .verify.every == 1 and .verify.checked > 0 and (.members | map(select(.name == "bad").role) == ["aside"])'
    worker late
    eventually 'grep "\"formed\"" log | tail -n 1 >formed && grep late formed'
    sed '1,/"corrupt"/d' log | grep '"formed"' >after
    [ "$(grep -c '"bad"' after)" -eq 0 ]
    kill $train
}

@test "who was sent other tokens once is not accused; who has others whenever they come is" {
    local grid
    for grid in 3x1 3x2; do
        with_fault $grid 1 tokens 4 20 2 once
        [ "$status" -eq 0 ]
        [ "$(events log differs)" -ge 1 ]
        [ "$(events log corrupt)" -eq 0 ]
        same_as log 16
    done
    with_fault 3x1 1 tokens 4 20 2
    [ "$status" -eq 0 ]
    named tokens
    same_as log 16
}

# tier: check
@test "every grid and share has the bits of one worker, and no false alarm" {
    local grid share
    for grid in 2x1 3x1 2x2; do
        for share in 1 .3 .02; do
            rm -f log
            spot-run train -q --data corpus $MODEL --global-batch 5 --steps 12 --verify $share \
                --workers $((${grid%x*} * ${grid#*x})) --grid $grid --events log
            same_as log 12
            [ "$(events log differs)" -eq 0 ]
            [ "$(events log corrupt)" -eq 0 ]
        done
    done
}

# tier: check
@test "a worker whose machine fails the test of its kernel is refused by name" {
    train log --steps 100000
    run timeout 60 faulty unix:j bad ulp 0 0 0
    [ "$status" -eq 1 ]
    [[ "$output" == *bad*self-test* ]]
    worker good
    at_step log 3
    [ "$(events log joined)" -eq 1 ]
    kill $train
}

# wrong_core CORE: what comes before a command for a machine of which this processor computes wrong numbers, in `wrong`
wrong_core() {
    wrong=(env "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$(dirname "$(command -v faulty)")/core.so" SPOT_CORE="$1")
}
# the processors that this process may use
cores() { awk '/^Cpus_allowed_list/ { n = split($2, part, ","); for (i = 1; i <= n; i++) { split(part[i] "-" part[i], of, "-")
    for (c = of[1]; c <= of[2]; c++) print c } }' /proc/self/status; }

# tier: check
@test "whichever processor computes wrong numbers, no local worker computes there" {
    local core
    for core in $(cores | sed -n '1p;$p'); do
        rm -f log
        wrong_core "$core"
        run -4 --separate-stderr timeout 60 "${wrong[@]}" spot-run train --data corpus $MODEL --global-batch 5 \
            --steps 3 --workers "$(cores | wc -l)" --events log
        [[ "$stderr" == *"processor $core "*self-test* ]]
        [[ "$stderr" == *local-*self-test* ]]
        [ "$(events log joined)" -eq 0 ]
    done
    wrong_core -1
    "${wrong[@]}" spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --workers 2 --events log
    same_as log 3
}

@test "a local worker that replaces another is refused if a processor computes wrong numbers since" {
    wrong_core any
    background timeout 300 "${wrong[@]}" SPOT_CORE_WHILE=wrong spot-run train --data corpus $MODEL --global-batch 5 \
        --steps 100000000 --workers 2 --listen unix:j --events log 2>err
    train=$pid
    at_step log 3
    passes 1.1 # until then the test at the start holds
    touch wrong
    kill -9 "$(pgrep -P "$(pgrep -P $train)" | head -n 1)"
    eventually 'grep -q "local worker.*self-test" err'
    [ "$(events log joined)" -eq 2 ]
    kill $train || true
    wait $train || true
}

# tier: check
@test "a worker that another program starts makes the test itself, whatever its environment has" {
    train log --steps 100000
    wrong_core any
    run -1 timeout 60 "${wrong[@]}" SPOT_LAST_WORDS=9 spot-run worker --join unix:j --name bad 9<>/dev/null
    [[ "$output" == *bad*self-test* ]]
    worker good
    at_step log 3
    [ "$(events log joined)" -eq 1 ]
    kill $train
}

# spares NUMBER: $train has so many idle members that check. With 128 tokens of a pipeline in a step it is each 8 steps
spares() { eventually "spot-run status --join unix:j --format json | jq -e '.verify.spares == $1'"; }
stops_right_16() { # LOG
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    jq -r 'select(.event == "committed") | .loss_hex' "$1" >got
    spot-run train -q --data corpus $MODEL --global-batch 16 --steps "$(wc -l <got)" --events calm
    jq -r 'select(.event == "committed") | .loss_hex' calm >want
    cmp want got
}
AUTO="--steps 100000 --global-batch 16 --verify auto"

@test "auto: an idle member finds who computes wrong numbers" {
    SPOT_TEST_FIRST=3 train log $AUTO --grid 2x1
    background faulty unix:j bad sum 4 100 30
    seen log joined 1
    worker good2
    worker good3
    seen log corrupt 1
    named sum
    jq -es 'map(select(.event == "formed"))[0].place | index("bad")' log
    kill $train
}

@test "auto: without an idle member nothing is checked, which the status says; one that errs itself is named" {
    train log $AUTO --grid 2x1
    worker good1
    worker good2
    at_step log 20
    spares 0
    spot-run status --join unix:j --format json | jq -e '.verify.checked == 0'
    background faulty unix:j bad sum 2 100 30
    seen log corrupt 1
    named sum
    more_steps log
    spares 0
    kill $train
}

@test "auto: beside one pipeline of stages, too; bits are right" {
    train log $AUTO --grid 1x2
    worker w1
    worker w2
    worker w3
    spares 1
    eventually "spot-run status --join unix:j --format json | jq -e '.verify.checked > 3 and .verify.differences == 0'"
    stops_right_16 log
}

# The vote on what the idle one mirrors is sooner than what it computes again. Workers of a job before this one, as
# more spares, would make it a matter of chance.
@test "auto: two that differ again and again end the job" {
    background faulty unix:j bad sum 4 100 30
    train log $AUTO --grid 1x1
    at_step log 3
    worker good
    wait $train && status=0 || status=$?
    [ "$status" -eq 4 ]
    grep -q "workers bad and good have a different sum .* no third copy to tell whose" log.err
    [ "$(events log corrupt)" -eq 0 ]
}

@test "what cannot be verified is refused" {
    for share in 0 1.5 x; do
        run -2 spot-run train -q --data corpus --steps 1 --verify $share
    done
    run -2 spot-run train -q --data corpus --steps 1 --workers 4 --grid 2x1x2 --verify 1
}
