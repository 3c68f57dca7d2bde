#!/usr/bin/env bats
# tier: jobs, lane: wait, first
# spot-run roll: another version of the model, replica by replica; a request ends on the version it
# began on, whatever dies. And what the plan says of who takes how much.

bats_require_minimum_version 1.5.0

load eventually

setup_file() {
    command -v curl >/dev/null || { export MISSING="no curl here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
    for v in 1 2; do
        spot-run train -q --data text --layers $((2 + 2 * v)) --width 64 --heads 4 --seq 1024 --global-batch 2 \
            --steps 4 --seed "$v" --save "v$v" >train.log
        for i in $(seq 6); do
            jq -cn --arg i "$i" '{custom_id: $i, url: "/v1/completions", body: {prompt: "line \($i)",
                max_tokens: 900, temperature: 0.8, seed: ($i | tonumber), model: "v1"}}'
        done >in.jsonl
        ln -sfn "v$v" model # the id is the name of the directory
        sed 's/"v1"/"model"/' in.jsonl >in
        rm -f out
        spot-run serve -q --model model --batch in -o out --max-batch 8
        jq -rs 'sort_by(.custom_id)[] | .response.body.choices[0].text | @json' out >"want.$v"
    done
    ! cmp -s want.1 want.2 || return 1
    jq -c .body in.jsonl >bodies
    jq -c '.stream = true' bodies >streams
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_TEST_TMPDIR" || return 1
    cp -r "$BATS_FILE_TMPDIR"/{v1,v2} .
    ln -s "$BATS_FILE_TMPDIR"/{want.1,want.2,bodies,streams} .
    pids=
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

serve() { # options
    spot-run serve -q --model v1 --http unix:h --listen unix:j "$@" 2>>serve.err 3>&- &
    server=$!
    pids="$pids $!"
}

worker() { # name; a token takes milliseconds, on any machine, and many of them while there is a file `hold`
    ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE" SPOT_PACE_SEND_MS=2 SPOT_PACE_HOLD=hold} \
        spot-run worker -q --join unix:j --name "$1" --join-timeout 60s 2>>worker.err 3>&- &
    declare -g "pid_$1=$!"
    pids="$pids $!"
}

ask() { # line
    sed -n "$1p" bodies | curl -s --max-time 100 --unix-socket h http://x/v1/completions -d @- | jq -r '.choices[0].text | @json'
}

# all of them at once, each in a file
ask_all() {
    asked=
    for i in $(seq 6); do
        ask "$i" >"got.$i" 3>&- &
        asked="$asked $!"
    done
}

await_all() { # version
    # shellcheck disable=SC2086
    wait $asked
    cat got.? >got
    cmp got "want.$1"
}

status() {
    spot-run status --join unix:j --format json --join-timeout 60s | jq -r "$1"
}

until_status() { # condition
    for _ in $(seq 1200); do
        [ "$(status "$1")" != true ] || return 0
        sleep 0.05
    done
    status .
    return 1
}

@test "requests end on the version they began on, and new ones get the new as soon as a replica has it" {
    serve
    worker a
    worker b
    until_status '.replicas == 2'
    : >hold
    ask_all
    until_status '.running == 6 and .tokens > 20'
    spot-run roll -q --join unix:j v2 3>&- &
    roll=$!
    until_status '.rollout.replicas == 1 and .rollout.requests_left > 0'
    rm hold
    [ "$(ask 3)" = "$(sed -n 3p want.2)" ]
    await_all 1
    wait "$roll"
    until_status '.rollout.state == "done" and .replicas == 2 and (.model | endswith("/v2"))'
    ask_all
    await_all 2
    [ "$(curl -s --unix-socket h http://x/v1/models | jq -r '.data[0].id')" = v1 ]
}

@test "what cannot be served is refused, and nothing changes" {
    serve --grid 1x2
    worker a
    worker b
    until_status '.replicas == 1'
    run -1 spot-run roll --join unix:j nowhere
    [[ $output == *"refused: "*nowhere* ]]
    truncate -s 1000 v2/model.safetensors
    run -1 spot-run roll --join unix:j v2
    [[ $output == *"refused: "*v2* ]]
    sed 's/"spot_tokens": *"bytes"/"spot_tokens": "words"/' -i v2/config.json
    run -1 spot-run roll --join unix:j v2
    [ "$(ask 2)" = "$(sed -n 2p want.1)" ]
    until_status '.rollout.state == "refused"'
    run -2 spot-run roll --join unix:j
    run -0 spot-run roll --join unix:j v1
}

@test "who has twice the weight in the plan takes twice the load" {
    echo '{"schema":"spot.plan/1","kind":"serve","job":"x","time_s":1,"next":{"D":2,"P":1,"M":1,"B":16},"weights":[{"node":"b","weight":2}]}' >plan.json
    serve --plan plan.json
    worker a
    worker b
    until_status '.replicas == 2'
    # one who is silent for long loses requests to the other: then the next six tell
    for _ in 1 2 3 4 5 6 7 8; do
        ask_all
        until is=$(status '"\(.running): \(.members | map("\(.name) \(.load)") | sort | join(", "))"') && [ "$is" = "6: a 2, b 4" ]; do
            # shellcheck disable=SC2086
            kill -0 $asked 2>/dev/null || break
        done
        await_all 1
        [ "$is" != "6: a 2, b 4" ] || break
    done
    [ "$is" = "6: a 2, b 4" ]
    run -3 spot-run replan --join unix:j - <<<'{"schema":"spot.plan/1","kind":"serve","job":"x","time_s":2,"next":{"D":2,"P":1},"weights":[{"weight":0}]}'
    [[ $output == *weights/0/weight* ]]
}

job() { # options: a job that does not end by itself
    ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE" SPOT_PACE_SEND_MS=2} \
        spot-run train -q --data text --layers 2 --width 32 --heads 4 --global-batch 2 --steps 1000000 \
        --listen unix:t --workers 1 "$@" 2>>job.err 3>&- &
    job=$!
    pids="$pids $!"
}

# the weights that answer now: step and hash, or nothing
served() {
    sed -n 1p bodies | jq -c '.max_tokens = 1' | curl -s --max-time 100 --unix-socket h http://x/v1/completions -d @- |
        jq -r '.system_fingerprint // ""'
}

until_other() { # than these
    for _ in $(seq 1200); do
        now=$(served)
        [ -z "$now" ] || [ "$now" = "$1" ] || return 0
        sleep 0.05
    done
    return 1
}

@test "a job that is followed: its weights as they were, step by step; it dies, and may come back" {
    ln -s "$BATS_FILE_TMPDIR/text" .
    spot-run train -q --data text --layers 2 --width 32 --heads 4 --seq 32 --global-batch 2 --steps 1 --save v0
    jq -c '.model = "v0" | .prompt = "line"' "$BATS_FILE_TMPDIR/bodies" >own
    ln -sf own bodies
    : >serve.err
    spot-run serve --model v0 --http unix:h --listen unix:j --workers 2 --follow unix:t,3 2>>serve.err 3>&- &
    server=$!
    pids="$pids $!"
    job --seq 32
    until_other ""
    until_other "$now"
    # a step is a function of its number: whoever computes it has these weights
    sed -n 1p bodies | jq -c '. + {max_tokens: 1, logprobs: 5}' >body
    curl -s --unix-socket h http://x/v1/completions -d @body >got
    step=$(jq -r '.system_fingerprint | capture("^step-(?<n>[0-9]+)-").n' got)
    spot-run train -q --data text --layers 2 --width 32 --heads 4 --seq 32 --global-batch 2 --steps "$step" --save again
    jq -c '{custom_id: "1", url: "/v1/completions", body: (.model = "again")}' body >in
    rm -f out
    spot-run serve -q --model again --batch in -o out
    [ "$(jq -c '.choices[0]' got)" = "$(jq -c '.response.body.choices[0]' out)" ]
    kill -9 "$job"
    wait "$job" || true
    job --seq 16 # not this model
    eventually "grep -q 'trains another model' serve.err"
    last=$(served)
    kill -9 "$job"
    wait "$job" || true
    job --seq 32
    until_other "$last"
    kill -STOP "$job" # who asks it waits 5 s for an answer, not 120
    begin=$SECONDS
    kill "$server"
    eventually "! kill -0 $server"
    [ $((SECONDS - begin)) -lt 90 ]
}
