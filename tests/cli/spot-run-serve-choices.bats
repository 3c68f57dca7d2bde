#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run serve: choices and requests that begin alike have what is alike in the cache once, and nobody can tell.

load serving

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 256 --steps 5 \
        --save model >train.log
    # 1 to 8 choices, prompts of 1 to 180 bytes, of which many begin alike, and two in one request
    awk -v seed="${SPOT_SEED:-3}" 'BEGIN {
        srand(seed)
        for (i = 1; i <= 30; i++) {
            text = substr("all of them begin with these words, for longer than a page or two of the cache is, and then with ", 1, 100 * rand())
            for (k = int(80 * rand()); k > 0; k--) text = text substr("abcdefghijk ", 1 + int(12 * rand()), 1)
            prompt = i % 5 ? "\"" text "x\"" : "[\"" text "y\",\"" text "y\"]"
            printf "{\"custom_id\":\"r%d\",\"url\":\"/v1/completions\",\"body\":{\"model\":\"model\",\"prompt\":%s,\"max_tokens\":%d,\"temperature\":%s,\"seed\":%d,\"n\":%d,\"logprobs\":%d,\"ignore_eos\":true}}\n",
                i, prompt, 1 + int(60 * rand()), i % 3 ? "0.9" : "0", i, 1 + int(8 * rand()), i % 4
        }
    }' >in.jsonl
    spot-run serve -q --model model --batch in.jsonl -o raw.jsonl --max-batch 1 --prefix-cache 0 # each choice alone
    answers raw.jsonl >want
    [ "$(grep -c '"status_code":200' want)" = 30 ]
}

@test "choices that share pages get the tokens of choices alone" {
    spot-run serve -q --model model --batch in.jsonl -o out --max-batch 32
    same out
}

@test "what was computed before is found, and nobody can tell" {
    spot-run serve -q --model model --batch in.jsonl -o out --max-batch 1
    same out
    found() { jq -s 'map(.response.body.usage.prompt_tokens_details.cached_tokens) | add' "$1"; }
    [ "$(found out)" -gt 400 ]
    spot-run serve -q --model model --batch in.jsonl -o out2 --max-batch 1 --prefix-cache 40KiB # of two pages
    same out2
    [ "$(found out2)" -lt "$(found out)" ]
    [ "$(found "$BATS_FILE_TMPDIR/raw.jsonl")" = 0 ]
    rm want # a link to that of all
    local dtype
    for dtype in bf16 q8; do
        spot-run serve -q --model model --batch in.jsonl -o "$dtype" --max-batch 1 --prefix-cache 0 --dtype $dtype
        answers "$dtype" >want
        spot-run serve -q --model model --batch in.jsonl -o "$dtype-again" --max-batch 8 --dtype $dtype --workers 2
        same "$dtype-again"
    done
}

@test "answers that nobody reads keep nobody waiting" {
    mkfifo answers
    exec 5<>answers
    spot-run serve -q --model model --batch in.jsonl --listen unix:j >answers 3>&- 5>&- &
    pids=$!
    worker a
    # all is computed, which is more than a pipe holds, and the server answers
    eventually "spot-run status --join unix:j --format json | jq -e '.requests == 30 and .running == 0 and .queued == 0'"
    cat answers >out 5>&- &
    exec 5>&-
    wait ${pids%% *}
    wait $!
    [ "$(wc -c <out)" -gt 65536 ]
    same out
}

@test "in stages and tensor groups all members share them" {
    spot-run serve -q --model model --batch in.jsonl -o out --workers 2 --grid 1x2 --max-batch 32
    same out
    spot-run serve -q --model model --batch in.jsonl -o out2 --workers 4 --grid 1x2x2 --max-batch 16
    same out2
}

@test "in a cache that is too small for all" {
    # a context takes 256 tokens, 2 layers, 2 x 64 floats
    spot-run serve -q --model model --batch in.jsonl -o out --max-batch 32 --kv-byte 256KiB
    same out
    spot-run serve -q --model model --batch in.jsonl -o out2 --max-batch 32 --kv-byte 400KiB --workers 2 --grid 1x2
    same out2
}

# strike OPTIONS: kills and notices while choices share pages; three workers or more are there
strike() {
    strike_server spot-run serve -q --model model --batch in.jsonl "$@"
    spot-run report --format csv log >report.csv
    grep -q '^requests,"\?30 ' report.csv
}

@test "kills and notices change no token, pages move for each choice" {
    strike
    strike --kv-buddies
    strike --grid 1x2
}
