#!/bin/bash
# SPDX-License-Identifier: MIT
# Jobs on a device: near the CPU's losses, equal bits on every grid and through a kill.
# shellcheck disable=SC2154 # long, ffn: of rig
set -eu
# shellcheck disable=SC1091
. "$(dirname "$0")/rig"
open_rig
echo 1..9
train cpu --device cpu
train fp32 --device cuda-fp32:0
check 'fp32 losses of ten steps within 1e-4 of the CPU' near cpu fp32 1e-4
train bf16 --device cuda-bf16:0
check 'bf16 losses of ten steps within 1e-2 of the CPU' near cpu bf16 1e-2
train again --device cuda-bf16:0
check 'the same bits twice' same bf16 again
train grid --device cuda-bf16:0 --workers 4 --grid 2x2
check 'the same bits on a grid of 2 x 2' same bf16 grid
steps=$long train quiet --device cuda-bf16:0
steps=$long train killed --device cuda-bf16:0 --workers 3 --grid 3x1 --listen unix:j &
wait_step killed 5 $!
kill -9 "$(leaf $!)"
wait $! || true
check 'the same state through a kill' same_end quiet killed
llama="--arch llama --kv-heads 1 --shards 1 --ffn $ffn"
# shellcheck disable=SC2086
train llama-cpu --device cpu $llama
# shellcheck disable=SC2086
train llama --device cuda-bf16:0 $llama
check 'a Llama: losses of ten steps within 1e-2 of the CPU' near llama-cpu llama 1e-2
# shellcheck disable=SC2086
train llama-grid --device cuda-bf16:0 $llama --workers 4 --grid 2x2
check 'a Llama: the same bits on a grid of 2 x 2' same llama llama-grid
train tensor --device cuda-bf16-tp:0
check 'shard by shard: losses of ten steps within 1e-2 of the CPU' near cpu tensor 1e-2
train tensor-grid --device cuda-bf16-tp:0 --workers 4 --grid 1x2x2
check 'a tensor group of two: the same bits on a grid of 1 x 2 x 2' same tensor tensor-grid
