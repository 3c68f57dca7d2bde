#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-run tokenize: text to tokens and back; training on text is training on its tokens.

bats_require_minimum_version 1.5.0
load job

setup() {
    data=$(cd "$BATS_TEST_DIRNAME/../data/bpe" && pwd)
    job_setup
}
teardown() { job_teardown; }

refuses() { # STATUS TEXT ARGUMENTS...
    local want=$1 text=$2
    shift 2
    run -"$want" timeout 60 spot-run "$@"
    [[ "$output" == *"$text"* ]]
}

@test "the ids are those of two other implementations, as u16 and as u32" {
    spot-run tokenize -q --tokenizer "$data" "$data/text.txt" | od -An -v -tu2 -w2 | tr -d ' ' | cmp - "$data/ids.txt"
    spot-run tokenize -q --tokenizer "$data/tokenizer.json" --tokens u32 <"$data/text.txt" |
        od -An -v -tu4 -w4 | tr -d ' ' | cmp - "$data/ids.txt"
    mkdir two && cp "$data/vocab.json" "$data/merges.txt" two
    spot-run tokenize -q --tokenizer two "$data/text.txt" | od -An -v -tu2 -w2 | tr -d ' ' | cmp - "$data/ids.txt"
}

@test "any file comes back, and a separator stands before each" {
    head -c 700000 "$(command -v spot-run)" >binary
    spot-run tokenize --tokenizer "$data" -o t binary 2>count
    [[ "$(cat count)" == "$(($(stat -c %s t) / 2)) tokens of 16 bits" ]]
    spot-run tokenize -q --tokenizer "$data" --decode t | cmp - binary
    printf 'one' >1 && printf 'two' >2
    spot-run tokenize -q --tokenizer "$data" --separator '<|endoftext|>' 1 2 |
        spot-run tokenize -q --tokenizer "$data" --decode --tokens u16 >both
    [ "$(cat both)" = '<|endoftext|>one<|endoftext|>two' ]
}

@test "training on text is training on its tokens, whatever holds them" {
    spot-run tokenize -q --tokenizer "$data" -o t16 corpus
    spot-run tokenize -q --tokenizer "$data" --tokens u32 -o t32 corpus
    common="$MODEL --global-batch 5 --steps 4"
    spot-run train -q --data corpus --tokenizer "$data" $common --events text.log
    spot-run train -q --data t16 --tokens u16 --vocab 700 $common --workers 2 --events t16.log
    # the same job: what one began another goes on with
    spot-run train -q --data t16 --tokens u16 --vocab 700 $MODEL --global-batch 5 --steps 2 --state s --events a.log
    spot-run train -q --data t32 --tokens u32 --vocab 700 $common --state s --resume --events a.log
    for log in text t16 a; do
        jq -r 'select(.event == "committed").loss_hex, select(.event == "done").state_xxh3_128' $log.log >$log.out
    done
    cmp text.out t16.out
    [ "$(tail -n 1 a.out)" = "$(tail -n 1 text.out)" ]
}

@test "what cannot be tokenized is refused by name" {
    refuses 2 "--tokenizer is missing" tokenize corpus
    refuses 4 "cannot open 'absent'" tokenize --tokenizer absent corpus
    refuses 4 "cannot open 'absent'" tokenize --tokenizer "$data" absent
    refuses 2 "has no token '<|none|>'" tokenize --tokenizer "$data" --separator '<|none|>' corpus
    refuses 2 "--tokens bytes cannot hold 700 tokens" tokenize --tokenizer "$data" --tokens bytes corpus
    printf '\1\0\377\377' >foreign
    refuses 3 "foreign: token 1 (byte 2) is 65535" tokenize --tokenizer "$data" --decode foreign
    printf '{"model":{"type":"BPE"' >cut.json
    refuses 3 "cut.json:1:" tokenize --tokenizer cut.json corpus
    refuses 2 "--tokenizer is for text" train --data corpus --steps 1 --tokenizer "$data" --tokens u16
    refuses 3 "has 700 tokens, more than --vocab 699" train --data corpus --steps 1 --tokenizer "$data" --vocab 699
    run -4 bash -c "spot-run tokenize -q --tokenizer '$data' corpus >/dev/full"
}
