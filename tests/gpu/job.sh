#!/bin/bash
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock
# Jobs on a device: near the CPU's losses, equal bits on every grid and through a kill.
set -eu
export SPOT_CUDA_MODULE=${SPOT_CUDA_MODULE:-$(dirname "$(command -v spot-run)")/../lib/spot_cuda.so}
"$(dirname "$0")/probe" >&2 || exit 77
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
seq 1 30000 >corpus
steps=10 number=0

job() { # LOG ARGUMENTS...
    local log=$1
    shift
    spot-run train -q --device 0 --data corpus --layers 2 --width 128 --heads 2 --seq 64 --shards 2 --lr 1e-3 \
        --global-batch 8 --steps "$steps" --events "$log" "$@"
}

# member LOG EVENT NAME: its values; a machine with a GPU need not have jq
member() {
    sed -n "/\"event\":\"$2\"/s/.*\"$3\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$1"
}

outcome() { # LOG: losses as bits, and the hash of the state
    member "$1" committed loss_hex
    member "$1" 'done' state_xxh3_128
}

losses() { member "$1" committed loss; }

near() { # LOG LOG TOLERANCE: the losses of all steps
    paste <(losses "$1") <(losses "$2") | awk -v most="$3" -v n="$steps" '
        { d = $1 - $2; if (d > most || -d > most) bad = 1 } END { exit bad || NR != n || n == 0 }'
}

check() { # WHAT COMMAND...
    local what=$1 not=''
    shift
    "$@" || not='not '
    number=$((number + 1))
    echo "${not}ok $number - $what"
}

same() { cmp -s <(outcome "$1") <(outcome "$2"); }

echo 1..9
job cpu --backend cpu
job fp32 --kernel cuda-fp32
check 'fp32 losses of ten steps within 1e-4 of the CPU' near cpu fp32 1e-4
job bf16 --kernel cuda-bf16
check 'bf16 losses of ten steps within 1e-2 of the CPU' near cpu bf16 1e-2
job again --kernel cuda-bf16
check 'the same bits twice' same bf16 again
job grid --kernel cuda-bf16 --workers 4 --grid 2x2
check 'the same bits on a grid of 2 x 2' same bf16 grid
steps=200 job quiet --kernel cuda-bf16
steps=200 job killed --kernel cuda-bf16 --workers 3 --grid 3x1 --listen unix:j &
until grep -q '"event":"committed".*"step":5,' killed 2>/dev/null; do sleep 0.05; done
child() { # PID: its first child; a machine with a GPU need not have pgrep
    local stat
    for stat in /proc/[0-9]*/stat; do
        awk -v parent="$1" '{ pid = $1; sub(/^.*\) /, ""); if ($2 == parent) print pid }' "$stat" 2>/dev/null
    done | sort -n | head -n 1
}
job=$!
kill -9 "$(child "$(child $job)")" # the function's shell, the coordinator, a worker
wait $job
last() { outcome "$1" | tail -n 1; }
check 'the same state through a kill' test "$(last quiet)" = "$(last killed)"
llama='--arch llama --kv-heads 1 --shards 1 --ffn 352'
# shellcheck disable=SC2086
job llama-cpu --backend cpu $llama
# shellcheck disable=SC2086
job llama --kernel cuda-bf16 $llama
check 'a Llama: losses of ten steps within 1e-2 of the CPU' near llama-cpu llama 1e-2
# shellcheck disable=SC2086
job llama-grid --kernel cuda-bf16 $llama --workers 4 --grid 2x2
check 'a Llama: the same bits on a grid of 2 x 2' same llama llama-grid
job tensor --kernel cuda-bf16-tp
check 'shard by shard: losses of ten steps within 1e-2 of the CPU' near cpu tensor 1e-2
job tensor-grid --kernel cuda-bf16-tp --workers 4 --grid 1x2x2
check 'a tensor group of two: the same bits on a grid of 1 x 2 x 2' same tensor tensor-grid
