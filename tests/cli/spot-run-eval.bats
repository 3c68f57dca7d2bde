#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# spot-run eval: the loss of a corpus under a model, whoever computes it.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

# A trained model in m, its state in s, the log in log.
trained() { # ARGUMENTS...
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 20 --lr 3e-3 --state s --save m --events log "$@"
}

value() { jq -r ".$1" <<<"$output"; }

evaluates() { # ARGUMENTS...: the document without what names the source, in $output
    run --separate-stderr spot-run eval --no-provenance "$@"
    [ "$status" -eq 0 ] || { echo "$stderr" >&2; return 1; }
    numbers=$(jq -c 'del(.model, .step)' <<<"$output")
}

@test "across windows the loss of the training data is that of the log, of a whole pass at rate 0" {
    # 20 sequences of 16 and the last target: each is read once in a step of 20
    head -c 321 corpus >whole
    trained
    spot-run train -q --data whole --global-batch 20 --load m --steps 1 --lr 0 --events pass.log
    evaluates --data whole --load m --across
    [ "$(value predicted)" -eq 320 ]
    [ "$(value windows)" -eq 20 ]
    jq -es --argjson loss "$(value loss)" \
        '[.[] | select(.event == "committed")][0].loss | . - $loss | fabs < 1e-6' pass.log
    # and where the steps were, it is near what they said
    evaluates --data corpus --load m
    jq -es --argjson loss "$(value loss)" '[.[] | select(.event == "committed")][-1].loss | . - $loss | fabs < 0.5' log
    # bits per byte of a model of bytes are its loss in bits
    jq -e '.bits_per_byte - .loss / (2 | log) | fabs < 1e-12' <<<"$output"
    jq -e '.perplexity - (.loss | exp) | fabs < 1e-9' <<<"$output"
}

@test "threads, batch and where the weights lie change no bit" {
    trained
    for windows in "" "--stride 5" "--seq 9 --stride 8" --across; do
        evaluates --data corpus --load m $windows --batch 1 --threads 1 -q
        want=$numbers
        evaluates --data corpus --state s $windows --batch 7 --threads 3 -q
        [ "$numbers" = "$want" ]
        evaluates --data corpus --state s --step 20 $windows --batch 64 -q
        [ "$numbers" = "$want" ]
    done
    run ! spot-run eval --data corpus --state s --step 21
    spot-run eval --data corpus --load m --device portable --no-provenance | jq -e '.kernel == "portable"'
}

@test "a Llama, tied, of shorter windows than it was trained with" {
    trained --arch llama --tied
    evaluates --data corpus --load m --seq 7 -q
    want=$numbers
    evaluates --data corpus --state s --seq 7
    [ "$numbers" = "$want" ]
}

@test "text for a tokenizer: its own unless another is named, and bytes are those of the text" {
    data=$BATS_TEST_DIRNAME/../data/bpe
    trained --tokenizer "$data"
    evaluates --data "$data/text.txt" --load m
    want=$numbers
    [ "$(value bytes)" -eq "$(wc -c <"$data/text.txt")" ]
    [ "$(value tokens)" -lt "$(value bytes)" ]
    jq -e '.bits_per_byte - .loss * .tokens / (2 | log) / .bytes | fabs < 1e-12' <<<"$output"
    evaluates --data "$data/text.txt" --state s
    [ "$numbers" = "$want" ]
    # the same as tokens; only a tokenizer knows how long their text was
    spot-run tokenize -q --tokenizer "$data" --tokens u16 -o corpus.u16 "$data/text.txt"
    evaluates --data corpus.u16 --tokens u16 --load m/model.safetensors
    [ "$(jq -c 'del(.bytes, .bits_per_byte)' <<<"$want")" = "$numbers" ]
    for more in "--load m" "--load m/model.safetensors --tokenizer $data"; do
        evaluates --data corpus.u16 --tokens u16 $more
        [ "$numbers" = "$want" ]
    done
}

@test "a damaged generation is left, and said; one that is asked for is not" {
    trained
    spot-run train -q --resume s --steps 25 --events more.log
    want=$(spot-run eval -q --data corpus --load m --no-provenance | jq .loss)
    printf X | dd of=s/gen-000000000025/bundle-0001 bs=1 seek=500 conv=notrunc 2>/dev/null
    run --separate-stderr spot-run eval --data corpus --state s --no-provenance
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"gen-000000000025/bundle-0001' is damaged"*"using the state of step 20"* ]]
    [ "$(value loss)" = "$want" ]
    [ -d s/gen-000000000025 ]
    refuses 3 "is damaged" eval --data corpus --state s --step 25
    refuses 2 "has no state of step 7; it has 25, 20" eval --data corpus --state s --step 7
}

@test "a table for people, a file complete or not at all; what makes no sense is refused" {
    trained
    spot-run eval --data corpus --load m --format table | sed -n 1p | grep '^model .*loss *perplexity *bits_per_byte'
    spot-run eval --data corpus --load m -o out.json
    jq -e '.schema == "spot.eval/1" and (.made_by.inputs | length) == 2' out.json
    refuses 2 "--load or --state is missing" eval --data corpus
    refuses 2 "give only one" eval --data corpus --load m --state s
    refuses 2 "--data is missing" eval --load m
    refuses 2 "--stride 17 is more than the 16 tokens of a window" eval --data corpus --load m --stride 17
    refuses 2 "has 16 positions" eval --data corpus --state s --seq 17
    refuses 2 "json, table or csv, not md" eval --data corpus --load m --format md
    refuses 2 "there is no 'nowhere'" eval --data corpus --state nowhere
    refuses 2 "eval computes on the CPU" eval --data corpus --load m --device cuda
    mkdir empty
    refuses 3 "no job.json" eval --data corpus --state empty
    printf x >one
    refuses 3 "1 tokens in windows of 16" eval --data one --load m
}

# tier: world
@test "transformers computes the same loss, with and without overlap" {
    has torch transformers || skip "no transformers for python3"
    trained
    for stride in 16 5; do
        evaluates --data corpus --load m --stride $stride
        python3 - "$stride" "$(value loss)" <<'PY'
import sys, torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained("m").double()
ids = torch.tensor([list(open("corpus", "rb").read())])
stride, T, n, before, total, count = int(sys.argv[1]), 16, ids.size(1), 0, 0.0, 0
for begin in range(0, n, stride):
    end = min(begin + T, n)
    target = ids[:, begin:end].clone()
    target[:, :-(end - before)] = -100
    with torch.no_grad():
        logits = model(ids[:, begin:end]).logits[0, :-1]
    keep = target[0, 1:] != -100
    total += torch.nn.functional.cross_entropy(logits[keep], target[0, 1:][keep], reduction="sum").item()
    count += int(keep.sum())
    before = end
    if end == n:
        break
assert abs(total / count - float(sys.argv[2])) < 1e-5, (total / count, sys.argv[2])
PY
    done
}

@test "log probabilities of serving are those of the training forward: eval adds up the very numbers" {
    shape="--layers 2 --width 32 --heads 8 --seq 16 --shards 8" # 4 would be usual
    spot-run train -q --data corpus $shape --global-batch 5 --steps 5 --lr 3e-3 --save dir
    jq -e '.spot_shards == 8' dir/config.json
    head -c 15 corpus >line
    jq -n --rawfile text line '{custom_id: "a", url: "/v1/completions",
        body: {prompt: $text, max_tokens: 1, echo: true, logprobs: 1}}' -c >in.jsonl
    for kind in "fma fp32" "fma-bf16 bf16"; do
        rc=0 # 4: a processor without this arithmetic
        spot-run train -n -q --data corpus $shape --steps 1 --device "${kind% *}" >plan || rc=$?
        [ $rc -ne 4 ] || continue
        evaluates --data line --load dir --device "${kind% *}"
        for grid in 1x1x1 1x2x2; do
            rm -f out
            spot-run serve -q --model dir --dtype "${kind#* }" --grid $grid --workers 4 --batch in.jsonl -o out
            # token by token, too
            spot-run eval -q --data line --load dir --device "${kind% *}" --format csv | tail -n +2 | cut -d , -f 3 >losses
            jq -e --slurpfile loss losses '[.response.body.choices[0].logprobs.token_logprobs[1:15][] | -.] == $loss' out
            jq -e --argjson loss "$(value loss)" '.response.body.choices[0].logprobs.token_logprobs[1:15]
                | length == 14 and ([.[] | -.] | add / 14) == $loss' out
        done
    done
}
