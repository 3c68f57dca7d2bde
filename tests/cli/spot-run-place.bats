#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A plan that says who sits where: the members named get these places, by whatever moves it takes,
# and the bits stay those of the undisturbed job.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

plan() { # D P [NODE,D,P ...]: is wanted
    local places=""
    for at in "${@:3}"; do
        places+=",$(awk -F, '{ printf "{\"node\":\"%s\",\"d\":%d,\"p\":%d,\"m\":0}", $1, $2, $3 }' <<<"$at")"
    done
    jq -nc --argjson t $((++plans)) --argjson D $1 --argjson P $2 --argjson place "[${places#,}]" \
        '{schema: "spot.plan/1", kind: "train", job: "x", time_s: $t, next: {$D, $P, M: 1, B: 1}, $place}'
}

sits() { # NAME D,P: has that place, or will; none: no place
    local at='.members[] | select(.name == $name) | if has("d") then "\(.d),\(.p)" else "none" end'
    eventually "[ \"\$(spot-run status --join unix:j | jq -r --arg name $1 '$at')\" = $2 ]"
}

@test "members sit where the plan puts them, change places when the next one says so, and no bit changes" {
    train log --steps 1000000 --grid 2x2
    for name in a b c d; do worker $name; done
    at_step log 5
    plan 2 2 a,1,1 b,0,0 c,1,0 d,0,1 | spot-run replan --join unix:j -
    sits a 1,1 && sits b 0,0 && sits c 1,0 && sits d 0,1
    plan 2 2 a,0,0 b,1,1 c,0,1 d,1,0 | spot-run replan --join unix:j -
    sits a 0,0 && sits b 1,1 && sits c 0,1 && sits d 1,0
    n=$(events log formed)
    plan 2 2 a,0,0 b,1,1 c,0,1 d,1,0 | spot-run replan --join unix:j - # as it is: nothing to do
    more_steps log
    [ "$(events log formed)" -eq "$n" ]
    stops_right log
}

@test "of a plan that names some, these are placed; who is not there is warned of, and placed when it comes" {
    SPOT_TEST_PRECOPY_BYTE=0 background timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s \
        --events log --steps 1000000 --grid 1x2 2>log.err
    train=$pid
    for name in a b; do worker $name; done
    at_step log 5
    plan 1 2 late,0,1 b,0,0 | spot-run replan --join unix:j -
    sits b 0,0 && sits a 0,1
    grep -q "the plan gives 'late' the place d 0, p 1, m 0, but no member of that name" log.err
    worker late
    sits late 0,1 && sits a none && sits b 0,0
    more_steps log
    [ "$(grep -c "the plan gives 'late'" log.err)" -eq 1 ]
    stops_right log
}

@test "one with a place who is killed is replaced by another, and gets its place back" {
    train log --steps 1000000 --grid 1x2
    for name in a c; do worker $name; done
    worker b && killed=$pid
    at_step log 5
    plan 1 2 a,0,0 b,0,1 | spot-run replan --join unix:j -
    sits a 0,0 && sits b 0,1 && sits c none
    kill -9 $killed
    sits c 0,1 && sits a 0,0
    worker b
    sits b 0,1 && sits c none && sits a 0,0
    stops_right log
}

@test "a position, or a member, that is named twice is refused, and one outside the grid" {
    train log --steps 1000000 --grid 1x2
    for name in a b; do worker $name; done
    at_step log 2
    for bad in "a,0,0 b,0,0" "a,0,0 a,0,1" "a,1,0"; do
        plan 1 2 $bad >bad.json
        run --separate-stderr spot-run replan --join unix:j bad.json
        [ "$status" -eq 3 ]
        [[ "$stderr" == *"/place"* ]]
    done
    stops_right log
}
