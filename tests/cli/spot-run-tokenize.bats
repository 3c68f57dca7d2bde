#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
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

# characters SCHEME STRIP [MORE]: a tokenizer of Llama 2's kind in t.json. SCHEME: of Metaspace, or "prepend".
characters() {
    local mark=$'\u2581' pre normalizer=null strip='' bytes
    bytes=$(for b in $(seq 0 255); do printf ',"<0x%02X>":%d' "$b" $((b + 3)); done)
    [ "$2" = 0 ] || strip=',{"type":"Strip","content":" ","start":1,"stop":0}'
    pre="{\"type\":\"Metaspace\",\"replacement\":\"$mark\",\"prepend_scheme\":\"$1\",\"split\":false}"
    if [ "$1" = prepend ]; then
        pre=null
        normalizer="{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"$mark\"},
            {\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"$mark\"}]}"
    fi
    cat >t.json <<EOF
{"added_tokens":[{"id":1,"content":"<s>","special":true}],"normalizer":$normalizer,"pre_tokenizer":$pre,
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"$mark"},"content":" "},
{"type":"ByteFallback"},{"type":"Fuse"}$strip]},"model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,
"vocab":{"<unk>":0,"<s>":1,"$mark":2${3-$bytes},"a":300,"b":301,"${mark}a":302},"merges":["$mark a"]}}
EOF
}

@test "a tokenizer of characters restores every byte, whatever its file says of spaces" {
    local mark=$'\u2581'
    for scheme in first always never prepend; do
        for strip in 0 1; do
            characters $scheme $strip
            for text in a ' a' '  a' ' ' "$mark" "${mark}a" "a${mark}b" " $mark$mark a" $'\n a' $'\xe2\x96' ''; do
                printf %s "$text" >text
                spot-run tokenize -q --tokenizer t.json text |
                    spot-run tokenize -q --tokenizer t.json --tokens u16 --decode >back
                cmp text back || { echo "$scheme $strip"; false; }
                # several texts, one after the other and with a token before each
                spot-run tokenize -q --tokenizer t.json text text text |
                    spot-run tokenize -q --tokenizer t.json --decode | cmp - <(cat text text text)
                for separator in '<s>' b; do
                    spot-run tokenize -q --tokenizer t.json --separator "$separator" text text |
                        spot-run tokenize -q --tokenizer t.json --decode |
                        cmp - <(printf %s "$separator"; cat text; printf %s "$separator"; cat text)
                done
            done
        done
    done
}

@test "what a tokenizer loses is not made up" {
    characters first 1 '' # no bytes
    printf 'a\303\251' >text
    spot-run tokenize -q --tokenizer t.json -o t text
    spot-run tokenize -q --tokenizer t.json --decode t >back 2>err && false
    [ ! -s back ]
    grep -qF 't: token 1 is 0, the unknown one: its text is lost' err
    sed -i 's/"unk_token":"<unk>"/"unk_token":null/' t.json
    refuses 3 "text: a character has no token, nor its bytes" tokenize --tokenizer t.json text -o t
}
