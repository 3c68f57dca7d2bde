#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs twin, lane: wait, first
# Jobs over NCCL, played by tests/twin (nccl.h there tells how strict it is), on the twin's device:
# in exact mode nobody can tell them from jobs over sockets, whatever happens to their members.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    patience=60
    tests=$(dirname "$(command -v spot-run)")/../tests
    MODEL="--layers 2 --width 8 --heads 2 --seq 4 --shards 2" MORE=2 # a step on the twin is dear
    export SPOT_PACE_MS=100
    export SPOT_CUDA_MODULE=${SPOT_TWIN:-$tests/spot_cuda_twin.so}
    export SPOT_NCCL_LIBRARY=${SPOT_TWIN_NCCL:-$tests/nccl_twin.so}
    export SPOT_TWIN_DEVICES=8 SPOT_DEVICE_LOCKS=$PWD
    NCCL="--device cuda-fp32 --comm nccl"
}
teardown() { job_teardown; }

# The undisturbed story is told over sockets.
same_as_sockets() { # LOG STEPS
    same_as "$1" "$2" --device cuda-fp32
}

@test "the weights are those of a job over sockets for every grid" {
    for grid in $(size "2x1 1x2 3x1 2x2 1x4 3x2" "3x1 1x4 2x2"); do
        rm -f log
        timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 $NCCL \
            --workers $((${grid%x*} * ${grid#*x})) --grid $grid --events log
        same_as_sockets log 4
    done
}

@test "communicators begin on the device that a worker was told, not on the first" {
    train log --steps 4 --grid 2x1 $NCCL
    background spot-run worker -q --join unix:j --join-timeout 60s --name one --device cuda:5
    background spot-run worker -q --join unix:j --join-timeout 60s --name two --device cuda:3
    wait $train
    same_as_sockets log 4
}

# tier: twin
@test "a tied head: both ends of the model add up their table from device to device" {
    for grid in $(size "1x1 1x2 2x1 2x2 1x4" "2x1 1x4"); do
        rm -f log
        timeout 60 spot-run train -q --data corpus $MODEL --tied --global-batch 5 --steps 4 $NCCL \
            --workers $((${grid%x*} * ${grid#*x})) --grid $grid --events log
        same_as log 4 --tied --device cuda-fp32
    done
    train log --tied --steps 100000 --workers 4 --grid 2x2 $NCCL
    at_step log 3
    kill -9 "$(pgrep -P "$(pgrep -P $train)" | head -n 1)"
    seen log lost 1
    more_steps log
    stops_right log --tied --device cuda-fp32
}

# tier: twin
@test "a tensor group exchanges its partial sums from device to device" {
    for grid in $(size "1x1x2 1x2x2 2x1x2" "1x2x2 2x1x2"); do
        rm -f log
        timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 --comm nccl \
            --device cuda-fp32-tp --workers $((${grid//x/*})) --grid $grid --events log
        same_as log 4 --device cuda-fp32-tp
    done
    train log --steps 100000 --workers 3 --grid 1x1x2 --comm nccl --device cuda-fp32-tp
    at_step log 3
    kill -9 "$(pgrep -P "$(pgrep -P $train)" | head -n 1)"
    seen log lost 1
    more_steps log
    stops_right log --device cuda-fp32-tp
}

@test "a killed member does not hang the others: they abort, form anew and lose nothing" {
    train log --steps 100000 --workers 3 --grid 3x1 $NCCL
    at_step log 3
    kill -9 "$(pgrep -P "$(pgrep -P $train)" | head -n 1)"
    seen log lost 1
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "a killed stage of a pipeline ends an exchange, not the job" {
    train log --steps 100000 --workers 6 --grid 2x3 $NCCL
    at_step log 3
    kill -9 "$(pgrep -P "$(pgrep -P $train)" | sed -n 2p)"
    seen log lost 1
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "a lost connection that NCCL sees is the same as one that it does not" {
    export SPOT_TWIN_NCCL_SEES=1
    train log --steps 100000 --workers 4 --grid 2x2 $NCCL
    at_step log 3
    kill -9 "$(pgrep -P "$(pgrep -P $train)" | tail -n 1)"
    seen log lost 1
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "a member that is told to leave hands over and the rest goes on" {
    train log --steps 100000 $NCCL
    for name in a b c; do worker $name; done
    leaver=$pid
    seen log joined 3
    at_step log 3
    kill -TERM "$leaver"
    wait $leaver && status=0 || status=$?
    [ "$status" -eq 75 ]
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "a member that stops answering is taken for lost within its lease" {
    train log --steps 100000 --lease 4s --workers 3 --grid 3x1 $NCCL
    at_step log 3
    kill -STOP "$(pgrep -P "$(pgrep -P $train)" | head -n 1)"
    seen log lost 1
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "a host that falls silent ends an exchange and a sum within its lease" {
    train log --steps 100000 --lease 4s --workers 4 --grid 2x2 $NCCL
    at_step log 3
    kill -STOP "$(pgrep -P "$(pgrep -P $train)" | sed -n 2p)"
    seen log lost 1
    more_steps log
    stops_right log --device cuda-fp32
}

# state LOG...: planes that went to a device or came from one; a bundle's three go up in front of the
# launch that makes the compute copy, which tells their size
state() {
    local log
    for log; do
        awk '/^copy 1 / { size = $3 } /^.?gather_kernel/ { is_plane[size] = 1; n += 3 }
            /^copy 2 / { n_down[$3]++ } END { for (s in is_plane) n += n_down[s]; print n + 0 }' "$log"
    done
}

# tier: twin
@test "survivors of a killed rank keep their state on the device: nothing goes up or comes down" {
    train log --steps 100000 --durable-every 3600s $NCCL # or what is saved comes down
    for name in a b c; do
        background env SPOT_TWIN_LOG=$PWD/$name.copies spot-run worker -q --join unix:j --join-timeout 60s \
            --name $name 2>>workers.err
    done
    eventually 'grep formed log | tail -n 1 | grep -q "\"D\":3"'
    more_steps log
    state a.copies b.copies >before
    grep -qv '^0$' before
    kill -9 $pid
    seen log lost 1
    more_steps log
    state a.copies b.copies >after
    cmp before after
    stops_right log --device cuda-fp32
}

# tier: twin
@test "a member that dies while all connect, again and again, is no end" {
    export SPOT_TWIN_NCCL_INIT_MS=400
    train log --steps 10 --workers 3 --grid 3x1 $NCCL
    for _ in 1 2 3; do
        sleep 0.3
        kill -9 "$(pgrep -P "$(pgrep -P $train)" | head -n 1)" || true
    done
    wait $train
    same_as_sockets log 10
}

# tier: twin
@test "one who joins is taken in: a new communicator for the new epoch" {
    train log --steps 100000 $NCCL
    worker a
    worker b
    at_step log 3
    worker c
    seen log formed 2
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "state that moves ahead of a new grid: mirrored from device to device, the same bits" {
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=0 train log --steps 100000 --layers 4 --grid 1x1 $NCCL
    for name in a b c; do worker $name; done
    at_step log 3
    for to in '"D":2,"P":1' '"D":1,"P":3' '"D":1,"P":1'; do
        echo "{\"schema\":\"spot.plan/1\",\"kind\":\"train\",\"job\":\"x\",\"time_s\":$((++k)),\"next\":{$to,\"M\":1,\"B\":1}}" |
            spot-run replan --join unix:j -
        eventually "grep formed log | tail -n 1 | grep -q '$to'"
        more_steps log
    done
    grep -q precopy_byte log
    [ "$(jq -s 'map(select(.event == "migrate").moved_byte) | add' log)" -eq 0 ]
    stops_right log --layers 4 --device cuda-fp32
}

@test "a collective that fails on one machine ends its worker with status 5, and the job goes on" {
    train log --steps 100000 $NCCL
    background env SPOT_TWIN_NCCL_FAIL_AT=6 spot-run worker --join unix:j --join-timeout 60s \
        --name ill 2>ill.err
    ill=$pid
    worker well
    worker good
    status=0
    wait $ill || status=$?
    [ "$status" -eq 5 ]
    grep -q "NCCL: .*internal error" ill.err
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "a communicator that NCCL cannot end costs its worker seconds, not for ever" {
    train log --steps 100000 $NCCL
    worker well
    # what cannot be ended is left: no leak to speak of
    background env ASAN_OPTIONS=detect_leaks=0 SPOT_TWIN_NCCL_STUCK=1 spot-run worker --join unix:j --join-timeout 60s \
        --name stuck 2>stuck.err
    stuck=$pid
    at_step log 3
    worker third
    status=0
    eventually "! kill -0 $stuck"
    wait $stuck || status=$?
    [ "$status" -eq 5 ]
    grep -q "NCCL did not return" stuck.err
    more_steps log
    stops_right log --device cuda-fp32
}

# tier: twin
@test "fast sums are near the exact ones, the same bits twice, and another job" {
    fast() { # LOG
        timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 6 $NCCL \
            --comm nccl-fast --workers 4 --grid 2x2 --events "$1" --state state
    }
    fast one
    rm -rf state
    fast two
    outcome one >one.out
    outcome two >two.out
    [ "$(wc -l <one.out)" -eq 7 ]
    cmp one.out two.out
    timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 6 $NCCL --workers 2 \
        --events exact
    outcome exact >exact.out
    run cmp -s <(tail -n 1 one.out) <(tail -n 1 exact.out)
    [ "$status" -eq 1 ]
    loss() { jq -r 'select(.event == "committed").loss' "$1"; }
    paste <(loss one) <(loss exact) |
        awk '{ d = $1 - $2; if (d > 1e-4 || d < -1e-4) bad = 1 } END { exit bad || NR != 6 }'
    run --separate-stderr spot-run train -q --data corpus $MODEL --global-batch 5 --steps 7 $NCCL \
        --state state --resume --events three
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"the state of another job"* ]]
}

# tier: twin
@test "a job goes on over NCCL from the state of one over sockets" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --device cuda-fp32 \
        --state state --events first
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 6 $NCCL --workers 2 \
        --state state --resume --events second
    undisturbed 6 --device cuda-fp32 | tail -n 1 >want
    jq -r 'select(.event == "done").state_xxh3_128' second >got
    cmp want got
}

@test "NCCL that is missing, too old or something else is status 5 and named" {
    arguments="train --data corpus --steps 1 $NCCL"
    SPOT_NCCL_LIBRARY=$PWD/none.so refuses 5 "no NCCL, 2.27 is needed: $PWD/none.so" $arguments
    [[ "$stderr" == *"--comm sockets"* ]]
    SPOT_TWIN_NCCL_VERSION=21805 refuses 5 "NCCL is 2.18.5, 2.27 is needed" $arguments
    printf 'int ncclGetVersion(int *v) { return *v = 22800, 0; }\n' >half.c
    cc -shared -fPIC -o half.so half.c
    SPOT_NCCL_LIBRARY=$PWD/half.so refuses 5 "no NCCL, 2.27 is needed: $PWD/half.so lacks ncclGetUniqueId" $arguments
    train log --steps 1 $NCCL
    SPOT_TWIN_NCCL_VERSION=22607 refuses 5 "NCCL is 2.26.7, 2.27 is needed" worker --join unix:j
    worker able
    wait $train
}

@test "without NCCL a device serves over sockets" {
    SPOT_NCCL_LIBRARY=$PWD/none.so spot-run train -q --data corpus $MODEL --global-batch 5 \
        --steps 3 --device cuda-fp32 --workers 2 --events log
    same_as_sockets log 3
}

@test "options that do not belong together are status 2" {
    refuses 2 "--comm must be sockets, nccl" train --data corpus --steps 1 --comm mpi
    refuses 2 "--comm nccl needs --device cuda" train --data corpus --steps 1 --device cpu \
        --comm nccl
}

# tier: twin
@test "a communicator that does not end ends its worker with status 5, and nothing waits for it" {
    export SPOT_TWIN_NCCL_STUCK=1
    train log --steps 100000 $NCCL --grid 2x1
    background spot-run worker --join unix:j --join-timeout 60s --name stuck 2>stuck.err
    stuck=$pid
    worker victim
    victim=$pid
    at_step log 3
    kill -9 $victim
    status=0
    eventually "! kill -0 $stuck"
    wait $stuck || status=$?
    [ "$status" -eq 5 ]
    grep -q "NCCL did not return" stuck.err
    kill $train
}

@test "a module that was built without nccl.h says so" {
    # where the C library is, and no more
    bare="-nostdinc -isystem $(cc -print-file-name=include) -isystem /usr/include/$(cc -print-multiarch) -isystem /usr/include"
    # shellcheck disable=SC2086
    ! echo '#include <nccl.h>' | cc $bare -E -x c - >/dev/null 2>&1 || skip "nccl.h is beside the C library"
    lib=$BATS_TEST_DIRNAME/../../lib
    cat >without.c <<-END
	#include <stdio.h>
	#include "comm/comm_nccl.h"
	int main(void) { struct spot_err err; return !spot_nccl.probe(&err) || puts(err.msg) < 0 || spot_nccl.is_held(); }
	END
    # shellcheck disable=SC2086
    cc $bare -D_POSIX_C_SOURCE=200809L -I"$lib" without.c "$lib/comm/comm_nccl.c" "$lib/common/err.c" -o without
    [[ "$(./without)" == *"built without nccl.h, and so without NCCL; try --comm sockets"* ]]
}
