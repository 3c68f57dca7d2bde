#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, first
# Generations are written by the members that hold the bundles, each its own, where they see the directory of
# --state; the coordinator writes the manifest last. `relayed_byte` of `durable` is what came by way of it.

bats_require_minimum_version 1.5.0
load job

disk=$BATS_TEST_DIRNAME/../../build/release/tests/disk.so

setup() { job_setup; }
teardown() { job_teardown; }

relayed() { # LOG
    jq -s 'map(select(.event == "durable").relayed_byte // 0) | add // 0' "$1"
}

slow() { # NAME MS: a worker whose files take so long a call
    SPOT_DISK_MS=$2 LD_PRELOAD=$disk worker "$1"
}

# A generation is under way: a member writes a bundle; its step in $writing
midway() {
    eventually 'ls st/gen-*.tmp/bundle-* >/dev/null'
    writing=$(ls -d st/gen-*.tmp | sed 's/.*gen-0*\([0-9]*\)\..*/\1/' | tail -n 1)
}

# resumes_right [ARGUMENTS]: the directory st goes on to a few steps more than log has, as if nothing had been
resumes_right() {
    local steps=$(($(jq -s 'map(select(.event == "committed").step) | max' log) + 5))
    timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps $steps --state st --resume \
        --workers 1 --events log "$@" 2>>log.err
    same_as log $steps
    ! ls -d st/gen-*.tmp 2>/dev/null
}

@test "members write their bundles, and what they wrote is resumed with the same bits" {
    train log --steps 1000000 --grid 2x2 --state st --durable-every 0.05s
    for name in a b c d; do worker $name; done
    eventually "grep -q '\"formed\".*\"D\":2,\"P\":2,' log"
    seen log durable 4
    [ "$(relayed log)" -eq 0 ] # at the end a member that is slow may send what was to be written
    kill -TERM $train
    wait $train || true
    [ "$(ls st/gen-*/bundle-* | wc -l)" -eq 8 ] # of two generations
    run ! ls st/gen-*/nonce
    resumes_right
}

# tier: long
@test "the same files come from members and from the coordinator" {
    train log --steps 1000000 --state one --durable-every 1h
    worker a
    at_step log 5
    kill -TERM $train
    wait $train || true
    [ "$(relayed log)" -eq 0 ]
    step=$(basename one/gen-*)
    step=$((10#${step#gen-}))
    : >full
    train two.log --steps $step --state two --listen unix:k
    SPOT_DISK_FULL=$PWD/full LD_PRELOAD=$disk spot-run worker -q --join unix:k --join-timeout 60s
    wait $train
    [ "$(relayed two.log)" -gt 0 ]
    diff -r one/gen-* two/$(basename one/gen-*)
}

@test "who does not see the directory sends its bundles; the others write theirs" {
    unshare -rm true 2>/dev/null || skip "no namespaces here"
    train log --steps 1000000 --grid 1x2 --state st --durable-every 0.05s
    eventually '[ -d st ]'
    worker a
    background unshare -rm sh -c 'mount -t tmpfs none st && exec spot-run worker -q --join unix:j --join-timeout 60s' 2>>workers.err
    eventually "grep -q '\"formed\".*\"P\":2,' log"
    seen log durable $(($(events log durable) + 3))
    stops_right log
    all=$(cat "$(ls -d st/gen-* | tail -n 1)"/bundle-* | wc -c)
    jq -es "map(select(.event == \"durable\"))[-1].relayed_byte | . > 0 and . < $all" log
    resumes_right
}

@test "a disk that is full for members alone: the coordinator writes it, and members say why, once" {
    train log --steps 1000000 --grid 2x1 --state st --durable-every 0.05s
    : >full
    for name in a b; do
        background env SPOT_DISK_FULL=$PWD/full LD_PRELOAD="$disk" spot-run worker --join unix:j --join-timeout 60s --name $name 2>$name.err
    done
    seen log durable 3
    [ "$(relayed log)" -gt 0 ]
    for name in a b; do
        [ "$(grep -c "to the coordinator to be made durable: .*No space left on device" $name.err)" -eq 1 ]
    done
    stops_right log
    resumes_right
}

# calm STEPS: the hash, and a file, of an undisturbed job of so many steps
calm() {
    timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps "$1" --workers 1 --events calm --save calm.safetensors
}

@test "the last state is written by its holders, and the coordinator makes hash and file of what is there" {
    calm 7
    train log --steps 7 --grid 2x2 --state st --save m.safetensors
    for name in a b c d; do worker $name; done
    wait $train
    [ "$(relayed log)" -eq 0 ]
    [ "$(tail -n 1 log | jq -r .state_xxh3_128)" = "$(tail -n 1 calm | jq -r .state_xxh3_128)" ]
    cmp m.safetensors calm.safetensors
}

@test "a disk that is full at the end: hash and file come from the members, and the disk is told of" {
    calm 7
    : >full
    background env SPOT_DISK_FULL=$PWD/full LD_PRELOAD="$disk" timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 \
        --listen unix:j --lease 20s --events log --steps 7 --grid 1x2 --state st --save m.safetensors --durable-every 1h 2>log.err
    train=$pid
    for name in a b; do SPOT_DISK_FULL=$PWD/full LD_PRELOAD=$disk worker $name; done
    status=0
    wait $train || status=$?
    [ $status -eq 4 ]
    grep -q 'No space left on device' log.err
    [ "$(tail -n 1 log | jq -r .state_xxh3_128)" = "$(tail -n 1 calm | jq -r .state_xxh3_128)" ]
    cmp m.safetensors calm.safetensors
}

@test "a disk that is full for all in the middle of a generation: said, and the job goes on to the next" {
    background env SPOT_DISK_FULL=$PWD/full LD_PRELOAD="$disk${SPOT_PACE:+:$SPOT_PACE}" timeout 300 spot-run train --data corpus $MODEL --global-batch 5 \
        --listen unix:j --lease 20s --events log --steps 1000000 --grid 2x1 --state st --durable-every 0.2s 2>log.err
    train=$pid
    for name in a b; do SPOT_DISK_FULL=$PWD/full SPOT_DISK_MS=100 LD_PRELOAD=$disk worker $name; done
    seen log durable 1
    midway
    : >full
    eventually 'grep -q "No space left on device; training continues" log.err'
    more_steps log
    rm full
    seen log durable $(($(events log durable) + 2))
    stops_right log
    resumes_right
}

@test "a writer is killed: its generation is no more, the next one comes" {
    train log --steps 1000000 --grid 2x1 --state st --durable-every 0.3s
    worker a
    slow b 300
    b=$pid
    eventually "grep -q '\"formed\".*\"D\":2,' log"
    eventually '[ "$(ls -d st/gen-*.tmp/bundle-* | wc -l)" -ge 1 ]'
    kill -9 $b $(pgrep -P $b || true)
    seen log lost 1
    seen log durable $(($(events log durable) + 2))
    stops_right log
    resumes_right
}

# tier: long
@test "a generation outlives the epoch that it was asked for in" {
    train log --steps 1000000 --grid 2x1 --state st --durable-every 0.3s
    slow a 1000
    at_step log 2
    midway
    worker b
    eventually "grep -q '\"formed\".*\"D\":2,' log"
    eventually "grep -q '\"durable\".*\"step\":$writing,' log"
    stops_right log
    resumes_right
}

@test "half a generation of a coordinator that was killed is no state, and is taken away" {
    train log --steps 1000000 --state st --durable-every 0.3s
    slow a 400
    seen log durable 1
    midway
    kill_job
    [ -z "$(ls st/gen-*.tmp/manifest.json 2>/dev/null)" ]
    resumes_right
}

@test "another job in the directory of one that is dead: late writers of the first change nothing" {
    train log --steps 1000000 --state st --durable-every 0.1s
    slow a 1000
    midway
    refuses 4 "is in use by another job" train -q --data corpus $MODEL --global-batch 5 --steps 5 --state st --seed 2
    kill -9 $(pgrep -P $train) $train
    wait $train || true
    rm -f log
    timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 300 --state st --seed 2 --workers 1 \
        --durable-every 0.05s --events log
    same_as log 300 --seed 2
    kill -TERM $pid
    wait $pid || true
    run ! ls -d st/gen-*.tmp
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 305 --state st --seed 2 --resume --workers 1 --events log
    same_as log 305 --seed 2
}

@test "a member that is lost while the last state is committed does not keep the job from its end" {
    background env SPOT_DISK_NAME=/manifest SPOT_DISK_MS=3000 LD_PRELOAD="$disk" timeout 150 spot-run train -q --data corpus $MODEL \
        --global-batch 5 --listen unix:j --lease 20s --events log --grid 2x1 --steps 30 --state st --durable-every 1h 2>log.err
    train=$pid
    SPOT_DISK_MS=800 LD_PRELOAD=$disk worker a # what it would write once more takes longer than the commit
    worker b
    b=$pid
    eventually 'ls st/gen-000000000030.*tmp/manifest*' # all of it is there
    kill -9 $b
    seen log formed 2 # while it is committed
    [ "$(events log durable)" -eq 0 ]
    eventually "! kill -0 $train"
    wait $train
    same_as log 30
}

@test "a second signal ends a job whose disk hangs" {
    background env SPOT_DISK_NAME=/manifest SPOT_DISK_MS=1000000 LD_PRELOAD="$disk" timeout 150 spot-run train -q --data corpus $MODEL \
        --global-batch 5 --listen unix:j --lease 20s --events log --steps 1000000 --state st --durable-every 0.1s 2>log.err
    train=$pid
    worker a
    eventually 'ls st/gen-*.tmp/manifest*'
    coordinator=$(pgrep -P $train)
    kill -TERM $coordinator
    eventually "! kill -TERM $coordinator"
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
}
