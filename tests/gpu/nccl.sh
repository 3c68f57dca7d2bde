#!/bin/bash
# SPDX-License-Identifier: MIT
# Jobs over NCCL, all ranks on one GPU: NCCL takes a rank with an NCCL_HOSTID of its own for one of
# another host, and talks to it over loopback. Right or wrong, not fast or slow.
# shellcheck disable=SC2154 # long, ffn: of rig
set -eu
# shellcheck disable=SC1091
. "$(dirname "$0")/rig"
open_rig
why=$(spot-run train --data /dev/null --steps 1 --device cuda --comm nccl --workers 1 2>&1) ||
    if [ $? -eq 5 ]; then
        echo "skipped: ${why#*: }" >&2
        exit 77
    fi
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 \
    NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=4 NCCL_MULTI_RANK_GPU_ENABLE=1

one() { train "$@" --device cuda-bf16:0; }

# nccl LOG DxP[xM] KERNEL ARGUMENTS...: one worker per rank; their ids in $pids
nccl() {
    local log=$1 grid=$2 kernel=$3
    shift 3
    train "$log" --device "$kernel:0" --comm nccl --grid "$grid" --listen unix:j "$@" &
    job=$!
    pids=''
    for rank in $(seq $((${grid//x/*}))); do
        NCCL_HOSTID=rank-$rank spot-run worker -q --device cuda:0 --join unix:j --join-timeout 60s \
            --name "w$rank" &
        pids="$pids $!"
    done
}

over() { # the same to its end
    nccl "$@"
    wait $job || true
}

echo 1..9
one one
for grid in 2x1 1x2 2x2; do
    over "$grid" $grid cuda-bf16
    check "over NCCL a grid of $grid has the bits of one worker" same one "$grid"
    echo "# an epoch is formed in $(ms "$grid" quiesce formed) ms"
done
one tied --tied
over tied-nccl 2x2 cuda-bf16 --tied
check 'over NCCL a tied head has the bits of one worker' same tied tied-nccl
train tensor --device cuda-bf16-tp:0
for grid in 1x1x2 1x2x2; do
    over "tensor-$grid" $grid cuda-bf16-tp
    check "over NCCL a tensor group of $grid has the bits of one worker" same tensor "tensor-$grid"
done
over fast 2x2 cuda-bf16 --comm nccl-fast
check 'fast sums are within 1e-2 of the exact ones' near one fast 1e-2
over again 2x2 cuda-bf16 --comm nccl-fast
check 'fast sums give the same bits twice' same fast again
steps=$long one quiet
steps=$long nccl killed 4x1 cuda-bf16
wait_step killed 5 $job
kill -9 "${pids##* }"
wait $job || true
check 'the same state through a kill' same_end quiet killed
echo "# from the loss to the new epoch $(ms killed lost formed) ms"
