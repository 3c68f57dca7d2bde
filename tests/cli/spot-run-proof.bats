#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# The proof of an answer: anyone who has the model computes it again, whatever became of the server's workers.

bats_require_minimum_version 1.5.0
load eventually

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 256 --steps 20 --save model >train.log
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    ln -s "$BATS_FILE_TMPDIR/model" .
    pids=
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

server() { # ARGUMENTS...
    spot-run serve -q --model model --http unix:h --linger 10m "$@" 2>>serve.err 3>&- &
    server=$!
    pids="$pids $!"
    eventually '[ "$(curl -s --unix-socket h http://x/live)" = "{\"status\":\"ok\"}" ]'
}

worker() { # NAME: while there is a file `hold`, each of its messages takes its time
    ${SPOT_PACE:+env "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$SPOT_PACE" SPOT_PACE_HOLD=hold} spot-run worker -q --join unix:j --name "$1" --join-timeout 60s 2>>worker.err 3>&- &
    pids="$pids $!"
}

get() { # PATH CURL-ARGUMENT...: the body, and the status as its last line
    local path=$1
    shift
    curl -s --unix-socket h -w '\n%{http_code}\n' "$@" "http://x$path"
}

stream() { # BODY: its events in `events`
    curl -sN --unix-socket h http://x/v1/completions -H 'X-Spot-Worker: 1' -d "$1" >events
}

id() { sed -n 's/^data: {/{/p' events | head -n 1 | jq -r .id; }

proof() { # FILE: of the stream in `events`, once it has ended
    eventually '[ "$(get "/v1/streams/$(id)/proof" | tail -n 1)" = 200 ]'
    get "/v1/streams/$(id)/proof" | sed '$d' >"$1"
}

# says STATUS TEXT ARGUMENTS...
says() {
    local want=$1 text=$2
    shift 2
    run "-$want" spot-run generate --model model "$@"
    [[ "$output" == *"$text"* ]]
}

@test "an answer that outlived a worker and its server is computed again, and equal" {
    [ -n "${SPOT_PACE-}" ] || skip "needs tests/preload/pace.c"
    : >hold
    server --listen unix:j --state st
    worker a
    first=$!
    worker b
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 2 ]'
    stream '{"prompt":["the 7. line","of"],"n":2,"max_tokens":200,"temperature":0.9,"top_k":30,"seed":5,"logprobs":2,
        "presence_penalty":0.1,"logit_bias":{"120":-3},"stop":["xyz"],"ignore_eos":true,"stream":true}' 3>&- &
    asked=$!
    eventually '[ "$(grep -c "^data" events)" -gt 20 ]'
    [ "$(get "/v1/streams/$(id)/proof" | tail -n 1)" = 409 ]
    kill -9 "$first"
    rm hold
    wait $asked
    [ "$(sed -n 's/^data: {/{/p' events | jq -r .spot.worker | sort -u | tr '\n' ' ')" = "a b " ] # both had a part
    proof p
    jq -e '.schema == "spot.proof/1" and .kernel == "fma" and .dtype == "fp32" and .seed == "0000000000000005" and
        (.prompts | length) == 2 and (.choices | length) == 4 and (has("step") | not) and
        all(.choices[]; (.tokens | length) == 200 and .finish == "length" and (.logprobs_xxh3_128 | length) == 32)' p
    says 0 "equal: $(id), 800 tokens, and their log probabilities" --proof p
    spot-run generate --model model --threads 1 --proof - <p | grep -q '^equal'
    # its journal is as good as the server that wrote it
    kill -9 $server
    eventually '! kill -0 $server'
    server --listen unix:j --state st --resume
    proof again
    cmp p again
}

@test "what was changed is found and named: a weight, a token, the seed, the type" {
    server
    stream '{"prompt":"the 5. line","max_tokens":30,"seed":1,"stream":true}'
    proof one
    stream '{"prompt":"the 5. line","max_tokens":30,"seed":2,"stream":true}'
    proof two
    says 0 equal --proof one
    says 0 equal --proof two --device cpu
    says 3 "seed" --proof <(jq '.seed = "0000000000000002"' one)
    says 3 "/choices/0" --proof <(jq '.choices[0].tokens[3] += 1' one)
    says 3 "/prompts/0" --proof <(jq '.prompts[0].tokens[0] = 65' one)
    says 1 "dtype: the proof is of fp32, not of bf16" --proof one --dtype bf16
    # whoever makes the hashes fit still cannot make the model say it
    says 1 "choice 0: token " --proof <(jq --slurpfile other two '.choices = $other[0].choices' one)
    cp -r model/ other
    byte=$(($(wc -c <other/model.safetensors) - 77))
    printf "\\$(printf %o $(($(od -An -tu1 -j $byte -N 1 other/model.safetensors) ^ 1)))" |
        dd of=other/model.safetensors bs=1 seek=$byte conv=notrunc 2>/dev/null
    run -1 spot-run generate --model other --proof one
    [[ "$output" == *"model: the proof is of one with the hash $(jq -r .model_xxh3_128 one)"* ]]
    run -2 spot-run generate --model model --proof one --prompt x
    run -2 spot-run generate --model model --proof one --seed 3
}

@test "bf16 has a proof too; what is not there, not of this client or of another method is refused" {
    echo key >keys
    echo other >>keys
    server --dtype bf16 --api-key-file keys
    stream '{"prompt":"a","max_tokens":5,"stream":true}'
    [ ! -s events ] || run ! grep -q '^data: {"id"' events
    curl -sN --unix-socket h http://x/v1/completions -H 'Authorization: Bearer key' \
        -d '{"prompt":"a","max_tokens":5,"stream":true}' >events
    [ "$(get "/v1/streams/$(id)/proof" | tail -n 1)" = 401 ]
    [ "$(get "/v1/streams/$(id)/proof" -H 'Authorization: Bearer other' | tail -n 1)" = 404 ]
    [ "$(get "/v1/streams/none/proof" -H 'Authorization: Bearer key' | tail -n 1)" = 404 ]
    [ "$(get "/v1/streams/$(id)/proofs" -H 'Authorization: Bearer key' | tail -n 1)" = 404 ]
    [ "$(get "/v1/streams/$(id)/proof" -X DELETE -H 'Authorization: Bearer key' | tail -n 1)" = 405 ]
    get "/v1/streams/$(id)/proof" -H 'Authorization: Bearer key' | sed '$d' >p
    jq -e '.dtype == "bf16"' p
    says 0 equal --proof p
}

@test "the answer of a server that follows a job: who trains that far anew computes it again" {
    [ -n "${SPOT_PACE-}" ] || skip "needs tests/preload/pace.c"
    job="--data $BATS_FILE_TMPDIR/text --layers 2 --width 64 --heads 4 --seq 256 --global-batch 1"
    LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$SPOT_PACE" spot-run train -q $job --steps 100000 --listen unix:t --workers 1 --events log 2>train.err 3>&- &
    trainer=$!
    pids="$pids $trainer"
    eventually 'grep -q committed log'
    server --follow unix:t
    # the model that it began with is of no step
    eventually 'stream "{\"prompt\":\"the 3. line\",\"max_tokens\":8,\"seed\":1,\"logprobs\":0,\"stream\":true}"; grep -q step- events'
    proof p
    kill $trainer
    step=$(jq .step p)
    grep -q "step-$step-" events
    spot-run train -q $job --steps "$step" --save anew --events anew.log
    run -0 spot-run generate --model anew --proof p
    [[ "$output" == "equal: $(id), 8 tokens by the weights of step $step, and their log probabilities" ]]
    says 1 "model: " --proof p
}
