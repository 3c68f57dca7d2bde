#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# What the inference engine makes of a model that others wrote, and of one that was trained here.

load job

logits=$BATS_TEST_DIRNAME/../../build/release/tests/logits

setup() {
    job_setup
}

teardown() {
    job_teardown
}

# tier: world # what check has of it: the decoder in double precision of tests/unit/infer_rig.h
@test "transformers computes the same logits and greedy tokens of random models" {
    has torch transformers || skip "no torch and transformers for python3"
    [ -x "$logits" ] || skip "no $logits: make it"
    python3 "$BATS_TEST_DIRNAME/../world/compare_logits.py" "$logits"
}

# sentences that a model learns something about, but not by heart
text() {
    python3 -c '
import random
random.seed(5)
who = "the worker|a coordinator|the replica|one machine|a stage".split("|")
does = "moves|keeps|sends|loses|counts|reads".split("|")
what = "pages|weights|tokens|shards|losses|the journal".split("|")
for i in range(6000):
    print(random.choice(who), random.choice(does), random.randint(1, 99), random.choice(what))
'
}

@test "8 bits cost less than half a percent of a trained model's perplexity" {
    [ -x "$logits" ] || skip "no $logits: make it"
    text >corpus
    for more in "--heads 4" "--arch llama --heads 4 --kv-heads 2 --ffn 176"; do
        rm -rf m
        spot-run train -q --data corpus --layers 2 --width 64 --seq 64 $more --steps 60 --global-batch 8 --lr 6e-3 --save m
        tail -c 8000 corpus | od -An -v -tu1 >tokens
        fp32=$("$logits" m fp32 2 loss <tokens)
        q8=$("$logits" m q8 2 loss <tokens)
        bf16=$("$logits" m bf16 2 loss <tokens)
        echo "$more: loss $fp32, bf16 $bf16, q8 $q8"
        # it has learnt; and perplexities are close
        awk -v a="$fp32" -v b="$q8" -v c="$bf16" 'BEGIN { d = exp(b - a) - 1; e = exp(c - a) - 1
            exit !(a < 2.5 && d < .005 && d > -.005 && e < .005 && e > -.005 && a != b) }'
    done
}

# tier: world
@test "transformers gives the recorded logits, and training, of a tiny model of each family" {
    tiny=$BATS_TEST_DIRNAME/../../build/release/tests/tiny
    # what check has of it: tests/unit/test_infer_kinds.c
    has torch transformers || skip "no torch and transformers for python3"
    [ -x "$tiny" ] || skip "no $tiny: make it"
    cd "$BATS_TEST_DIRNAME/../.."
    for what in logits training; do
        "tests/world/record_$what.py" "$tiny" >"$BATS_TEST_TMPDIR/$what"
    done
    # the last digits may be those of another version
    python3 - "$BATS_TEST_TMPDIR" <<'PY'
import sys
for what, n_key, most in (("logits", 3, 1e-4), ("training", 3, 1e-5)):
    old, new = ([line.split() for line in open(f"{where}/{name}") if line[0] != "#"]
                for where, name in (("tests/data/models", what + ".txt"), (sys.argv[1], what)))
    assert [x[:n_key] for x in old] == [x[:n_key] for x in new]
    for a, b in zip(old, new):
        assert all(abs(float(x) - float(y)) < most * (1 + abs(float(x))) for x, y in zip(a[n_key:], b[n_key:])), a[:n_key]
PY
}

# tier: world # what check has of it: tests/unit/test_gguf.c
@test "a model as GGUF has the bits of the same model as transformers writes it" {
    tiny=$BATS_TEST_DIRNAME/../../build/release/tests/tiny
    has gguf safetensors numpy || skip "no gguf, safetensors and numpy for python3"
    [ -x "$tiny" ] || skip "no $tiny: make it"
    for name in $(cut -d ' ' -f 1 "$BATS_TEST_DIRNAME/../data/models/configs.txt"); do
        mkdir -p "models/$name"
        (to=$PWD/models/$name && cd "$BATS_TEST_DIRNAME/../.." && "$tiny" "$name" "$to")
    done
    python3 "$BATS_TEST_DIRNAME/../world/compare_gguf.py" "$(command -v spot-run)" "$logits" models/*
}
