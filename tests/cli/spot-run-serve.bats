#!/usr/bin/env bats
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

@test "a cache that is too small for all gives the same tokens" {
    spot-run serve -q --model model --batch in.jsonl -o out --max-batch 16 --kv-byte 160KiB
    same out
}

@test "a cache that does not hold a context is refused at the start, with the least that does" {
    # 8 pages of 16 tokens, keys and values of 2 layers of 64 floats: 131072 bytes. Of 2 stages the
    # first has both layers; of 2 members each has half of the heads.
    timeout 60 spot-run serve -q --model model --batch in.jsonl -o out --kv-byte 131072
    same out
    refused() { # least option...
        run timeout 60 spot-run serve --model model --batch in.jsonl -o none "${@:2}"
        [ "$status" = 1 ]
        [[ "$output" == *"at least $1 bytes"* ]]
        [[ "$output" != *"worker local"* ]]
        [ ! -e none ]
    }
    refused 131072 --kv-byte 131071
    refused 131072 --kv-byte 131071 --grid 1x2 --workers 2
    refused 65536 --kv-byte 65535 --grid 1x1x2 --workers 2
    refused 65536 --kv-byte 4KiB --grid 1x2x2 --workers 4
    timeout 60 spot-run serve -q --model model --batch in.jsonl -o out2 --workers 2 --grid 1x1x2 --kv-byte 65536
    same out2
}

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

@test "a coordinator that is killed goes on with --resume" {
    mkdir st
    spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j --state st \
        --max-batch 1 3>&- &
    server=$!
    pids=$server
    worker a
    until grep -qs '"status_code"' out; do
        kill -0 $server || break
        sleep 0.01
    done
    kill -9 $server
    run spot-run serve -q --model model --batch in.jsonl -o out --state st
    [ "$status" = 2 ]
    [[ "$output" == *tokens.log*--resume* ]]
    run spot-run serve -q --model model --batch in.jsonl -o out --state st --resume --dtype q8
    [ "$status" = 3 ]
    [[ "$output" == *tokens.log*"fp32 weights on CPUs"*"q8 weights on CPUs"* ]]
    run spot-run serve -q --model model --batch in.jsonl -o out --state st --resume --dtype bf16
    [ "$status" = 3 ]
    [[ "$output" == *tokens.log*"those of bf16 weights and inputs on CPUs"* ]]
    spot-run serve -q --model model --batch in.jsonl -o out --listen unix:j --state st --resume
    same out
}

@test "a journal of another model, or that is none, is refused by name" {
    mkdir st
    echo "this is no journal at all" >st/tokens.log
    run spot-run serve -q --model model --batch in.jsonl -o out --state st --resume
    [ "$status" = 3 ]
    [[ "$output" == *tokens.log*"not the journal of a server"* ]]
}

@test "a batch's url says what a line asks for, and any other is refused in its answer" {
    body='"body":{"model":"model","prompt":"a","max_tokens":2}'
    {
        echo '{"custom_id":"right","url":"/v1/completions",'"$body}"
        echo '{"custom_id":"embeddings","url":"/v1/embeddings",'"$body}"
        echo '{"custom_id":"nope","url":"/v1/chat/nope",'"$body}"
        echo '{"custom_id":"longer","url":"/v1/completions/",'"$body}"
        echo '{"custom_id":"none",'"$body}"
        echo '{"custom_id":"number","url":7,'"$body}"
        echo '{"custom_id":"chat","url":"/v1/chat/completions",'"$body}"
    } >urls.jsonl
    spot-run serve -q --model model --batch urls.jsonl -o out
    said() { # custom_id status text
        jq -se --arg i "$1" --argjson s "$2" --arg t "$3" 'map(select(.custom_id == $i)) | length == 1 and
            .[0].response.status_code == $s and (.[0].response.body | tostring | contains($t))' out
    }
    said right 200 text_completion
    said embeddings 404 "The url '/v1/embeddings' is not supported"
    said nope 404 "The url '/v1/chat/nope' is not supported"
    said longer 404 "The url '/v1/completions/' is not supported"
    said none 400 "'url' must be a text"
    said number 400 "'url' must be a text"
    said chat 400 prompt # which is no word of a chat's body
}

@test "a line of a batch that can never fit the queue is refused, and the others are answered" {
    {
        echo '{"custom_id":"three","url":"/v1/completions","body":{"model":"model","prompt":["a","b","c"],"max_tokens":2}}'
        echo '{"custom_id":"two","url":"/v1/completions","body":{"model":"model","prompt":"a","n":2,"max_tokens":2}}'
    } >many.jsonl
    timeout 60 spot-run serve -q --model model --batch many.jsonl -o out --queue 2
    jq -se 'map({(.custom_id): .response}) | add | .two.status_code == 200 and .three.status_code == 400 and
        (.three.body.error.message | contains("3 choices: this server takes 2 at most"))' out
}

@test "replicas of stages and tensor groups give the same tokens" {
    spot-run serve -q --model model --batch in.jsonl -o out --workers 2 --grid 1x2
    same out
    spot-run serve -q --model model --batch in.jsonl -o out2 --workers 2 --grid 1x1x2 --max-batch 3
    same out2
    spot-run serve -q --model model --batch in.jsonl -o out3 --workers 5 --grid 1x2x2 --kv-byte 160KiB
    same out3
}

@test "grids that the model cannot be cut into are refused by name" {
    run spot-run serve --model model --batch in.jsonl --grid 1x3
    [ "$status" = 1 ]
    [[ "$output" == *"3 stages of a model of 2 layers"* ]]
    run spot-run serve --model model --batch in.jsonl --grid 1x1x3
    [ "$status" = 1 ]
    [[ "$output" == *"power of two"* ]]
    run spot-run serve --model model --batch in.jsonl --grid 1by2
    [ "$status" = 2 ]
}

# Longer answers, so that faults strike in the middle; one at a time is slow enough.
long_answers() {
    sed 's/"max_tokens":[0-9]*/"max_tokens":110/; s/"n":[0-9]*/"n":1/' in.jsonl >long.jsonl
    spot-run serve -q --model model --batch long.jsonl -o raw --max-batch 1
    answers raw >want.long
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
        sleep 0.05 # so that they join in this order
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

@test "what is left of two replicas becomes one" {
    long_answers
    spot-run serve -q --model model --batch long.jsonl -o out --listen unix:j --max-batch 2 \
        --grid 1x2 --events log 3>&- &
    server=$!
    pids=$server
    for name in a b c d; do
        worker $name
        declare "pid_$name=$!"
        sleep 0.05
    done
    until_answers 1
    kill -9 "$pid_a" "$pid_d"
    wait $server
    answers out | cmp - want.long
}

plan() { # D P M B TIME
    printf '{"schema":"spot.plan/1","kind":"serve","job":"x","time_s":%d,"next":{"D":%d,"P":%d,"M":%d,"B":%d}}\n' \
        "$5" "$1" "$2" "$3" "$4" | spot-run replan --join unix:j - >&2
}

@test "plans change the grid of a server, and no token" {
    for k in 1 2 3 4 5 6; do sed "s/\"custom_id\":\"/&$k-/" in.jsonl; done >more.jsonl
    mv more.jsonl in.jsonl
    long_answers
    spot-run serve -q --model model --batch long.jsonl -o out --listen unix:j --max-batch 2 --events log 3>&- &
    server=$!
    pids=$server
    for name in a b c d; do worker $name; done
    until_answers 1
    plan 1 2 2 2 1
    until_answers 6
    plan 2 1 1 1 2
    until_answers 10
    run plan 1 1 3 1 3
    [[ "$output" == *"power of two"* ]]
    plan 0 0 1 1 4
    sleep 0.3
    n=$(wc -l <out)
    sleep 0.3
    [ "$n" = "$(wc -l <out)" ] && [ "$n" -lt 144 ]
    plan 2 2 1 2 5
    wait $server
    answers out | cmp - want.long
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
