#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run serve: calls of tools, forms of the text and penalties, through the death of a worker and of the coordinator.

load eventually
set -o pipefail

setup_file() {
    command -v curl >/dev/null || { export MISSING="no curl here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 1024 --global-batch 2 --steps 5 --save model >train.log
    printf '%s' "{\"chat_template\":\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\"}" >model/tokenizer_config.json
    jq -n '{messages: [{role: "user", content: "go"}], seed: 11, max_tokens: 700, tool_choice: "required",
        repetition_penalty: 1.3, frequency_penalty: 0.4, presence_penalty: 0.2, top_k: 40, min_p: 0.001, logprobs: true,
        tools: [{type: "function", function: {name: "note", parameters: {type: "object", properties: {
            text: {type: "string", minLength: 200, maxLength: 220}, n: {type: "integer", minimum: 0, maximum: 99}},
            required: ["text", "n"], additionalProperties: false}}}]}' >body
    jq '. + {stream: true}' body >stream
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_TEST_TMPDIR" || return 1
    pids=
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

ask() { # PATH [OPTION...]
    curl -sN --max-time 120 --unix-socket s "http://x$1" "${@:2}"
}

serve() { # [OPTION...]
    spot-run serve -q --model "$BATS_FILE_TMPDIR/model" --http unix:s --listen unix:j --lease 20s --tool-format hermes \
        --state st "$@" 2>err 3>&- &
    server=$!
    pids="$pids $server"
}

worker() { # NAME
    ${SPOT_PACE:+env "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$SPOT_PACE" SPOT_PACE_SEND_MS=2} \
        spot-run worker -q --join unix:j --name "$1" --join-timeout 60s 3>&- 2>/dev/null &
    newest=$!
    pids="$pids $newest"
}

ready() {
    eventually 'ask /ready | grep -q ok'
}

# The calls of a whole answer, and of the events of a stream.
calls() {
    jq -c '.choices[0] | [.finish_reason, (.message.tool_calls | map([.id, .function.name, .function.arguments]))]'
}

joined() {
    grep '^data: {' | cut -c7- | jq -cs '[.[].choices[0] | select(.)] | [(map(.finish_reason // empty)[-1]),
        (map(.delta.tool_calls // []) | add | group_by(.index) |
         map([(map(.id // empty) | add), (map(.function.name // empty) | add), (map(.function.arguments // "") | add)]))]'
}

@test "calls of tools are the same through the deaths of a worker and of the coordinator" {
    serve
    worker w1
    ready
    ask /v1/chat/completions -d @"$BATS_FILE_TMPDIR/body" | calls >want
    jq -e '.[1][0][2] | fromjson | (.text | length >= 200) and (.n | . >= 0 and . <= 99)' want
    ask /v1/chat/completions -d @"$BATS_FILE_TMPDIR/stream" >told &
    client=$!
    pids="$pids $client"
    eventually '[ "$(grep -c "^data" told)" -gt 60 ]'
    first=$newest
    worker w2
    kill -9 "$first"
    eventually '[ "$(grep -c "^data" told)" -gt 150 ]'
    kill -9 "$server"
    wait "$client" || true
    id=$(grep -m1 -o '"id":"chatcmpl-[0-9a-f]*' told | cut -c7-)
    last=$(grep '^id: ' told | tail -n 1 | cut -c5-)
    # what was cut off in the middle of an event is told again
    sed -n "0,/^id: $last\$/p" told | sed '$d' >before
    last=$(grep '^id: ' before | tail -n 1 | cut -c5-)
    rm -f s j
    serve --resume
    worker w3
    ready
    ask "/v1/streams/$id" -H "Last-Event-ID: $last" >>before
    joined <before | diff - want
}

@test "each answer is of the form that is asked for, by OpenAI's and by vLLM's name" {
    serve
    worker w1
    ready
    ask /v1/completions -d '{"prompt":"a","max_tokens":9,"guided_choice":["yes","no"]}' | jq -e '.choices[0].text | . == "yes" or . == "no"'
    ask /v1/completions -d '{"prompt":"a","max_tokens":30,"structured_outputs":{"regex":"[a-c]{3}-x"}}' |
        jq -e '.choices[0].text | test("^[a-c]{3}-x$")'
    ask /v1/completions -d '{"prompt":"a","seed":2,"max_tokens":8,"return_token_ids":true}' >one
    jq -e '.choices[0] | (.token_ids | length == 8) and .prompt_token_ids == [97]' one
    stop=$(jq '.choices[0].token_ids[3]' one)
    ask /v1/completions -d "{\"prompt\":\"a\",\"seed\":2,\"max_tokens\":8,\"return_token_ids\":true,\"stop_token_ids\":[$stop]}" >two
    jq -e --slurpfile one one '.choices[0] | .finish_reason == "stop" and (.token_ids | length) <= 4 and
        .token_ids == $one[0].choices[0].token_ids[:(.token_ids | length)]' two
    ask /v1/completions -d "{\"prompt\":\"a\",\"seed\":2,\"max_tokens\":8,\"min_tokens\":8,\"return_token_ids\":true,\"stop_token_ids\":[$stop]}" |
        jq -e ".choices[0] | .finish_reason == \"length\" and (.token_ids | index($stop) | not)"
    ask /v1/responses -d '{"input":"a","max_output_tokens":5}' | jq -e '.object == "response" and .status == "incomplete"'
    [ "$(ask /tokenize -d '{"prompt":"ab"}' | jq -c .tokens)" = "[97,98]" ]
    [ "$(ask /detokenize -d '{"tokens":[97,98]}' | jq -r .prompt)" = ab ]
}

@test "a server without workers lives but is not ready, and tells a page of a listed origin" {
    serve --cors-origin https://a.example --served-model-name one,two
    eventually '[ "$(ask /live -o /dev/null -w "%{http_code}")" = 200 ]'
    [ "$(ask /ready -o /dev/null -w '%{http_code}')" = 503 ]
    [ "$(ask /health -o /dev/null -w '%{http_code}')" = 503 ]
    [ "$(ask /v1/models | jq -c '[.data[].id]')" = '["one","two"]' ]
    ask /v1/models/two | jq -e '.id == "two"'
    ask /version | jq -e .version
    ask /v1/responses -X OPTIONS -i -H 'Origin: https://a.example' -H 'Access-Control-Request-Method: POST' | tr -d '\r' >told
    grep -q '^Access-Control-Allow-Origin: https://a.example$' told
    grep -q '^Access-Control-Allow-Methods: .*POST' told
    run ask /live -i -H 'Origin: https://b.example'
    [[ "$output" != *Allow-Origin* ]]
}
