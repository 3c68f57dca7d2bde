#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, first
# Tensor groups: M workers that share a stage give the bits of one, whoever leaves and is killed (on every grid:
# tests/unit/test_job_grids.c); an M that cannot be is refused.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    MODEL="--layers 2 --width 24 --heads 12 --seq 8 --shards 12"
}
teardown() { job_teardown; }

# runs D P M [ARGUMENTS]: three steps on that grid are those of one worker; $more: what makes the job
runs() {
    local d=$1 p=$2 m=$3
    shift 3
    rm -f log
    timeout 120 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --events log \
        --workers $((d * p * m)) --grid "${d}x${p}x$m" ${more-} "$@"
    grep -q "\"D\":$d,\"P\":$p,\"M\":$m" log
    same_as log 3 ${more-}
}

@test "a grid with M gives the bits of one worker, with threads and shares that are not even" {
    more="--device portable"
    runs 2 1 2 --threads 2 --shares 1,4
}

@test "members of a group leave and are killed; nothing is lost" {
    local -A of
    SPOT_TEST_BUDDIES=0 train log --grid 1x2x2 --steps 100000
    for name in a b c d e f; do
        worker $name
        of[$name]=$pid
    done
    at_step log 20
    for signal_next in TERM:g KILL:h TERM:i KILL:j; do # a name that comes back at once gets another
        # the first member of the second stage
        name=$(jq -r 'select(.event == "formed") | .place[2]' log | tail -n 1)
        before=$(events log committed)
        kill -${signal_next%:*} ${of[$name]}
        name=${signal_next#*:}
        worker $name
        of[$name]=$pid
        eventually "[ \$(events log committed) -gt $((before + 10)) ]"
    done
    [ "$(events log rolled_back)" -eq 0 ]
    [ "$(events log left)" -eq 2 ]
    [ "$(events log lost)" -eq 2 ]
    stops_right log
}

@test "with fewer members the grid loses pipelines, then stages, then members of a group" {
    SPOT_TEST_BUDDIES=0 train log --grid 1x2x3 --steps 100000 # else four and five are warm spares
    for n in 1 2 3 4 5 6; do # four and five change nothing
        worker $n
        eventually "[ \$(events log joined) -eq $n ]"
        [[ $n == [45] ]] ||
            eventually "grep '\"formed\"' log | tail -n 1 | grep -q '\"members\":$n[,}]'"
    done
    jq -r 'select(.event == "formed") | "\(.members) \(.D)x\(.P)x\(.M)"' log >got
    printf '%s\n' "1 1x1x1" "2 1x1x2" "3 1x1x3" "6 1x2x3" >want
    cmp got want
    run spot-run status --join unix:j --format json
    jq -e '.D == 1 and .P == 2 and .M == 3 and ([.members[].m] | sort == [0, 0, 1, 1, 2, 2])' <<<"$output"
    spot-run status --join unix:j --format table >table
    grep -q "grid 1x2x3" table
    stops_right log
}

@test "a plan may want tensor groups, and another one none" {
    plan() {
        printf '{"schema":"spot.plan/1","kind":"train","job":"x","time_s":%s,"next":{"D":%s,"P":%s,"M":%s,"B":1}}' "$@"
    }
    plan 0 1 1 4 >plan.json
    train log --workers 4 --plan plan.json --steps 100000
    eventually 'grep -q "\"D\":1,\"P\":1,\"M\":4" log'
    plan 1 2 1 2 | spot-run replan --join unix:j -
    eventually 'grep -q "\"D\":2,\"P\":1,\"M\":2" log'
    plan 2 2 2 1 | spot-run replan --join unix:j -
    eventually 'grep -q "\"D\":2,\"P\":2,\"M\":1" log'
    plan 3 1 1 5 >bad.json
    refuses 1 "the plan asks for 1x1x5: M = 5 does not divide the job's 12 shards" \
        replan --join unix:j bad.json
    [ "$(events log rolled_back)" -eq 0 ]
    stops_right log
}

@test "an M that cannot be is refused at once" {
    refuses 2 "--grid 1x1x5: M = 5 does not divide the job's 12 shards" train --data corpus \
        $MODEL --steps 1 --grid 1x1x5
    refuses 2 "--grid 1x1x24: M = 24 does not divide the job's 12 shards" train --data corpus \
        $MODEL --steps 1 --grid 1x1x24
    refuses 2 "--grid 16x16x4 needs 1024 workers, a job has at most 512" train --data corpus $MODEL --steps 1 --grid 16x16x4
    for grid in 1x1x0 1x1x 1x1x2x2 1x1x-2 1x1x99999999999; do
        refuses 2 "--grid must be DxP or DxPxM such as 2x3 or 2x3x2, got '$grid'" train --data corpus \
            --steps 1 --grid $grid
    done
    # a coordinator needs no device for this kind
    refuses 1 "--grid 1x1x2: M > 1 needs kernel cuda-bf16-tp or cuda-fp32-tp, not cuda-bf16-sm90x132-lt130100-cc1300" \
        train --data corpus --layers 1 --width 64 --heads 2 --shards 2 --steps 1 --grid 1x1x2 \
        --device cuda-bf16-sm90x132-lt130100-cc1300 --listen unix:k
}

@test "faults in the midst of an exchange" {
    local cells="tensor kill tensor cut tensor two tensor coordinator"
    ! in_tier long || cells+=" tensor notice tensor stall tensor duplicate tensor replicas tensor everything"
    GRID=1x2x2 run "$BATS_TEST_DIRNAME/../faults.sh" $cells
    echo "$output"
    [ "${lines[-1]}" = "$(size 9 4) passed, 0 failed" ]
}

@test "a member of a group is killed or told to leave in other phases" {
    local cells="reduce kill migrate notice"
    ! in_tier long || cells+=" form kill vote notice commit kill"
    GRID=1x2x2 run "$BATS_TEST_DIRNAME/../faults.sh" $cells
    echo "$output"
    [ "${lines[-1]}" = "$(size 5 2) passed, 0 failed" ]
}
