#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs twin, lane: wait
# spot-run serve on a device, which is the twin's (tests/twin): the tokens of a request are those of
# the undisturbed run on that kind of device, whatever happens to its workers.

load serving
load eventually

requests() { in_tier twin && echo 20 || echo 8; }

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 200 >text
    spot-run train -q --data text --layers 2 --width 16 --heads 4 --seq 64 --steps 5 --shards 2 \
        --save model >train.log
    for i in $(seq "$(requests)"); do
        printf '{"custom_id":"r%d","method":"POST","url":"/v1/completions","body":{"model":"model","prompt":"the %d. line of","max_tokens":%d,"temperature":%s,"seed":%d}}\n' \
            "$i" "$i" "$((i % 3 ? 48 : 12))" "0.$((i % 2 * 9))" "$i"
    done >in.jsonl
    export SPOT_DEVICE_LOCKS=$PWD
    twin
    spot-run serve -q --model model --batch in.jsonl -o raw.jsonl --max-batch 1 --device cuda \
        --dtype bf16
    answers raw.jsonl >want
}

twin() {
    export SPOT_CUDA_MODULE=${SPOT_TWIN:-$(dirname "$(command -v spot-run)")/../tests/spot_cuda_twin.so}
    export SPOT_TWIN_DEVICES=8 SPOT_DEVICE_LOCKS=${SPOT_DEVICE_LOCKS:-$PWD}
}

nccl() {
    export SPOT_NCCL_LIBRARY=${SPOT_TWIN_NCCL:-$(dirname "$(command -v spot-run)")/../tests/nccl_twin.so}
}

@test "a batch has an answer for each request, the same in company, on stages and in a group" {
    twin
    [ "$(grep -c '"status_code":200' want)" = "$(requests)" ]
    for how in "--workers 2" "--workers 2 --grid 1x2" "--workers 2 --grid 1x1x2"; do
        rm -f out # it would be continued
        # shellcheck disable=SC2086
        spot-run serve -q --model model --batch in.jsonl -o out --device cuda --dtype bf16 $how
        same out
    done
}

# Only a worker that is alone chooses tokens on its device; stages and members of groups have none, or no graphs.
@test "decode steps as graphs and tokens chosen on the device change no token" {
    twin
    for how in graphs tokens graphs+tokens; do
        rm -f log out # one that is there would be continued
        SPOT_CUDA_DECODE=$how SPOT_TWIN_LOG=$PWD/log spot-run serve -q --model model \
            --batch in.jsonl -o out --device cuda --dtype bf16 --max-batch 5 --threads 2
        same out
        [[ $how != *graphs* ]] || grep -q '^graph ' log
        [[ $how != *tokens* ]] || [ "$(awk '$1 == "copy" && $2 == 2 && $3 > max { max = $3 } END { print max }' log)" -lt 1000 ]
    done
    for grid in 1x2 1x1x2; do
        rm out
        SPOT_CUDA_DECODE=graphs+tokens spot-run serve -q --model model --batch in.jsonl -o out \
            --device cuda --dtype bf16 --workers 2 --grid $grid
        same out
    done
}

@test "workers of one machine share a device that is named; a word that names none is refused" {
    twin
    export SPOT_TWIN_DEVICES=1
    spot-run serve -q --model model --batch in.jsonl -o out --device cuda:0 --dtype bf16 --workers 2
    same out
    run spot-run serve -q --model model --batch in.jsonl --device cuda:first --dtype bf16
    [ "$status" -eq 2 ]
    [[ "$output" == *"'first'"* ]]
}

@test "workers that are killed or get a notice change no token" {
    twin
    spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j --max-batch 2 \
        --device cuda --dtype bf16 3>&- &
    server=$!
    pids=$server
    worker a
    a=$!
    worker b
    b=$!
    until grep -qs '"status_code"' out; do
        kill -0 $server || break
        sleep 0.01
    done
    kill -9 $a
    worker c
    kill -TERM $b
    wait $server
    same out
}

# tier: twin
@test "with graphs and choices on the device a kill and a notice change no token" {
    twin
    export SPOT_CUDA_DECODE=graphs+tokens
    strike_server spot-run serve -q --model model --batch in.jsonl --device cuda --dtype bf16
}

# tier: twin
@test "64 clients over HTTP get the same tokens from launches, and from graphs and choices on the device" {
    twin
    ask=$(dirname "$(command -v spot-run)")/../tests/load
    for how in launches graphs+tokens; do
        rm -f s
        SPOT_CUDA_DECODE=$how spot-run serve -q --model model --device cuda --dtype bf16 \
            --max-batch 32 --http unix:s --linger 0s 3>&- &
        server=$!
        pids="$pids $server"
        eventually '"$ask" unix:s n=1 in=1 out=1 plain=1 clients=1 >/dev/null 2>&1'
        "$ask" unix:s n=64 clients=64 in=20 out=12 answers=$how.txt
        kill -TERM $server
        wait $server
        sort $how.txt >$how.sorted
    done
    [ "$(wc -l <launches.sorted)" -ge 64 ] # a line a choice
    cmp launches.sorted graphs+tokens.sorted
}

# tier: twin
@test "members of a stage that meet over NCCL say the tokens of one worker" {
    twin
    nccl
    for how in "--workers 2 --grid 1x1x2" "--workers 4 --grid 1x2x2"; do
        rm -f out
        # shellcheck disable=SC2086
        spot-run serve -q --model model --batch in.jsonl -o out --device cuda --dtype bf16 \
            --comm nccl $how
        same out
    done
}

# begin_group: a server of groups of two in the background
begin_group() {
    spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j --max-batch 2 \
        --device cuda --dtype bf16 --comm nccl --grid 1x1x2 3>&- &
    server=$!
    pids=$server
}

answered() {
    until grep -qs '"status_code"' out; do
        kill -0 $server || break
        sleep 0.01
    done
}

# tier: twin
@test "a member of a group over NCCL that is killed changes no token" {
    twin
    nccl
    begin_group
    worker a
    a=$newest
    worker b
    worker spare
    answered
    kill -9 $a
    worker another
    wait $server
    same out
}

# tier: twin
@test "a communicator that does not end costs its worker and no token" {
    twin
    nccl
    begin_group
    worker first
    first=$newest
    # what cannot be ended is left: no leak to speak of
    ASAN_OPTIONS=detect_leaks=0 SPOT_TWIN_NCCL_STUCK=1 spot-run worker --join unix:j \
        --join-timeout 20s --name stuck 2>stuck.err 3>&- &
    stuck=$!
    pids="$pids $stuck"
    answered
    kill -9 $first
    status=0
    wait $stuck || status=$?
    [ "$status" -eq 5 ]
    grep -q "NCCL did not return" stuck.err
    worker a
    worker b
    wait $server
    same out
}

# tier: twin
@test "a collective that fails on one machine ends its worker with status 5, and changes no token" {
    twin
    nccl
    begin_group
    SPOT_TWIN_NCCL_FAIL_AT=9 spot-run worker --join unix:j --join-timeout 20s --name ill 2>ill.err 3>&- &
    ill=$!
    pids="$pids $ill"
    worker well
    status=0
    wait $ill || status=$?
    [ "$status" -eq 5 ]
    grep -q "NCCL: .*internal error" ill.err
    worker good
    wait $server
    same out
}

# The notice comes when the short answers are there and the long ones have their first page; the other
# worker has room for some. Only where it joins too late, or pages took long once, is another try needed.
# tier: twin
@test "pages of a worker that gets a notice go from device to device" {
    twin
    for _ in 1 2 3 4 5; do
        rm -f out log j
        spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j --max-batch 12 \
            --device cuda --dtype bf16 --events log 3>&- &
        server=$!
        pids=$server
        worker a
        a=$!
        worker b
        until grep -qs '"status_code"' out && [ "$(grep -c '"event":"joined"' log)" -ge 2 ]; do
            kill -0 $server || break
            sleep 0.01
        done
        kill -TERM $a
        wait $server
        same out
        [ "$(jq -s 'map(.paged_tokens // 0) | add' log)" -eq 0 ] || return 0
    done
    false
}

# tier: twin
@test "fp32 on a device and on a CPU say the same of most requests" {
    twin
    spot-run serve -q --model model --batch in.jsonl -o cpu.jsonl
    spot-run serve -q --model model --batch in.jsonl -o cuda.jsonl --device cuda
    answers cpu.jsonl >cpu
    answers cuda.jsonl >cuda
    [ "$(grep -cFxf cpu cuda)" -ge 15 ] # two logits may be as near as rounding
}

@test "what cannot be is refused by name" {
    export SPOT_CUDA_MODULE=$PWD/none.so
    run spot-run serve --model model --batch in.jsonl -o out --device cuda
    [ "$status" = 5 ]
    [[ "$output" == *"no CUDA module: $PWD/none.so"* ]]
    run spot-run serve --model model --batch in.jsonl -o out --device abacus
    [ "$status" = 2 ]
    [[ "$output" == *"'abacus'"* ]]
    twin
    run spot-run serve --model model --batch in.jsonl -o out --device cuda --dtype q8
    [ "$status" = 2 ]
    [[ "$output" == *"--dtype"* ]]
    run spot-run serve --model model --batch in.jsonl -o out --comm mpi
    [ "$status" = 2 ]
    [[ "$output" == *"--comm"* ]]
    run spot-run serve --model model --batch in.jsonl -o out --comm nccl
    [ "$status" = 2 ]
    [[ "$output" == *"--comm"* ]]
    SPOT_NCCL_LIBRARY=$PWD/none.so run spot-run serve --model model --batch in.jsonl -o out \
        --device cuda --comm nccl
    [ "$status" = 5 ]
    [[ "$output" == *"no NCCL, 2.27 is needed: $PWD/none.so"* ]]
}

@test "a worker of another kind of device is refused, and named" {
    twin
    spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j --dtype bf16 \
        --device cuda-bf16-sm80x108-lt130100-cc1300 3>&- &
    server=$!
    # shellcheck disable=SC2034 # teardown ends it
    pids=$server
    run spot-run worker --join unix:j --join-timeout 20s
    [ "$status" = 5 ]
    [[ "$output" == *"the server computes with cuda-bf16-sm80x108-lt130100-cc1300, this device is cuda-bf16-sm90x132"* ]]
    kill $server
}
