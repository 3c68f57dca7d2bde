#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run export: the weights of a job, durable or running, as a model.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

trained() { # ARGUMENTS...
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 20 --state s --save m --events log "$@"
}

nothing_half_done() { [ -z "$(find . -maxdepth 1 -name '*.tmp')" ]; }

@test "a state is the model that --save writes, bit for bit; GPT-2, Llama, with a tokenizer" {
    for more in "" "--arch llama --tied" "--tokenizer $BATS_TEST_DIRNAME/../data/bpe"; do
        rm -rf s m e log
        trained $more
        spot-run export --state s -o e/ 2>said
        diff -r m e
        grep -q "^step 20  f32  e" said
        nothing_half_done
    done
}

@test "an earlier step is the model of that step" {
    trained
    spot-run train -q --resume s --steps 25 --events more.log
    spot-run export -q --state s --step 20 -o e
    diff -r m e
    spot-run export -q --state s -o last
    run ! cmp e/model.safetensors last/model.safetensors
    refuses 2 "has no state of step 3; it has 25, 20" export --state s --step 3 -o none
    [ ! -e none ]
}

@test "bf16 is each number rounded to the nearest, and loads" {
    trained
    spot-run export -q --state s --dtype bf16 -o e
    jq -e '.torch_dtype == "bfloat16"' e/config.json
    python3 - <<'PY'
import json, struct
def tensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__")
    return {k: (v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in head.items()}
wide, narrow = tensors("m/model.safetensors"), tensors("e/model.safetensors")
assert wide.keys() == narrow.keys()
for name, (dtype, shape, raw) in wide.items():
    assert dtype == "F32" and narrow[name][:2] == ("BF16", shape), name
    for w, b in zip(struct.iter_unpack("<f", raw), struct.iter_unpack("<H", narrow[name][2])):
        at = [struct.unpack("<f", struct.pack("<I", (b[0] + d) << 16))[0] for d in ((-1, 0, 1) if 0 < b[0] & 0x7fff else (0, 1))]
        assert all(abs(w[0] - at[1 if len(at) == 3 else 0]) <= abs(w[0] - x) for x in at), (name, w, b)
PY
    spot-run eval -q --data corpus --load e
}

@test "a running job gives the exact weights of a step that it has come to, and keeps its bits" {
    train log --steps 100000 --durable-every 1h
    worker one
    worker two
    at_step log 5
    spot-run export --join unix:j -o e 2>said
    step=$(awk '{print $2}' said)
    [ "$step" -ge 5 ]
    spot-run export --join unix:j --dtype bf16 -q -o narrow
    at_step log $(($(events log committed) + 3))
    stops_right log
    rm -f alone.log
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps "$step" --save m --events alone.log
    diff -r m e
}

@test "a damaged generation is left, and said; when nothing sound is left nothing is written" {
    trained
    spot-run train -q --resume s --steps 25 --events more.log
    truncate -s 100 s/gen-000000000025/manifest.json
    run --separate-stderr spot-run export --state s -o e
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"gen-000000000025/manifest.json"*"using the state of step 20"* ]]
    diff -r m e
    rm s/gen-000000000020/bundle-0002
    refuses 3 "no valid generation is left in 's'" export --state s -o none
    [ ! -e none ]
    nothing_half_done
}

@test "a directory that is there is refused without --force; other files in it stay" {
    trained
    mkdir empty full
    echo mine >full/README.md
    spot-run export -q --state s -o empty
    diff -r m empty
    refuses 2 "'full' already exists" export --state s -o full
    [ "$(ls full)" = README.md ]
    spot-run export -q --state s -o full --force
    cmp m/model.safetensors full/model.safetensors
    grep -q mine full/README.md
    : >file
    refuses 2 "'file' already exists" export --state s -o file
    refuses 2 "-o is missing" export --state s
    refuses 2 "--state or --join is missing" export -o e
    refuses 2 "--dtype must be f32 or bf16" export --state s -o e --dtype f16
    refuses 4 "" export --join unix:nobody -o e
    [ ! -e e ]
}

@test "a tokenizer that is gone is named; another place can be told" {
    cp -r "$BATS_TEST_DIRNAME/../data/bpe" t
    trained --tokenizer t
    mv t elsewhere
    refuses 4 "--tokenizer names another place" export --state s -o e
    [ ! -e e ]
    spot-run export -q --state s -o e --tokenizer elsewhere
    diff -r m e
}

# tier: world
@test "from_pretrained of transformers takes it, of either type" {
    has torch transformers || skip "no transformers for python3"
    trained
    for dtype in f32 bf16; do
        spot-run export -q --state s --dtype $dtype -o $dtype
        python3 - $dtype <<'PY'
import sys, torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], torch_dtype="auto")
assert model.dtype == {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
PY
    done
}
