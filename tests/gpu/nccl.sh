#!/bin/bash
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock
# Jobs over NCCL, all ranks on one GPU: NCCL takes a rank with an NCCL_HOSTID of its own for one of
# another host, and talks to it over loopback. Right or wrong, not fast or slow.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export SPOT_CUDA_MODULE=${SPOT_CUDA_MODULE:-$(dirname "$(command -v spot-run)")/../lib/spot_cuda.so}
"$here/probe" >&2 || exit 77
why=$(spot-run train --data /dev/null --steps 1 --backend cuda --comm nccl --workers 1 2>&1) ||
    if [ $? -eq 5 ]; then
        echo "skipped: ${why#*: }" >&2
        exit 77
    fi
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 \
    NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=4 NCCL_MULTI_RANK_GPU_ENABLE=1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
seq 1 30000 >corpus
steps=10 number=0

train() { # LOG ARGUMENTS...
    local log=$1
    shift
    timeout 300 spot-run train -q --device 0 --data corpus --layers 2 --width 128 --heads 2 --seq 64 --shards 2 \
        --lr 1e-3 --global-batch 8 --steps "$steps" --kernel cuda-bf16 --events "$log" "$@"
}

# nccl LOG DxP[xM] ARGUMENTS...: one worker per rank; their ids in $pids
nccl() {
    local log=$1 grid=$2
    shift 2
    train "$log" --comm nccl --grid "$grid" --listen unix:j "$@" &
    job=$!
    pids=''
    for rank in $(seq $((${grid//x/*}))); do
        NCCL_HOSTID=rank-$rank spot-run worker -q --device 0 --join unix:j --join-timeout 60s \
            --name "w$rank" &
        pids="$pids $!"
    done
}

# member LOG EVENT NAME: its values; a machine with a GPU need not have jq
member() {
    sed -n "/\"event\":\"$2\"/s/.*\"$3\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$1"
}

outcome() { # LOG: losses as bits, and the hash of the state
    member "$1" committed loss_hex
    member "$1" 'done' state_xxh3_128
}

same() { cmp -s <(outcome "$1") <(outcome "$2"); }

near() { # LOG LOG
    paste <(member "$1" committed loss) <(member "$2" committed loss) | awk -v n="$steps" '
        { d = $1 - $2; if (d > 1e-2 || -d > 1e-2) bad = 1 } END { exit bad || NR != n || n == 0 }'
}

check() { # WHAT COMMAND...
    local what=$1 not=''
    shift
    "$@" || not='not '
    number=$((number + 1))
    echo "${not}ok $number - $what"
}

# ms LOG FROM TO: between the last event FROM and the next event TO
ms() {
    awk -v from="\"event\":\"$2\"" -v to="\"event\":\"$3\"" '
        match($0, /"time_s":[0-9.e+-]+/) { t = substr($0, RSTART + 9, RLENGTH - 9) }
        index($0, from) { at = t; took = "" }
        index($0, to) && at != "" && took == "" { took = t - at }
        END { printf "%d\n", took * 1000 + 0.5 }' "$1"
}

echo 1..9
train one
for grid in 2x1 1x2 2x2; do
    nccl "$grid" $grid
    wait $job || true
    check "over NCCL a grid of $grid has the bits of one worker" same one "$grid"
    echo "# an epoch is formed in $(ms "$grid" quiesce formed) ms"
done
train tied --tied
nccl tied-nccl 2x2 --tied
wait $job || true
check 'over NCCL a tied head has the bits of one worker' same tied tied-nccl
train tensor --kernel cuda-bf16-tp
for grid in 1x1x2 1x2x2; do
    nccl tensor-nccl $grid --kernel cuda-bf16-tp
    wait $job || true
    check "over NCCL a tensor group of $grid has the bits of one worker" same tensor tensor-nccl
done
nccl fast 2x2 --reduce fast
wait $job || true
check 'fast sums are within 1e-2 of the exact ones' near one fast
nccl again 2x2 --reduce fast
wait $job || true
check 'fast sums give the same bits twice' same fast again
steps=200 train quiet
steps=200 nccl killed 4x1
until grep -q '"event":"committed".*"step":5,' killed 2>/dev/null; do
    kill -0 $job || break
    sleep 0.05
done
kill -9 "${pids##* }"
wait $job || true
last() { outcome "$1" | tail -n 1; }
check 'the same state through a kill' test "$(last quiet)" = "$(last killed)"
echo "# from the loss to the new epoch $(ms killed lost formed) ms"
