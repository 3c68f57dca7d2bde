#!/usr/bin/env bats
# tier: jobs, lane: clock
# spot-run serve: the tokens of a request are those of the undisturbed run.
# Requests come as a batch, so that no HTTP client is needed.

load serving

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 128 --steps 20 \
        --save model >train.log
    for i in $(seq 24); do
        t=0 n=1 m=40
        [ $((i % 3)) = 0 ] && t=0.9
        [ $((i % 5)) = 0 ] && n=2
        [ $((i % 7)) = 0 ] && m=1
        printf '{"custom_id":"r%d","method":"POST","url":"/v1/completions","body":{"model":"model","prompt":"the %d. line of","max_tokens":%d,"temperature":%s,"seed":%d,"n":%d,"logprobs":2}}\n' \
            "$i" "$i" "$m" "$t" "$i" "$n"
    done >in.jsonl
    spot-run serve -q --model model --batch in.jsonl -o raw.jsonl --max-batch 1
    answers raw.jsonl >want
}

@test "a batch has an answer for each request" {
    [ "$(wc -l <want)" = 24 ]
    [ "$(grep -c '"status_code":200' want)" = 24 ]
}

@test "tokens are the same in company, on two workers" {
    spot-run serve -q --model model --batch in.jsonl -o out --workers 2 --max-batch 16
    same out
}

@test "a cache that does not hold a context is refused at the start, with the least that does" {
    # 8 pages of 16 tokens, keys and values of 2 layers of 64 floats; of 2 members each has half of the heads
    run timeout 60 spot-run serve --model model --batch in.jsonl -o none --kv-byte 65535 --grid 1x1x2 --workers 2
    [ "$status" = 1 ]
    [[ "$output" == *"at least 65536 bytes"* ]]
    [[ "$output" != *"worker local"* ]]
    [ ! -e none ]
}

# tier: check
@test "workers that are killed or get a notice change no token" {
    spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j --max-batch 4 \
        --events log 3>&- &
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

# Longer answers, so that faults strike in the middle; one at a time is slow enough.
long_answers() {
    sed 's/"max_tokens":[0-9]*/"max_tokens":110/; s/"n":[0-9]*/"n":1/' in.jsonl >long.jsonl
    spot-run serve -q --model model --batch long.jsonl -o raw --max-batch 1
    answers raw >want.long
}

# tier: check
@test "a coordinator that is killed goes on with --resume" {
    long_answers
    mkdir st
    spot-run serve -q --model model --batch long.jsonl -o out --listen unix:j --state st \
        --max-batch 1 3>&- &
    server=$!
    pids=$server
    worker a
    until grep -qs '"status_code"' out; do
        kill -0 $server || break
        sleep 0.01
    done
    kill -9 $server
    run spot-run serve -q --model model --batch long.jsonl -o out --state st
    [ "$status" = 2 ]
    [[ "$output" == *tokens.log*--resume* ]]
    run spot-run serve -q --model model --batch long.jsonl -o out --state st --resume --dtype q8
    [ "$status" = 3 ]
    [[ "$output" == *tokens.log*"fp32 weights on CPUs"*"q8 weights on CPUs"* ]]
    run spot-run serve -q --model model --batch long.jsonl -o out --state st --resume --dtype bf16
    [ "$status" = 3 ]
    [[ "$output" == *tokens.log*"continued with bf16 weights and inputs on CPUs"* ]]
    spot-run serve -q --model model --batch long.jsonl -o out --listen unix:j --state st --resume
    answers out | cmp - want.long
}

@test "replicas of stages and tensor groups give the same tokens, in a cache that is too small for all" {
    spot-run serve -q --model model --batch in.jsonl -o out --workers 5 --grid 1x2x2 --kv-byte 160KiB
    same out
}

@test "grids that the model cannot be cut into are refused by name" {
    run spot-run serve --model model --batch in.jsonl --grid 1x3
    [ "$status" = 1 ]
    [[ "$output" == *"3 stages of a model of 2 layers"* ]]
    run spot-run serve --model model --batch in.jsonl --grid 1by2
    [ "$status" = 2 ]
}

until_answers() { # n
    until [ "$(grep -cs '"status_code"' out)" -ge "$1" ]; do
        kill -0 "$server" || break
        sleep 0.01
    done
}

@test "a replica of four loses its leader, then a follower, then gets a notice" {
    long_answers
    spot-run serve -q --model model --batch long.jsonl -o out --listen unix:j --max-batch 2 \
        --grid 1x2x2 --events log 3>&- &
    server=$!
    pids=$server
    for name in a b c d e f; do
        worker $name
        declare "pid_$name=$!"
        eventually "grep -q '\"joined\".*\"name\":\"$name\"' log" # so that they join in this order
    done
    until_answers 1
    kill -9 "$pid_a"
    until_answers 4
    kill -9 "$pid_c"
    until_answers 8
    worker g
    kill -TERM "$pid_b"
    wait $server
    answers out | cmp - want.long
    [ "$(grep -c quiesce log)" -ge 4 ]
}

@test "a model that is not there is refused by name" {
    run spot-run serve --model nothing --batch in.jsonl
    [ "$status" -ne 0 ]
    [[ "$output" == *nothing/config.json* ]]
}

@test "a job that trains takes no replica, and a server no trainer: one worker command is for both" {
    spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j 3>&- &
    server=$!
    pids=$server
    worker a
    wait $server
    same out
}
