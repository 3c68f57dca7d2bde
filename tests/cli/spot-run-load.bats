#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-run train --load: a training goes on from the weights of a file, on any grid.

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
    run spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1000000 --state s --resume --events c.log
    [ "$status" -ne 0 ]
    [[ "$output" == *"another job"* ]]
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
    llama="--arch llama --layers 2 --width 32 --heads 4 --kv-heads 2 --ffn 88 --rope-theta 5e4 --norm-eps 1e-6 --tied"
    common="train -q --data corpus --seq 16 --shards 2 --global-batch 5"
    mkdir m
    spot-run $common $llama --steps 3 --save m/model.safetensors --events a.log
    spot-run $common $llama --steps 2 --load m --events want.log
    cat >m/config.json <<-END
	{ "model_type": "llama", "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2,
	  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "rope_theta": 5e4,
	  "rms_norm_eps": 1e-06, "tie_word_embeddings": true, "rope_scaling": null, "hidden_act": "silu" }
	END
    spot-run $common --steps 2 --load m --events got.log
    cmp <(outcome want.log) <(outcome got.log)
    spot-run $common $llama --steps 2 --load m --events got.log
    cmp <(outcome want.log) <(outcome got.log)
    refuses 2 "--ffn 90, but m/config.json says 88" $common --steps 2 --load m --ffn 90
    refuses 2 "--arch gpt2, but m/config.json says llama" $common --steps 2 --load m --arch gpt2
    refuses 2 "--rope-theta 10000, but m/config.json says 50000" $common --steps 2 --load m --rope-theta 1e4
    refuses 2 "--norm-eps 1e-05, but m/config.json says 1e-06" $common --steps 2 --load m --norm-eps 1e-5
    sed -i 's/null/{ "rope_type": "llama3" }/' m/config.json
    refuses 3 "m/config.json:3:71: /rope_scaling: scaled rotary positions ('llama3')" $common --steps 2 --load m
}

@test "the metadata of saved weights say the shape; an option that says otherwise is refused" {
    llama="--arch llama --heads 4 --kv-heads 2 --ffn 88 --rope-theta 5e4 --norm-eps 1e-6 --tied"
    common="train -q --data corpus --global-batch 5"
    for more in "--heads 2" "$llama"; do
        shape="--layers 2 --width 32 --seq 16 $more"
        rm -rf m && mkdir m
        spot-run $common $shape --steps 3 --save m/model.safetensors --events a.log
        spot-run $common $shape --steps 2 --load m/model.safetensors --events want.log
        for from in m m/model.safetensors; do
            spot-run $common --steps 2 --load $from --events got.log
            cmp <(outcome want.log) <(outcome got.log)
        done
        refuses 2 "--layers 3, but m/model.safetensors says 2" $common --steps 2 --load m --layers 3
        refuses 2 "--vocab 300, but m/model.safetensors says 256" $common --steps 2 --load m --vocab 300
    done
    refuses 2 "--rope-theta 10000, but m/model.safetensors says 50000" $common --steps 2 --load m --rope-theta 1e4
    LC_ALL=C sed -i 's/"num_attention_heads":"4"/"num_attention_heads":"5"/' m/model.safetensors
    refuses 3 "m/model.safetensors: __metadata__:1:" $common --steps 2 --load m
}

@test "weights of another shape are refused with the tensor, status 3" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --save a.safetensors --events a.log
    LC_ALL=C sed s/tie_word_embeddings/xxx_word_embeddings/ a.safetensors >mute # says no shape
    run -3 spot-run train -q --data corpus --layers 1 --width 32 --heads 2 --seq 16 --shards 2 --steps 1 --load mute
    [[ "$output" == *"transformer.h.1."*"the model has no such tensor"* ]]
    run -3 spot-run train -q --data corpus $MODEL --vocab 300 --steps 1 --load mute
    [[ "$output" == *"wte.weight: shape 2D [256, 32], expected [300, 32]"* ]]
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
