#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --arch llama: the promises of GPT-2's shape, kept for another one.

bats_require_minimum_version 1.5.0
load job

LLAMA="--arch llama --heads 4 --kv-heads 2 --rope-theta 5e4"

setup() { job_setup; }
teardown() { job_teardown; }

grids() { # D P...: each grid gives the undisturbed outcome
    for grid in "$@"; do
        timeout 60 spot-run train -q --data corpus $MODEL $LLAMA --layers 4 --global-batch 5 \
            --steps 8 --workers $((${grid%x*} * ${grid#*x})) --grid "$grid" --events "$grid.log"
        jq -es "map(select(.event == \"formed\")) | last | .D == ${grid%x*} and .P == ${grid#*x}" "$grid.log"
        same_as "$grid.log" 8 $LLAMA --layers 4
    done
}

@test "pipelines alone: 1x2 to 1x6 have the bits of one worker" { grids 1x2 1x3 1x4 1x5 1x6; }
@test "replicas, and replicated pipelines, have the bits of one worker" {
    grids 2x1 3x1 4x1 5x1 2x2 2x3 3x2
}

@test "what is computed again has the bits of what was kept" {
    for what in mlp layer; do
        spot-run train -q --data corpus $MODEL $LLAMA --layers 4 --global-batch 5 --steps 8 \
            --workers 4 --grid 2x2 --recompute $what --events $what.log
        same_as $what.log 8 $LLAMA --layers 4
    done
}

@test "three threads have the bits of one; another key head, MLP, base or kind has not" {
    undisturbed 4 $LLAMA --ffn 88 --device portable >want
    for other in "--kv-heads 4" "--ffn 90" "--rope-theta 4e4" "--device portable"; do
        rm -f log
        spot-run train -q --data corpus $MODEL $LLAMA --ffn 88 --device portable $other \
            --global-batch 5 --steps 4 --threads 3 --events log
        outcome log >got
        run cmp want got
        case $other in
            "--device portable") [ "$status" -eq 0 ] ;;
            *) [ "$status" -eq 1 ] ;;
        esac
    done
}

@test "a killed worker and a resumed job: the undisturbed story" {
    train log $LLAMA --steps 1000000 --state s --durable-every 0.2s
    one_dies_then_all
    steps=$(($(wc -l <got) + 10))
    undisturbed $steps $LLAMA >want
    head -n $((steps - 10)) want | cmp got -
    spot-run train -q --data corpus $MODEL $LLAMA --global-batch 5 --steps $steps --state s --resume \
        --workers 2 --grid 1x2 --events more.log
    jq -r 'select(.event == "done").state_xxh3_128' more.log >got
    tail -n 1 want | cmp got -
}

@test "load, then save: the same file; load on any grid: the same bits" {
    common="$MODEL $LLAMA --global-batch 5"
    spot-run train -q --data corpus $common --steps 3 --save a.safetensors --events a.log
    spot-run train -q --data corpus $common --steps 1 --lr 0 --load a.safetensors --save b.safetensors --events b.log
    cmp a.safetensors b.safetensors
    for grid in 1x1 2x2 1x3; do
        spot-run train -q --data corpus $common --steps 4 --load a.safetensors --workers 4 --grid $grid --events $grid.log
        outcome $grid.log >$grid
    done
    cmp 1x1 2x2
    cmp 1x1 1x3
    grep -qF model.layers.1.self_attn.k_proj.weight a.safetensors
    LC_ALL=C sed 's/"config":/"xonfig":/' a.safetensors >mute # says no shape
    refuses 3 "the model has no such tensor" train --data corpus $MODEL --steps 1 --load mute
    refuses 3 "expected [32, 32]" train --data corpus $MODEL --arch llama --heads 4 --steps 1 --load mute
}

@test "a job tells its arch to the workers that join, and keeps another out of its state" {
    spot-run train -q --data corpus $MODEL $LLAMA --global-batch 5 --steps 2 --state s --events a.log
    refuses 2 "another job: --heads 2, there 4; --shards 1, there 2" train --data corpus $MODEL --shards 1 --global-batch 5 --steps 3 --state s --resume
    refuses 2 "another job" train --data corpus $MODEL $LLAMA --ffn 90 --global-batch 5 --steps 3 --state s --resume
}

@test "profile measures a llama's grids" {
    SPOT_TEST_WARM_UP=1 spot-run profile -q --data corpus $MODEL $LLAMA --steps 3 --max-workers 2 --skip links \
        --skip stalls,changes -o job.json
    jq -e '.model.kv_heads == 2 and .model.ffn == 86 and (.layers | length > 2)' job.json
}

@test "what does not divide, or is not a llama's, is refused with the option" {
    common="train --data corpus --steps 1 --width 32"
    refuses 2 "--arch must be gpt2 or llama, got 'bert'" $common --arch bert
    refuses 2 "--ffn is for --arch llama" $common --ffn 64
    refuses 2 "--kv-heads is for --arch llama" $common --kv-heads 2
    refuses 2 "--rope-theta is for --arch llama" $common --rope-theta 1e4
    refuses 2 "--kv-heads 3 does not divide --heads 4; try --kv-heads 2" $common --arch llama --kv-heads 3
    refuses 2 "--shards 4 does not divide --kv-heads 2; try --shards 2" $common --arch llama --kv-heads 2 --shards 4
    refuses 2 "--shards 2 does not divide --ffn 7; try --shards 1" $common --arch llama --ffn 7 --shards 2
    refuses 2 "an even number" $common --arch llama --heads 32
}
