#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run profile: real jobs, measured, as a document that spot-plan takes. No time is asserted.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    export SPOT_TEST_WARM_UP=1
    mkdir tmp
    export TMPDIR=$PWD/tmp
    set -o pipefail # jq -e of nothing is 0
}
teardown() { job_teardown; }

profile() {
    timeout 300 spot-run profile -q --data corpus $MODEL --global-batch 5 --steps 4 "$@"
}

@test "every grid of up to three workers, links, stalls and changes; spot-plan takes it" {
    profile --max-workers 3 --seed 7 >job.json
    jq -e '
        def near(a; b): (a - b) | fabs < 1e-12;
        .schema == "spot.job/1" and .made_by.seed == 7 and .kind == "train" and
        .global_batch == 5 and .seq == 16 and .model.layers == 2 and
        ([.profile[] | [.D, .P]] == [[1,1],[1,2],[1,3],[2,1],[3,1]]) and
        ([.profile[].step_s] == [.measured.cells[].step_s]) and
        ((.profile | map(.outlier // false)) == [.measured.cells[].outlier]) and
        (.layers | length) == 4 and (.layers | all(.forward_s > 0 and .backward_s > 0)) and
        (.measured.cells | all(.steps == 4 and .low_s <= .step_s and .step_s <= .high_s and
            .outlier == (.high_s - .low_s > 0.5 * .step_s) and .runs >= 1 and
            (.runs == 5 or .high_s - .low_s <= 0.2 * .step_s * (1 + 1e-9)) and (.stages | length) == .P and
            (.stages | all(.resident_byte > .planned_byte / 2 and .planned_byte > 0)) and
            .forward_s > 0 and .backward_s > 0 and .law_s > 0 and
            (.D > 1) == (.reduce_s > 1e-6))) and
        (.measured.law | .points + .outliers == 5) and
        (.measured | [.p2p, .sum] | all((.points | length) == 6 and .latency_s >= 0 and
            (.points | map(.byte)) == [1024, 8192, 65536, 262144, 1048576, 4194304])) and
        .measured.sum.members == 3 and
        ([.cost.p2p[].s] | . == sort) and
        (.measured.stall | .D == 3 and .steps == 4 and near(.step_s;
            .compute_s + .interconnect_s + .network_s + .prep_s + .fetch_s)) and
        .measured.change.changes >= 4 and .measured.change.joins >= 1' job.json
    spot-plan train --job - --now 3 <job.json | jq -e '.next.D >= 1'
    [ -z "$(ls tmp)" ] # no socket, no state, no log is left
}

@test "tensor groups and other micro batches are measured beside, and planned with by nobody" {
    spot-run profile -q --data corpus $MODEL --heads 4 --shards 4 --global-batch 4 --steps 3 \
        --max-workers 4 --grids 1x1,2x1,1x1x2,1x1x4,2x1x2 --micro-batches 1,2,4 \
        --skip links,stalls,changes >job.json
    jq -e '([.profile[] | [.D, .P, .M // 1, .B]] == [[1,1,1,1],[2,1,1,1],[1,1,2,1],[1,1,4,1],[2,1,2,1],
            [1,1,1,2],[2,1,1,2],[1,1,2,2],[1,1,4,2],[2,1,2,2],[1,1,1,4],[1,1,2,4],[1,1,4,4]]) and
        ([.measured.cells[] | [.D, .P, .M, .B]] == [.profile[] | [.D, .P, .M // 1, .B]]) and
        (.measured.cells | all(.step_s > 0 and .forward_s > 0 and (.stages | length) == .P)) and
        (.measured.cells[:2] | all(.outlier) | not) as $law | # of a busy machine there may be none
        (.measured.cells | map(has("law_s")) == [$law, $law] + [range(11) | false]) and
        (.layers | all(.forward_s > 0)) and
        (.measured.law | if $law then .points >= 1 and .points <= 2 else . == null end) and
        ([.measured.cells[] | select(.D == 1 and .B == 4).stages[0].planned_byte] | . == (sort | reverse)) and
        ([.measured.cells[] | select(.D == 1 and .M == 1).stages[0].planned_byte] | . == sort)' job.json
    # the figures of M = 1 and of the job's micro batch alone make the plan
    jq 'del(.profile[].outlier)' job.json >all.json
    jq '.profile |= map(select((.M // 1) == 1 and .B == 1))' all.json >plain.json
    for job in all plain; do
        spot-plan train --job - --now 2 <$job.json | jq -S 'del(.made_by, .inputs)' >$job.plan
    done
    cmp all.plan plain.plan
    jq -e '.next.D >= 1' all.plan
}

@test "a cell is like a training of that grid; what is not asked for is not measured" {
    profile --grids 2x2 --max-workers 4 --skip stalls,links,changes -o job.json
    jq -e '.profile | length == 1 and .[0].D == 2 and .[0].P == 2' job.json
    jq -e '.measured | (has("stall") or has("p2p") or has("change")) | not' job.json
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 8 --workers 4 --grid 2x2 --events log
    # of the same order, on however busy a machine: no other unit, no other number of microbatches
    jq -es --slurpfile job job.json 'map(select(.event == "committed").time_s) |
        [.[1:], .[:-1]] | transpose | map(.[0] - .[1]) | sort | .[length / 2 | floor] as $real |
        $job[0].profile[0].step_s / $real | . > 0.02 and . < 50' log
}

@test "the table names the grids, and progress stays off standard output" {
    profile --grids 1x1,1x2 --max-workers 2 --skip stalls --format table -v >table 2>err
    head -n 1 table | grep -q '^grid *b *step_ms *spread'
    [ "$(grep -cE '^1x[12] ' table)" -eq 2 ]
    grep -q '^message: ' table
    grep -q 'spot-run profile: grid 1x2, micro batch 1, 2 of 2' err
}

@test "stopped in the middle it ends its workers, leaves nothing, and says so with 75" {
    background timeout 300 spot-run profile -q --data corpus $MODEL --max-workers 2 --steps 100000 2>err
    id=$pid
    eventually 'pgrep -P $(pgrep -P $id) >workers && [ -s workers ]'
    kill -TERM $(pgrep -P $id)
    wait $id && status=0 || status=$?
    [ "$status" -eq 75 ]
    grep -q 'stopped; nothing is kept' err
    for worker in $(cat workers); do
        eventually "! kill -0 $worker"
    done
    [ -z "$(ls tmp)" ]
}

@test "what cannot be measured is refused" {
    refuses 2 "--data is missing" profile
    refuses 2 "--data must be a file" profile --data -
    refuses 2 "--grids must be DxP" profile --data corpus --grids 2
    refuses 2 "--grids must be DxP" profile --data corpus --grids 0x1
    refuses 2 "--grids must be DxP" profile --data corpus --grids 1x1,
    refuses 2 "--grids must be DxP or DxPxM" profile --data corpus --grids 1x1x0
    refuses 2 "at least one with M = 1" profile --data corpus --grids 1x1x2
    refuses 2 "3 members do not divide --shards 4" profile --data corpus --grids 1x1,1x1x3
    refuses 2 "--max-workers is 4" profile --data corpus --grids 1x1,2x2x2
    refuses 2 "1x1x2 comes twice" profile --data corpus --grids 1x1,1x1x2,1x1x2
    refuses 2 "--micro-batches must be numbers" profile --data corpus --micro-batches 1,
    refuses 2 "--micro-batches must be numbers" profile --data corpus --micro-batches 2x
    refuses 2 "--micro-batches: 3 does not divide --global-batch 16" profile --data corpus --micro-batches 3
    refuses 2 "comes twice" profile --data corpus --grids 1x1,1x1
    refuses 2 "--max-workers is 4" profile --data corpus --grids 3x2
    refuses 2 "5 microbatches" profile --data corpus --global-batch 5 --grids 6x1 --max-workers 8
    refuses 2 "json or table" profile --data corpus --format csv
    refuses 4 "cannot open" profile --data nothing-here
}

@test "on a busy host a grid is measured again, and one that stays restless is flagged and told of" {
    [ -n "${SPOT_PACE-}" ] || skip "no other library before a sanitizer's"
    SPOT_PACE_UNEVEN=1 LD_PRELOAD=$SPOT_PACE timeout 300 spot-run profile --data corpus $MODEL \
        --global-batch 5 --steps 24 --grids 1x1,2x1 --max-workers 2 --skip links,stalls,changes \
        -o job.json 2>profile.err
    jq -e '.measured.cells | map(.runs) | min > 1' job.json
    jq -r '.measured.cells[] | select(.outlier) | "\(.D)x\(.P)"' job.json | sort >flagged
    sed -n 's/.*warning: grid \([0-9x]*\), micro batch 1: steps scatter by .* runs: .*/\1/p' profile.err | sort >told
    [ -s flagged ]
    cmp flagged told
    jq -e '([.profile[] | .outlier // false]) == [.measured.cells[].outlier]' job.json
}

@test "whatever grid spot-plan names for a measured job, spot-run takes" {
    # two layers are four bundles; five microbatches, so at most five pipelines: random worlds
    spot-run profile -q --data corpus $MODEL --global-batch 5 --steps 3 --max-workers 2 \
        --skip links,stalls,changes -o job.json
    for seed in 1 2 3 4 5 6; do
        spot-replay generate --zones 1 --cap $((seed * 7)) --hours 3 --seed $seed >trace.csv
        spot-predict --horizon 4 -q trace.csv >forecast.json
        for source in both law; do
            for solver in dp liveput; do
                spot-plan train -q --job job.json --forecast forecast.json --throughput $source --solver $solver >plan.$seed.$source.$solver
                jq -e '[.next, .alternatives[], .path[]] | all(.D <= 5 and .P <= 4)' plan.$seed.$source.$solver
            done
        done
    done
    # and for thirty machines, had two been twice as fast as one, the real job takes over what it says
    jq '.profile |= map(.step_s = 0.01 / ([.D * .P, 5] | min))' job.json >fast.json
    spot-plan train -q --job fast.json --now 30 >wide.json
    jq -e '.next.D * .next.P > 2' wide.json
    train log --steps 100000
    eventually '[ -S j ]'
    for plan in wide.json plan.*; do
        jq 'del(.epoch)' $plan | spot-run replan --join unix:j --force -
    done
    kill -9 $train $(pgrep -P $train) || true
}
