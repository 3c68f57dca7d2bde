#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --load: a training continues from the weights of a file, on any grid.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

@test "load, then save: the same file; load on any grid: the same bits" {
    common="$MODEL --global-batch 5"
    spot-run train -q --data corpus $common --steps 3 --save a.safetensors --events a.log
    spot-run train -q --data corpus $common --steps 1 --lr 0 --load a.safetensors --save b.safetensors --events b.log
    cmp a.safetensors b.safetensors
    for grid in 1x1 2x2 1x3; do
        spot-run train -q --data corpus $common --steps 4 --load a.safetensors --workers 4 --grid $grid --events $grid.log
        outcome $grid.log >$grid
    done
    cmp 1x1 2x2
    cmp 1x1 1x3
    # and it is not the start that the seed gives
    spot-run train -q --data corpus $common --steps 4 --events seed.log
    outcome seed.log >seed
    run cmp 1x1 seed
    [ "$status" -eq 1 ]
}

@test "a loaded job survives a killed worker, and goes on with the same start only" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --save a.safetensors --events a.log
    train b.log --steps 1000000 --load a.safetensors --state s
    worker one
    worker two
    eventually '[ "$(events b.log joined)" -ge 2 ]'
    at_step b.log 3
    kill -9 $pid
    at_step b.log $(($(events b.log committed) + 5))
    stops_right b.log --load a.safetensors
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --seed 2 --save b.safetensors --events c.log
    refuses 2 "another job: --load with other contents" train -q --resume s --load b.safetensors
}

@test "the saved file is one that the safetensors library reads" {
    python3 -c 'import safetensors.numpy' 2>/dev/null || skip "no safetensors for python3"
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --save a.safetensors --events a.log
    python3 - <<'PY'
import safetensors.numpy
t = safetensors.numpy.load_file("a.safetensors")
assert t["transformer.wte.weight"].shape == (256, 32), t["transformer.wte.weight"].shape
assert t["transformer.h.1.attn.c_attn.weight"].shape == (32, 96)
t["transformer.wte.weight"] *= 2
safetensors.numpy.save_file(t, "b.safetensors")
PY
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --load b.safetensors --events b.log
    jq -es 'last.event == "done"' b.log
}

@test "config.json beside the weights says the shape; an option that says otherwise is refused" {
    llama="--arch llama --layers 2 --width 32 --heads 4 --kv-heads 2 --ffn 88 --rope-theta 5e4 --tied"
    common="train -q --data corpus --seq 16 --shards 2 --global-batch 5"
    mkdir m
    spot-run $common $llama --steps 3 --save m/model.safetensors --events a.log
    spot-run $common $llama --steps 2 --load m --events want.log
    cat >m/config.json <<-END
	{ "model_type": "llama", "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2,
	  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "rope_theta": 5e4,
	  "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "rope_scaling": null, "hidden_act": "silu" }
	END
    spot-run $common --steps 2 --load m --events got.log
    cmp <(outcome want.log) <(outcome got.log)
    rm -f got.log
    spot-run $common $llama --steps 2 --load m --events got.log
    cmp <(outcome want.log) <(outcome got.log)
    refuses 2 "--ffn 90, but m/config.json says 88" $common --steps 2 --load m --ffn 90
    refuses 2 "--arch gpt2, but m/config.json says llama" $common --steps 2 --load m --arch gpt2
    refuses 2 "--rope-theta 10000, but m/config.json says 50000" $common --steps 2 --load m --rope-theta 1e4
    sed -i s/1e-05/1e-03/ m/config.json # another epsilon: other bits, also of a job that is resumed
    spot-run $common --steps 2 --load m --events other.log
    run -1 cmp <(outcome want.log) <(outcome other.log)
    spot-run $common --steps 1 --load m --state s --events one.log
    spot-run train -q --steps 2 --resume s --events more.log
    cmp <(outcome other.log | tail -n 1) <(jq -r 'select(.event == "done").state_xxh3_128' more.log)
    sed -i 's/null/{ "rope_type": "dynamic", "factor": 2 }/' m/config.json
    refuses 3 "m/config.json:3:71: /rope_scaling: " $common --steps 2 --load m
}

@test "T is that of the directory; a longer one is refused, a shorter one is said" {
    common="train -q --data corpus --global-batch 5"
    seq 1 3000 >corpus
    for more in "--heads 2" "--arch llama --heads 4"; do
        rm -f a.log
        rm -rf m && spot-run $common --layers 1 --width 32 --seq 80 $more --steps 1 --save m --events a.log
        rm -f got.log
        spot-run $common --load m --steps 2 --events got.log
        rm -f want.log
        spot-run $common --load m --steps 2 --seq 80 --events want.log 2>said
        cmp <(outcome want.log) <(outcome got.log)
        [ ! -s said ]
        rm -f short.log
        spot-run ${common/-q/} --load m --steps 2 --seq 64 --events short.log 2>said
        run cmp <(outcome short.log) <(outcome got.log)
        [ "$status" -eq 1 ]
        grep -q -- "--seq 64: sequences are shorter than the 80 positions of m/config.json" said
        refuses 2 "--seq 81, but m/config.json says that it has 80 positions" $common --load m --steps 2 --seq 81
    done
}

@test "--save DIR is a model of its own: config, weights, tokenizer; it loads as it was" {
    common="train -q --data corpus --global-batch 5 --layers 1 --width 32 --heads 2 --seq 16"
    data=$BATS_TEST_DIRNAME/../data/bpe
    spot-run $common --steps 3 --save m/ --events a.log
    [ "$(ls m | xargs)" = "config.json model.safetensors" ]
    jq -e '.model_type == "gpt2" and .architectures == ["GPT2LMHeadModel"] and .n_positions == 16 and .n_layer == 1 and
        .vocab_size == 256 and .spot_tokens == "bytes" and .tie_word_embeddings == false and .eos_token_id == null and
        .activation_function == "gelu_new" and .attn_pdrop == 0' m/config.json
    rm -f a.log
    spot-run $common --steps 3 --save a.safetensors --events a.log
    cmp m/model.safetensors a.safetensors
    spot-run $common --steps 1 --lr 0 --load m --save again --events b.log
    diff -r m again
    # one that is there, and a tokenizer of one file or of two
    mkdir two t1 t2
    cp "$data"/vocab.json "$data"/merges.txt two
    echo '{"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"}' >two/tokenizer_config.json
    spot-run $common --tokenizer "$data" --steps 1 --save t1 --events c.log
    spot-run $common --tokenizer two --steps 1 --save t2 --events d.log
    cmp t1/tokenizer.json "$data/tokenizer.json"
    cmp t2/tokenizer_config.json two/tokenizer_config.json
    jq -e '.model_max_length == 16 and .tokenizer_class == "PreTrainedTokenizerFast"' t1/tokenizer_config.json
    jq -e 'has("spot_tokens") | not' t1/config.json
    for dir in t1 t2; do
        spot-run tokenize -q --tokenizer $dir "$data/text.txt" | od -An -v -tu2 -w2 | tr -d ' ' | cmp - "$data/ids.txt"
    done
    # what another reader would take in its place is not left beside it
    echo '{}' >t1/model.safetensors.index.json
    refuses 2 "'t1' holds a model in several files" $common --steps 1000000 --save t1
    rm -r t1
    # nothing stays of a directory that was made for a job that failed
    refuses 2 "there is no 's' to resume from" $common --steps 1 --save new --state s --resume
    [ ! -e new ]
}

# reads DIR LOSS [TOKENIZER]: transformers computes that loss over the corpus with the saved model
reads() {
    python3 - "$@" <<'PY'
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer

model, info = AutoModelForCausalLM.from_pretrained(sys.argv[1], output_loading_info=True)
assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
model.eval()
if len(sys.argv) > 3:
    ids = AutoTokenizer.from_pretrained(sys.argv[1])(open("corpus").read())["input_ids"]
else:
    ids = list(open("corpus", "rb").read())
n = (len(ids) - 1) // 16
x = torch.tensor([ids[i * 16:i * 16 + 17] for i in range(n)])
with torch.no_grad():
    logits = model(x[:, :-1]).logits.double()
loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
assert abs(float(loss) - float(sys.argv[2])) < 1e-5, (float(loss), sys.argv[2])
PY
}

# tier: world
@test "transformers takes what --save DIR wrote, and computes the same loss" {
    has torch transformers || skip "no torch and transformers for python3"
    data=$BATS_TEST_DIRNAME/../data/bpe
    seq 1 300 >corpus
    for more in "--heads 2" "--heads 2 --tied" "--heads 2 --tokenizer $data" \
        "--arch llama --heads 4 --kv-heads 2 --ffn 88 --rope-theta 5e4" "--arch llama --heads 4 --tied"; do
        tokenizer=
        n=$(stat -c %s corpus)
        if [[ "$more" == *tokenizer* ]]; then
            tokenizer="--tokenizer $data"
            n=$(($(spot-run tokenize -q $tokenizer corpus | wc -c) / 2))
        fi
        rm -f a.log
        rm -rf m && spot-run train -q --data corpus --layers 2 --width 32 --seq 16 $more --steps 30 --lr 1e-2 \
            --save m --events a.log
        # one step over all sequences tells the loss of the weights that it begins with
        rm -f b.log
        spot-run train -q --data corpus $tokenizer --load m --steps 1 --global-batch $(((n - 1) / 16)) --events b.log
        reads m "$(jq 'select(.event == "committed").loss' b.log)" $tokenizer
    done
}

@test "the metadata of saved weights say the shape; an option that says otherwise is refused" {
    llama="--arch llama --heads 4 --kv-heads 2 --ffn 88 --rope-theta 5e4 --tied"
    common="train -q --data corpus --global-batch 5"
    for more in "--heads 2" "$llama"; do
        shape="--layers 2 --width 32 --seq 16 $more"
        rm -rf m && mkdir m
        rm -f a.log
        spot-run $common $shape --steps 3 --save m/model.safetensors --events a.log
        rm -f want.log
        spot-run $common $shape --steps 2 --load m/model.safetensors --events want.log
        for from in m m/model.safetensors; do
            rm -f got.log
            spot-run $common --steps 2 --load $from --events got.log
            cmp <(outcome want.log) <(outcome got.log)
        done
        refuses 2 "--layers 3, but m/model.safetensors says 2" $common --steps 2 --load m --layers 3
        refuses 2 "--vocab 300, but m/model.safetensors says 256" $common --steps 2 --load m --vocab 300
    done
    refuses 2 "--rope-theta 10000, but m/model.safetensors says 50000" $common --steps 2 --load m --rope-theta 1e4
    LC_ALL=C sed -i 's/num_attention_heads\\":4/num_attention_heads\\":5/' m/model.safetensors
    refuses 3 "m/model.safetensors: __metadata__:1:" $common --steps 2 --load m
}

@test "weights of another shape are refused with the tensor, status 3" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --save a.safetensors --events a.log
    LC_ALL=C sed 's/"config":/"xonfig":/' a.safetensors >mute # says no shape
    run -3 spot-run train -q --data corpus --layers 1 --width 32 --heads 2 --seq 16 --shards 2 --steps 1 --load mute
    [[ "$output" == *"transformer.h.1."*"the model has no such tensor"* ]]
    run -3 spot-run train -q --data corpus $MODEL --vocab 300 --steps 1 --load mute
    [[ "$output" == *"wte.weight:"* ]]
}

@test "weights that are no finite numbers are refused with tensor and element, status 3" {
    common="train -q --data corpus $MODEL --global-batch 5 --steps 1"
    spot-run $common --save a.safetensors --events a.log
    end=$(stat -c %s a.safetensors)
    for bits in '\000\000\300\177 nan' '\000\000\200\377 -inf'; do
        # shellcheck disable=SC2059
        printf "${bits% *}" | dd of=a.safetensors bs=1 seek=$((end - 4)) conv=notrunc status=none
        refuses 3 "a.safetensors: lm_head.weight: element 8191 is ${bits#* }, expected a finite number" \
            $common --load a.safetensors
    done
}
