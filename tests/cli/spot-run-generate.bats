#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run generate: a text or a chat from a directory, the same that a server answers.

load eventually
set -o pipefail

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 256 --steps 20 --save plain >train.log
    cp -r plain model
    printf '%s' "{\"chat_template\":\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\"}" >model/tokenizer_config.json
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
}

served() { # URL BODY: the answer of a server
    printf '{"custom_id":"a","method":"POST","url":"%s","body":%s}\n' "$1" "$2" >"$BATS_TEST_TMPDIR/in"
    spot-run serve -q --model model --batch "$BATS_TEST_TMPDIR/in" 2>/dev/null | jq -r ".response.body.choices[0] | .message.content // .text"
}

@test "the answer is that of a server" {
    spot-run generate --model model --prompt "the 5." --system brief --max-tokens 24 --seed 7 >"$BATS_TEST_TMPDIR/got"
    served /v1/chat/completions '{"messages":[{"role":"system","content":"brief"},{"role":"user","content":"the 5."}],"max_tokens":24,"seed":7}' |
        cmp - "$BATS_TEST_TMPDIR/got"
    printf 'the 5. line' | spot-run generate --model model --plain --max-tokens 24 --temperature 0 --threads 1 >"$BATS_TEST_TMPDIR/got"
    served /v1/completions '{"prompt":"the 5. line","max_tokens":24,"temperature":0}' | cmp - "$BATS_TEST_TMPDIR/got"
}

@test "json is the answer of the API, text comes without a template, and what is wrong is named" {
    spot-run generate --model model --prompt hi --max-tokens 3 --format json |
        jq -e '.object == "chat.completion" and .usage.completion_tokens == 3'
    spot-run generate --model plain --prompt "the 5." --max-tokens 3 --format json | jq -e '.object == "text_completion"'
    run spot-run generate --model plain --prompt hi --system brief
    [ "$status" = 3 ]
    run spot-run generate --model model --prompt hi --max-tokens 1000
    [ "$status" = 3 ]
    [[ "$output" == *"context length"* ]]
    run spot-run generate --model nothing --prompt hi
    [ "$status" != 0 ]
    run spot-run generate --model model --plain --system brief --prompt hi
    [ "$status" = 2 ]
}

@test "a chat on a terminal answers each line and ends with the input" {
    command -v script >/dev/null || skip "no script here"
    # script passes each line on, and then the end of the input
    printf 'hello\n\nyou\n' | timeout 60 script -qec "spot-run generate --model model --max-tokens 4 --seed 1" "$BATS_TEST_TMPDIR/log" >"$BATS_TEST_TMPDIR/out"
    [ "$(grep -o '> ' "$BATS_TEST_TMPDIR/out" | wc -l)" -ge 3 ]
    # the turns before are in the cache
    printf 'hello\n\nyou there\n' |
        timeout 60 script -qec "spot-run generate --model model --max-tokens 4 --seed 1 --format json" "$BATS_TEST_TMPDIR/log" |
        grep -o '"cached_tokens":[0-9]*' >"$BATS_TEST_TMPDIR/found"
    [ "$(sed -n '1s/.*://p' "$BATS_TEST_TMPDIR/found")" = 0 ]
    [ "$(sed -n '2s/.*://p' "$BATS_TEST_TMPDIR/found")" -ge 32 ]
}
