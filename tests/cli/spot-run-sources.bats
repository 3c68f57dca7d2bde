#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# State that no member holds: weights from a seed are made, those of --load and --state are read, by
# who needs them, and go over the network only where a worker does not see the files. `relayed_byte`
# of `formed` is what the coordinator sent.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

first() { # LOG EVENT KEY: of the first epoch that formed; 0 if it is not told
    jq -s "map(select(.event == \"$2\"))[0].$3 // 0" "$1"
}

relayed() { # LOG
    jq -s 'map(select(.event == "formed").relayed_byte // 0) | add' "$1"
}

four() { # LOG ARGUMENTS: four workers, a grid of all of them, some steps
    train "$1" --steps 1000000 --grid 2x2 "${@:2}"
    for name in a b c d; do worker $name; done
    eventually "grep -q '\"formed\".*\"D\":2,\"P\":2,' $1"
    more_steps "$1"
}

weights() {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --save a.safetensors --events made.log
}

@test "the first formation of a seed moves nothing, whoever is there" {
    four log
    [ "$(first log migrate moved_byte)" -eq 0 ]
    [ "$(first log migrate transfers)" -gt 0 ]
    [ "$(relayed log)" -eq 0 ]
    stops_right log
}

@test "nor does that of --load: each reads its bundles of the file" {
    weights
    four log --load a.safetensors
    [ "$(first log migrate moved_byte)" -eq 0 ]
    [ "$(first log migrate transfers)" -gt 0 ]
    [ "$(relayed log)" -eq 0 ]
    stops_right log --load a.safetensors
}

@test "a Llama with tied ends is read the same way" {
    llama="--arch llama --layers 2 --width 32 --heads 4 --kv-heads 2 --tied"
    spot-run train -q --data corpus --seq 16 --shards 2 --global-batch 5 $llama --steps 2 --save a.safetensors --events made.log
    four log $llama --load a.safetensors
    [ "$(relayed log)" -eq 0 ]
    stops_right log $llama --load a.safetensors
}

@test "weights that a worker does not see come from the coordinator, with the same bits" {
    weights
    cp a.safetensors b.safetensors
    train log --steps 1000000 --load b.safetensors --grid 2x2
    eventually '[ -S j ]'
    rm b.safetensors # the coordinator has it open
    for name in a b c d; do worker $name; done
    eventually "grep -q '\"formed\".*\"D\":2,\"P\":2,' log"
    more_steps log
    [ "$(first log migrate moved_byte)" -eq 0 ]
    [ "$(first log formed relayed_byte)" -gt 0 ]
    stops_right log --load a.safetensors
}

@test "other weights under that name are not taken for those of the job" {
    weights
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --seed 9 --save other --events o.log
    cp a.safetensors b.safetensors
    train log --steps 1000000 --load b.safetensors
    eventually '[ -S j ]'
    mv other/model.safetensors b.safetensors 2>/dev/null || mv other b.safetensors
    worker a
    more_steps log
    [ "$(first log formed relayed_byte)" -gt 0 ]
    stops_right log --load a.safetensors
}

stopped() { # a job of which only the directory st is left
    train log --steps 1000000 --state st --workers 2
    at_step log 5
    kill -TERM $train
    wait $train || true
}

@test "a resume: each reads its bundles of the directory" {
    stopped
    train log --steps 1000000 --state st --resume --grid 2x2
    for name in a b c d; do worker $name; done
    eventually "grep -q '\"formed\".*\"D\":2,\"P\":2,' log"
    more_steps log
    jq -es 'map(select(.event == "migrate" and .restored_byte > 0)) | length >= 1' log
    [ "$(relayed log)" -eq 0 ]
    stops_right log
}

@test "a worker on a host without the directory is sent what it lacks" {
    unshare -rm true 2>/dev/null || skip "no namespaces here"
    stopped
    train log --steps 1000000 --state st --resume
    background unshare -rm sh -c 'mount -t tmpfs none st && exec spot-run worker -q --join unix:j --join-timeout 60s' 2>>workers.err
    more_steps log
    [ "$(relayed log)" -gt 0 ]
    stops_right log
}

@test "a directory of that name with another state is not taken for the job's" {
    unshare -rm true 2>/dev/null || skip "no namespaces here"
    stopped
    gen=$(ls -d st/gen-* | tail -n 1)
    cp -r st twin
    for b in twin/gen-*/bundle-*; do printf x | dd of="$b" bs=1 seek=40 conv=notrunc status=none; done
    train log --steps 1000000 --state st --resume
    background unshare -rm sh -c 'mount --bind twin st && exec spot-run worker -q --join unix:j --join-timeout 60s' 2>>workers.err
    more_steps log
    [ "$(relayed log)" -gt 0 ]
    [ -d $gen ]
    stops_right log
}

@test "the last holder dies: what is read again is the newest durable step, with the same bits" {
    train log --steps 1000000 --state st --durable-every 0.05s
    worker a
    seen log durable 2
    kill -9 $pid
    worker b
    seen log lost 1
    more_steps log
    # which may be the last step that was committed: then nothing is rolled back
    jq -es '(map(.event == "lost") | index(true)) as $n | (.[$n:] | map(.event == "formed") | index(true) + $n) as $m
        | (.[:$m] | map(select(.event == "durable").step) | max) == .[$m].step' log
    [ "$(relayed log)" -eq 0 ]
    stops_right log
}
