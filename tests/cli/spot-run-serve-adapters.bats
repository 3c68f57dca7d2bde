#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# shellcheck disable=SC2154 # serving.bash and errors.bash set newest and error
# spot-run serve: adapters of a model by their names, and embeddings: the same in any company, on any grid, through kills.

bats_require_minimum_version 1.5.0
load serving

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    tools=$(dirname "$(command -v spot-run)")/../tests
    [ -x "$tools/tiny" ] || skip "no tests/tiny: make check builds it"
    for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
    spot-run train -q --data text --arch llama --layers 2 --width 64 --heads 4 --seq 256 --steps 5 \
        --save model >train.log
    for i in 1 2; do
        mkdir a$i
        "$tools/tiny" model a$i "$(cat model/config.json)" $i
    done
    # texts that begin alike, for the model and two adapters, and vectors of them
    awk -v seed="${SPOT_SEED:-3}" 'BEGIN {
        srand(seed)
        split("model one two", name, " ")
        for (i = 1; i <= 45; i++) {
            text = substr("all of them begin with these words, for longer than a page or two of the cache is, and then with ", 1, 100 * rand())
            for (k = int(80 * rand()); k > 0; k--) text = text substr("abcdefghijk ", 1 + int(12 * rand()), 1)
            printf "{\"custom_id\":\"r%d\",\"url\":\"/v1/%s\",\"body\":{\"model\":\"%s\",", i, i % 3 ? "completions" : "embeddings", name[1 + int(3 * rand())]
            if (i % 3)
                printf "\"prompt\":\"%sx\",\"max_tokens\":%d,\"temperature\":%s,\"seed\":%d,\"n\":%d,\"logprobs\":2,\"ignore_eos\":true}}\n", text, 1 + int(60 * rand()), i % 2 ? "0.9" : "0", i, 1 + int(3 * rand())
            else
                printf "\"input\":[\"%sy\",\"%s\",\"short\"],\"pooling\":\"%s\"}}\n", text, text "z, and so on", i % 2 ? "mean" : "last"
        }
    }' >in.jsonl
    spot-run serve -q --model model --lora one=a1,two=a2 --batch in.jsonl -o raw.jsonl --max-batch 1 --prefix-cache 0
    answers raw.jsonl >want
    [ "$(grep -c '"status_code":200' want)" = 45 ]
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    ln -s "$BATS_FILE_TMPDIR"/{model,a1,a2,in.jsonl,want} .
    pids=
}

serve() { spot-run serve -q --model model --lora one=a1,two=a2 --batch in.jsonl "$@"; }

@test "adapters change what is said, and vectors have length 1" {
    of() { jq -c "select(.response.body.model == \"$1\") | .response.body.data[0].embedding" "$BATS_FILE_TMPDIR/raw.jsonl"; }
    for name in model one two; do
        of $name | jq -es 'map(select(. != null) | map(. * .) | add | . > 0.99999 and . < 1.00001) | length > 0 and all'
    done
    sed 's/"model":"one"/"model":"two"/' in.jsonl >other.jsonl
    spot-run serve -q --model model --lora one=a1,two=a2 --batch other.jsonl -o out
    sed -i 's/"model":"two"/"model":"one"/g' out
    answers out | cmp -s - <(sed 's/"model":"two"/"model":"one"/g' want) && false
    # two names of the same adapter say the same
    spot-run serve -q --model model --lora one=a2,two=a2 --batch in.jsonl -o same1
    spot-run serve -q --model model --lora one=a2,two=a2 --batch other.jsonl -o same2
    sed -i 's/"model":"two"/"model":"one"/g' same1 same2
    answers same1 | cmp - <(answers same2)
}

@test "what each gets is the same in company and from the cache" {
    serve -o out --max-batch 32
    same out
    serve -o out2 --max-batch 1
    same out2
    [ "$(jq -s 'map(.response.body.usage.prompt_tokens_details.cached_tokens // 0) | add' out2)" -gt 100 ]
    serve -o out3 --max-batch 8 --workers 2 --kv-byte 400KiB
    same out3
    rm want
    for dtype in bf16 q8; do
        serve -o $dtype --max-batch 1 --prefix-cache 0 --dtype $dtype
        answers $dtype >want
        serve -o $dtype-again --max-batch 16 --dtype $dtype --workers 2
        same $dtype-again
    done
}

@test "in stages and tensor groups" {
    serve -o out --workers 2 --grid 1x2 --max-batch 32
    same out
    serve -o out2 --workers 4 --grid 1x2x2 --max-batch 16
    same out2
}

# strike OPTIONS: kills and notices while a batch is computed
strike() { strike_server serve "$@"; }

@test "kills and notices change nothing" {
    strike
    strike --kv-buddies
    strike --grid 1x2
}

@test "another version of the model is rolled out with its adapters, and clients see them by name" {
    spot-run train -q --data "$BATS_FILE_TMPDIR/text" --load model --seq 256 --steps 1 --save next
    spot-run serve -q --model model --lora one=a1,two=a2 --http unix:h --listen unix:j --workers 1 3>&- &
    pids=$!
    ask() { curl -s --unix-socket h "http://localhost/v1/$1" "${@:2}"; }
    eventually 'curl -sf --unix-socket h http://localhost/ready >/dev/null'
    ask models | jq -e '.data | map([.id, .parent]) == [["model", null], ["one", "model"], ["two", "model"]]'
    ask models/two | jq -e '.parent == "model"'
    ask models/three | jq -e '.error.code == "model_not_found"'
    spot-run roll -q --join unix:j next
    eventually 'spot-run status --join unix:j --format json | jq -e ".rollout.state == \"done\""'
    for name in one model; do
        ask completions -d "{\"model\":\"$name\",\"prompt\":\"a\",\"max_tokens\":30,\"temperature\":0,\"logprobs\":0,\"ignore_eos\":true}" >$name.json
        jq -e --arg name $name '.model == $name and .usage.completion_tokens == 30' $name.json
    done
    cmp -s <(jq .choices[0].logprobs.token_logprobs one.json) <(jq .choices[0].logprobs.token_logprobs model.json) && false
    ask embeddings -d '{"input":[[97,98],[99]],"encoding_format":"base64","dimensions":6}' |
        jq -e '.data | map(.embedding | length) == [32, 32]'
    ask embeddings -d '{"input":"a","pooling":"max"}' | jq -e '.error.param == "pooling"'
    ask embeddings -d '{"input":[]}' | jq -e '.error.param == "input"'
    ask embeddings -d '{"input":"a","dimensions":65}' | jq -e '.error.param == "dimensions"'
    ask embeddings -d '{"input":"a","model":"three"}' | jq -e '.error.code == "model_not_found"'
    ask embeddings -d "{\"input\":[$(seq -s, 200 | sed 's/[0-9]*,/7,/g'),$(seq -s, 200 | sed 's/[0-9]*,/7,/g')]}" |
        jq -e '.error.code == "context_length_exceeded"'
}

@test "what is no adapter of the model is refused" {
    load errors
    fails 2 usage spot-run serve --model model --lora a1 --batch in.jsonl
    fails 2 usage spot-run serve --model model --lora x=a1,x=a2 --batch in.jsonl
    fails 2 usage spot-run serve --model model --lora model=a1 --batch in.jsonl
    fails 2 usage spot-run serve --model model --lora x=a1 --device cuda --batch in.jsonl
    cp -rL a1 bad
    jq '.use_dora = true' a1/adapter_config.json >bad/adapter_config.json
    fails 3 data.value spot-run serve --model model --lora x=bad --batch in.jsonl
    jq -e '.file == "bad/adapter_config.json" and .pointer == "/use_dora"' <<<"$error"
}
