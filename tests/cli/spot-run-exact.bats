#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-run train: losses and weights have the same bits whoever computes them, and however many.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

grids() { # D P...: each grid gives the undisturbed outcome
    for grid in "$@"; do
        local n=$((${grid%x*} * ${grid#*x}))
        timeout 60 spot-run train -q --data corpus $MODEL --layers 4 --global-batch 5 --steps 12 \
            --workers $n --grid "$grid" --events "$grid.log"
        jq -es "map(select(.event == \"formed\")) | last | .D == ${grid%x*} and .P == ${grid#*x}" "$grid.log"
        same_as "$grid.log" 12 --layers 4
    done
}

@test "pipelines alone: 1x2 to 1x6 have the bits of one worker" { grids 1x2 1x3 1x4 1x5 1x6; }
@test "replicas alone: 2x1 to 5x1 have the bits of one worker, though D does not divide G = 5" {
    grids 2x1 3x1 4x1 5x1
}
@test "replicated pipelines: 2x2, 2x3 and 3x2 have the bits of one worker" { grids 2x2 2x3 3x2; }

@test "two threads have the bits of one" {
    spot-run train -q --data corpus $MODEL --layers 4 --global-batch 5 --steps 12 --threads 2 \
        --events two.log
    same_as two.log 12 --layers 4
}

@test "what is computed again has the bits of what was kept; workers may differ in it" {
    for what in mlp layer; do
        spot-run train -q --data corpus $MODEL --layers 4 --global-batch 5 --steps 12 --workers 2 \
            --grid 1x2 --recompute $what --events $what.log
        same_as $what.log 12 --layers 4
    done
    train log --layers 4 --steps 12 --grid 1x2
    background spot-run worker -q --join unix:j --join-timeout 60s --name one --recompute layer
    background spot-run worker -q --join unix:j --join-timeout 60s --name two
    wait $train
    same_as log 12 --layers 4
    refuses 2 "--recompute must be none, mlp or layer, got 'all'" train --data corpus --steps 1 --recompute all
    refuses 2 "--recompute must be none, mlp or layer, got 'all'" worker --join unix:j --recompute all
}

@test "micro-batches of two give another, equally exact, job" {
    for grid in 1x1 2x1 3x2; do
        spot-run train -q --data corpus $MODEL --micro-batch 2 --global-batch 10 --steps 8 \
            --workers $((${grid%x*} * ${grid#*x})) --grid $grid --events $grid.log
        jq -r 'select(.event == "committed").loss_hex, select(.event == "done").state_xxh3_128' \
            $grid.log >$grid
        cmp 1x1 $grid
    done
}

# The same numbers as bytes, u16 and u32 (a file, a pipe, with a header of llm.c) are one training.
@test "tokens of 16 and 32 bits have the bits of bytes, on any grid" {
    local common="$MODEL --global-batch 5 --steps 6 --vocab 256"
    for width in 2 4; do
        od -An -v -tu1 -w1 corpus | awk -v w=$width '{ printf "%c", $1; for (i = 1; i < w; i++) printf "%c", 0 }' \
            >u$((8 * width))
    done
    { printf '\210\330\064\1\1\0\0\0'; n=$(stat -c %s corpus)
      printf "\\x$(printf %02x $((n & 255)))\\x$(printf %02x $((n >> 8 & 255)))\\x$(printf %02x $((n >> 16)))\\0"
      head -c 1012 /dev/zero; cat u16; } >headed
    spot-run train -q --data corpus $common --events - | jq -r 'select(.event == "committed").loss_hex' >want
    [ "$(wc -l <want)" -eq 6 ]
    spot-run train -q --data u16 --tokens u16 $common --workers 2 --grid 1x2 --events u16.log
    spot-run train -q --data headed --tokens u16 $common --events headed.log
    spot-run train -q --data - --tokens u32 $common --workers 2 --grid 2x1 --events u32.log < <(cat u32)
    for log in u16 headed u32; do
        jq -r 'select(.event == "committed").loss_hex' $log.log | cmp - want
    done
}

@test "a second run has the bytes of the first but for times" {
    for i in 1 2; do
        spot-run train -q --data corpus $MODEL --steps 6 --save $i.safetensors --events - |
            jq -c 'del(.time_s, .compute_s) | select(.event != "durable")' >$i.log
    done
    cmp 1.log 2.log
    cmp 1.safetensors 2.safetensors
    spot-run train -q --data corpus $MODEL --steps 6 --seed 2 --save 3.safetensors --events other.log
    run cmp 1.safetensors 3.safetensors
    [ "$status" -eq 1 ]
}

@test "the portable kernel has its own bits on every grid" {
    for grid in 1x1 2x2; do
        spot-run train -q --data corpus $MODEL --global-batch 5 --steps 5 --device portable \
            --workers $((${grid%x*} * ${grid#*x})) --grid $grid --events $grid.log
        outcome $grid.log >$grid
    done
    cmp 1x1 2x2
}
