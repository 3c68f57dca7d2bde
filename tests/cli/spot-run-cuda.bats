#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs twin, lane: wait, first
# spot-run without a GPU: what is missing is named, status 5, and nothing else is disturbed. With the
# CUDA module's sources compiled for the CPU (tests/twin): jobs keep their promises on a device too.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    patience=60
    MODEL="--layers 2 --width 8 --heads 2 --seq 4 --shards 2" # a step on the twin is dear
    export SPOT_PACE_MS=100
}
teardown() { job_teardown; }

# module NAME VERSION MESSAGE: a module whose probe refuses
module() {
    cat >"$1.c" <<-END
	#include <stdio.h>
	#include "common/err.h"
	static int probe(const char *device, struct spot_err *err) { (void)device; err->code = SPOT_EGPU; snprintf(err->msg, 512, "$3"); return -1; }
	static const struct { const char *version; const void *backend; int (*probe)(const char *, struct spot_err *); }
	    module = { "$2", 0, probe };
	const void *spot_cuda_module(void) { return &module; }
	END
    cc -I"$BATS_TEST_DIRNAME/../../lib" -shared -fPIC -o "$1.so" "$1.c"
    export SPOT_CUDA_MODULE=$PWD/$1.so
}

@test "a device that is none, or no device's number, is status 2" {
    for device in cpu:0 fma:1 :1 cuda: cuda:one cuda:1:2 cuda-bf16:1000; do
        refuses 2 "--device" train --data corpus --steps 1 --device $device
    done
    for device in abacus cuda-bf16; do
        refuses 2 "'$device'" worker --join unix:j --device $device
    done
}

@test "no module is status 5 and names the file and the way out" {
    export SPOT_CUDA_MODULE=$PWD/none.so
    for how in "--device cuda" "--device cuda-bf16" "--device cuda-fp32"; do
        # shellcheck disable=SC2086
        refuses 5 "no CUDA module: $PWD/none.so" train --data corpus --steps 1 $how
        [[ "$stderr" == *"--device cpu"* ]]
    done
    refuses 5 "no CUDA module: " worker --join unix:j --device cuda
}

@test "a library that is no module, or of another version, is refused by name" {
    printf 'int x;\n' >x.c
    cc -shared -fPIC -o x.so x.c
    SPOT_CUDA_MODULE=$PWD/x.so refuses 5 "spot_cuda_module" train --data corpus --steps 1 --device cuda
    module old 0.0.1 never
    refuses 5 "the CUDA module is of version 0.0.1, this program of " train --data corpus --steps 1 \
        --device cuda
}

@test "what the module misses is told: driver, device, NCCL" {
    module probe "$(spot-run --version | awk '{ print $2 }')" "no CUDA device: NCCL is 2.18, 2.27 is needed"
    refuses 5 "NCCL is 2.18, 2.27 is needed" train --data corpus --steps 1 --device cuda
    refuses 5 "NCCL is 2.18, 2.27 is needed" worker --join unix:j --device cuda
}

@test "where there is no device, backend auto computes on the CPU with the bits of backend cpu" {
    module probe "$(spot-run --version | awk '{ print $2 }')" "no CUDA device"
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --events a --device auto
    unset SPOT_CUDA_MODULE
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --events b --device cpu
    outcome a >a.out
    outcome b >b.out
    [ "$(wc -l <a.out)" -eq 4 ]
    cmp a.out b.out
}

# The twin plays a machine with a device; SPOT_TWIN_* say which.
twin() {
    export SPOT_CUDA_MODULE=${SPOT_TWIN:-$(dirname "$(command -v spot-run)")/../tests/spot_cuda_twin.so}
    export SPOT_TWIN_DEVICES=8 SPOT_DEVICE_LOCKS=$PWD
}

@test "the machine's driver, device, generation and memory are looked at before anything runs" {
    twin
    for kind in cuda-bf16 cuda-fp32; do
        SPOT_TWIN_DRIVER=0 refuses 5 "no NVIDIA driver" train --data corpus --steps 1 --device $kind
    done
    SPOT_TWIN_DRIVER=12040 refuses 5 "the NVIDIA driver is for CUDA 12.4, the module needs 13.0" \
        train --data corpus --steps 1 --device cuda
    SPOT_TWIN_DEVICES=0 refuses 5 "no CUDA device" train --data corpus --steps 1 --device cuda
    SPOT_TWIN_SM=75 refuses 5 "compute capability 7.5, 8.0 is needed" train --data corpus --steps 1 \
        --device cuda
    refuses 2 "unknown kernel 'cuda-int4'" train --data corpus --steps 1 --device cuda-int4
}

# Two workers take the job of `train log`, and one of them is killed.
two_and_a_kill() {
    worker a
    worker b
    seen log joined 2
    at_step log 2
    kill -9 "$pid"
    seen log lost 1
    more_steps log
}

@test "a coordinator makes no context on the device; its workers do" {
    twin
    SPOT_TWIN_LOG=$PWD/coordinator train log --device cuda-bf16 --steps 3
    export SPOT_TWIN_LOG=$PWD/worker
    worker a
    wait $train
    same_as log 3 --device cuda-bf16
    grep -qx context worker
    ! grep -qx context coordinator
}

@test "on a device the weights are the same for every grid, and through a kill" {
    twin
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 --device cuda-bf16 --events one
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 --device cuda-bf16 --workers 3 \
        --grid 1x3 --events three
    for log in one three; do outcome $log >$log.out; done
    [ "$(wc -l <one.out)" -eq 5 ]
    cmp one.out three.out
    train log --steps 100000 --device cuda-bf16
    two_and_a_kill
    stops_right log --device cuda-bf16
}

# tier: twin
@test "what a device computes again has the bits of what it keeps; workers may differ in it" {
    twin
    for more in "--device cuda-bf16" \
        "--device cuda-bf16-tp --arch llama --heads 4 --kv-heads 2"; do
        common="train -q --data corpus $MODEL $more --layers 3 --global-batch 5 --steps 3"
        rm -f one
        spot-run $common --events one
        rm -f mlp
        spot-run $common --workers 2 --grid 1x2 --recompute mlp --events mlp
        rm -f layer
        spot-run $common --workers 2 --grid "$([[ $more == *tp* ]] && echo 1x1x2 || echo 2x1)" \
            --recompute layer --events layer
        cmp <(outcome one) <(outcome mlp)
        cmp <(outcome one) <(outcome layer)
    done
    train log --layers 3 --steps 3 --grid 1x2 --device cuda-bf16
    background spot-run worker -q --join unix:j --join-timeout 60s --name one --recompute layer
    background spot-run worker -q --join unix:j --join-timeout 60s --name two
    wait $train
    same_as log 3 --layers 3 --device cuda-bf16
}

doubles() { # ARGUMENTS: kind and grid
    twin
    SPOT_TEST_PRECOPY_BYTE=0 train log --steps 100000 "$@"
    worker a
    worker b
    seen log formed 1
    at_step log 3
    worker c
    worker d
    eventually 'grep -q precopy_byte log'
    eventually 'grep formed log | tail -n 1 | grep -qE "\"D\":(2|4),.*\"members\":4"'
    more_steps log
}

# tier: twin
@test "state that moves ahead of a new grid comes from the device and goes to one" {
    doubles --device cuda-bf16
    stops_right log --device cuda-bf16
}

# tier: twin
@test "and so it does where a tensor group shares a stage" {
    model="--device cuda-bf16-tp --heads 4 --shards 4"
    doubles $model --grid 2x1x2
    stops_right log $model
}

# tier: twin
@test "members of a tensor group on devices have the bits of one, and lose nothing through a kill" {
    twin
    model="--heads 4 --shards 4 --device cuda-bf16-tp"
    common="train -q --data corpus $MODEL $model --global-batch 5 --steps 4"
    spot-run $common --events one
    for grid in $(size "1x1x2 1x1x4 1x2x2" "1x1x4 1x2x2"); do
        rm -f log
        timeout 60 spot-run $common --events log --workers $((${grid//x/*})) --grid $grid
        grep -q "\"M\":${grid##*x}" log
        cmp <(outcome one) <(outcome log)
    done
    llama="--arch llama --kv-heads 4 --ffn 88"
    spot-run $common $llama --events llama
    rm -f log
    spot-run $common $llama --events log --workers 4 --grid 2x1x2
    cmp <(outcome llama) <(outcome log)
    train log $model --steps 100000 --grid 1x1x2
    worker a
    worker b
    victim=$pid
    seen log formed 1
    worker c
    seen log joined 3
    at_step log 3
    kill -9 $victim
    seen log lost 1
    more_steps log
    stops_right log $model
    refuses 1 "needs kernel cuda-bf16-tp or cuda-fp32-tp, not cuda-bf16-sm90" train --data corpus \
        $MODEL --steps 1 --device cuda-bf16 --workers 2 --grid 1x1x2
}

# near LOG LOG MOST: the losses of all steps
near() {
    [ "$(events "$1" committed)" -gt 0 ]
    paste <(jq 'select(.event == "committed").loss' "$1") \
        <(jq 'select(.event == "committed").loss' "$2") |
        awk -v most="$3" '{ d = $1 - $2; if (NF != 2 || d > most || -d > most) exit 1 }'
}

# tier: twin
@test "a Llama on a device: the CPU's losses, the same bits for every grid, and through a kill" {
    twin
    llama="--arch llama --heads 4 --kv-heads 2 --ffn 88 --rope-theta 5e4"
    common="train -q --data corpus $MODEL $llama --global-batch 5 --steps 6"
    spot-run $common --device fma --events cpu
    spot-run $common --device cuda-fp32 --events fp32
    spot-run $common --device cuda-bf16 --events one
    near cpu fp32 1e-4
    near cpu one 1e-2
    for grid in $(size "2x1 1x3 2x2" "1x3 2x2"); do
        rm -f log
        spot-run $common --device cuda-bf16 --events log --workers $((${grid%x*} * ${grid#*x})) --grid $grid
        cmp <(outcome one) <(outcome log)
    done
    train log $llama --steps 100000 --device cuda-bf16
    two_and_a_kill
    stops_right log $llama --device cuda-bf16
}

@test "a coordinator without a device serves workers that have one, by the whole name of the kind" {
    twin
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --device cuda-fp32 --events one
    export -n SPOT_CUDA_MODULE
    SPOT_CUDA_MODULE=$PWD/none.so train log --steps 3 --device cuda-fp32-sm90x132-lt130100-cc1300
    export SPOT_CUDA_MODULE
    SPOT_TWIN_SM=80 refuses 1 "cannot compute with the job's kernel 'cuda-fp32-sm90x132-lt130100-cc1300'" \
        worker --join unix:j --join-timeout 20s
    worker a
    worker b
    at_step log 1 # or they are refused, and the job waits
    wait $train
    outcome one >one.out
    outcome log >log.out
    cmp one.out log.out
    SPOT_CUDA_MODULE=$PWD/none.so
    refuses 5 "name the workers' kernel in full" train --data corpus --steps 1 --listen unix:k \
        --device cuda-fp32
    refuses 5 "no CUDA module" train --data corpus --steps 1 --device cuda-fp32-sm90x132-lt130100-cc1300
    refuses 5 "no CUDA module" train --data corpus --steps 1 --listen unix:k \
        --device cuda-fp32-sm090x132-lt130100-cc1300
}

# tier: twin
@test "a device that fails mid-step ends its worker with status 5, and the job goes on" {
    twin
    train log --steps 100000 --device cuda-fp32
    background env SPOT_TWIN_FAIL_AT=60 spot-run worker --join unix:j --join-timeout 60s --name ill \
        2>ill.err
    ill=$pid
    worker well
    status=0
    wait $ill || status=$?
    [ "$status" -eq 5 ]
    grep -q "CUDA: .*unspecified launch failure" ill.err
    more_steps log
    stops_right log --device cuda-fp32
}

@test "a stage that does not fit the device is refused with both numbers" {
    twin
    train log --steps 1 --device cuda-bf16
    export SPOT_TWIN_MEMORY=403653184 # 384 MiB are left to the libraries
    run --separate-stderr timeout 60 spot-run worker --join unix:j --name small
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"on a CUDA device needs 0.03"*" GB of memory, 0.001 GB are available"* ]]
    kill $train
}

@test "one worker a device, said in the status; a number shares one; no device left is status 5" {
    twin
    export SPOT_TWIN_DEVICES=2
    train log --steps 100000 --device cuda-fp32
    worker a
    worker b
    seen log joined 2
    eventually '[ "$(spot-run status --join unix:j --format json | jq -r ".members[].device" | sort | xargs)" = "0000:00:00.0 0000:01:00.0" ]'
    refuses 5 "each of 2 CUDA devices here has a worker" worker --join unix:j --name c --device cuda
    refuses 5 "--device cuda:2: there are 2 CUDA devices here" worker --join unix:j --name c \
        --device cuda:2
    refuses 2 "'one'" worker --join unix:j --device cuda:one
    background spot-run worker -q --join unix:j --name c --device cuda:1
    seen log joined 3
    kill -9 $pid
    kill $train
}

@test "backend auto takes the CPU, and says so where a device may be" {
    twin
    run --separate-stderr spot-run train --data corpus $MODEL --global-batch 5 --steps 1 --events auto
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"--device"* ]]
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --events cpu --device cpu
    cmp <(outcome auto) <(outcome cpu)
}

@test "no cuBLASLt is status 5 and names the file" {
    twin
    SPOT_CUBLASLT_LIBRARY=$PWD/none.so refuses 5 "no cuBLASLt of CUDA 13: $PWD/none.so" train \
        --data corpus --steps 1 --device cuda
}
