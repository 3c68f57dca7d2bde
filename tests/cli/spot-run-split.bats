#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Uneven shares: a slow machine computes fewer microbatches, and no bit changes.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

shares() { # LOG: of the last epoch formed, such as 1,4
    grep '"formed"' "$1" | tail -n 1 | jq -r '.shares | join(",")'
}

@test "whatever the shares, the bits are those of one worker" {
    local -A want=([1,4]=1,4 [4,1]=4,1 [1,100]=1,4 [1,1,3]=1,1,3 [3,1.5,1]=3,1,1)
    for how in "${!want[@]}"; do
        local commas=${how//[^,]/} P=1
        [ "$how" != 4,1 ] || P=2
        local D=$((${#commas} + 1))
        timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 12 \
            --workers $((D * P)) --grid ${D}x$P --shares $how --events $how.log
        [ "$(shares $how.log)" = "${want[$how]}" ] || { shares $how.log; false; }
        same_as $how.log 12
    done
}

@test "weights for another number of pipelines leave the shares even" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 --workers 2 --grid 2x1 \
        --shares 1,2,3 --events log
    [ "$(shares log)" = 2,3 ]
}

@test "a pipeline without a microbatch, or what is no share, is refused" {
    for how in 0,5 1, -1,2 fast nan,1; do
        refuses 2 "--shares must be even, measured, or a weight above 0" train --data corpus --steps 2 \
            --shares $how
    done
}

# slow_worker NAME: one that takes much longer than others for a microbatch, as long as there is a file `drag`
slow_worker() {
    [ -n "${SPOT_PACE-}" ] || skip "needs \$SPOT_PACE"
    LD_PRELOAD=$SPOT_PACE SPOT_PACE_SLOW=drag worker "$1"
}

@test "a slow machine gets fewer samples; kills, notices and joins meanwhile lose nothing" {
    train log --steps 100000 --grid 2x1 --shares measured --global-batch 5 --lease 4s
    slow_worker slow
    worker fast
    fast=$pid
    eventually 'grep -q "\"formed\".*\"D\":2" log'
    [ "$(grep '"formed"' log | head -n 1 | jq -r '.shares | join(",")')" = 2,3 ]
    touch drag
    # the slow one's part shrinks to one of five, wherever it stands
    eventually 'grep "\"formed\"" log | tail -n 1 |
        jq -es ".[0] | .D == 2 and .shares[.place | index(\"slow\")] == 1"'
    at_step log $(($(events log committed) + 20))
    kill -9 $fast # while uneven, in the middle of a step
    eventually 'grep -q "\"lost\".*\"fast\"" log'
    worker fresh
    fresh=$pid
    eventually 'grep "\"formed\"" log | tail -n 1 |
        jq -es ".[0] | .D == 2 and (.place | index(\"fresh\") != null) and
                .shares[.place | index(\"slow\")] == 1"'
    kill -TERM $fresh # a notice while uneven
    eventually 'grep -q "\"left\".*\"fresh\"" log'
    rm drag
    at_step log $(($(events log committed) + 20))
    stops_right log
}

@test "a machine that is slow no more gets its part back" {
    train log --steps 100000 --grid 2x1 --shares measured --global-batch 5 --lease 4s
    slow_worker a
    worker b
    eventually 'grep -q "\"formed\".*\"D\":2" log'
    touch drag
    eventually 'grep "\"formed\"" log | tail -n 1 | jq -es ".[0].shares | min == 1"'
    rm drag
    eventually 'grep "\"formed\"" log | tail -n 1 | jq -es ".[0].shares | min == 2"'
    stops_right log
}
