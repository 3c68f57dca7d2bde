#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Models of today's families: trained on any grid and through kills, saved for transformers, served through a storm.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    top=$BATS_TEST_DIRNAME/../..
    tests=$(dirname "$(command -v spot-run)")/../tests
    [ -x "$tests/tiny" ] || skip "no tests/tiny: make check builds it"
}
teardown() { job_teardown; }

# model FAMILY: a directory of that name with a random model of bytes, which are its tokens
model() {
    mkdir "$1"
    (cd "$top" && "$tests/tiny" "$1" "$BATS_TEST_TMPDIR/$1" "$(awk -v f="$1" '$1 == f { print $2 }' tests/data/models/configs.txt |
        jq -c '.vocab_size = 256 | .max_position_embeddings = 256 | .spot_tokens = "bytes"')")
}

TRAIN="--seq 16 --global-batch 5 --shards 2"

calm() { # FAMILY STEPS: one worker
    spot-run train -q --data corpus --load "$1" $TRAIN --steps "$2" --events calm.log
    outcome calm.log
}

grids() { # FAMILY D P M...
    model "$1"
    calm "$1" 4 >want
    for grid in "${@:2}"; do
        IFS=x read -r D P M <<<"$grid"
        spot-run train -q --data corpus --load "$1" $TRAIN --steps 4 --workers $((D * P * M)) --grid "$grid" --events "$grid.log"
        jq -es "map(select(.event == \"formed\")) | last | .D == $D and .P == $P" "$grid.log"
        outcome "$grid.log" | cmp want -
    done
}

@test "Qwen 3 has the bits of one worker on any grid" { grids qwen3 2x1x1 1x3x1 1x1x2 2x2x1 1x2x2; }
@test "Gemma 3 has the bits of one worker on any grid" { grids gemma3 3x1x1 1x4x1 2x1x2 1x2x2; }
@test "OLMo 2, whose norms go over all heads, has the bits of one worker on any grid" { grids olmo2 1x1x2 2x2x1 1x2x2; }

# killed FAMILY: a worker dies, then all of the job, which is resumed from its note alone
killed() {
    model "$1"
    background timeout 300 ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE"} spot-run train -q --data corpus --load "$1" $TRAIN \
        --listen unix:j --lease 20s --events log --steps 1000000 --state s --durable-every 0.2s
    train=$pid
    one_dies_then_all
    steps=$(($(wc -l <got) + 6))
    calm "$1" $steps >want
    head -n $((steps - 6)) want | cmp got -
    jq -e --arg f "$2" '.config | fromjson | .model_type == $f' s/job.json
    spot-run train -q --resume s --steps $steps --workers 2 --grid 1x2 --events more.log
    jq -r 'select(.event == "done").state_xxh3_128' more.log >got
    tail -n 1 want | cmp got -
}

@test "Qwen 3: a killed worker and a resumed job, the undisturbed story" { killed qwen3 qwen3; }
@test "Gemma 3: a killed worker and a resumed job, the undisturbed story" { killed gemma3 gemma3_text; }

# tier: world # what check has of it: tests/unit/test_stage_recorded.c, tests/unit/test_hf_config.c
@test "transformers loads what was trained of each family, and has our logits" {
    has torch transformers || skip "no torch and transformers for python3"
    for family in gpt2-erf llama3 llama-biases mistral qwen2 qwen3 smollm3 phi3 gemma2 gemma3 olmo2 granite; do
        model $family
        spot-run train -q --data corpus --load $family $TRAIN --steps 3 --save $family-tuned --events $family.log
        seq 16 >tokens
        "$tests/logits" $family-tuned fp32 1 rows <tokens >ours
        python3 - $family-tuned ours <<'PY'
import sys
import torch
import transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager")
with torch.no_grad():
    want = model.eval()(torch.arange(1, 17)[None], use_cache=False).logits[0]
got = torch.frombuffer(bytearray(open(sys.argv[2], "rb").read()), dtype=torch.float32).reshape(want.shape)
assert (want - got).abs().max() < 1e-4, (want - got).abs().max()
PY
    done
}

# --- served ---

ASK="n=12 in=30 out=150"

serve() { # OPTIONS: no function around it, $! is the server
    spot-run serve -q --model model --http unix:h --listen unix:j --lease 20s --linger 20s --grace 5s "$@" 3>&- &
    server=$!
    echo $server >>pids
    eventually '"$tests/load" unix:h n=1 in=1 out=1 plain=1 clients=1 >/dev/null 2>&1'
}

paced() { # NAME
    background ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE" SPOT_PACE_SEND_MS=10} \
        spot-run worker -q --join unix:j --name "$1" --join-timeout 60s
}

busy() { eventually 'spot-run status --join unix:j --format json | jq -e ".running > 0"'; }

stormed() { # FAMILY: a kill, a notice and a coordinator's death change none of 1,375 tokens
    model "$1"
    mv "$1" model
    serve --workers 1 --max-batch 1
    "$tests/load" unix:h $ASK clients=1 answers=calm
    kill $server
    wait $server
    sort calm >want
    mkdir st
    paced a
    a=$pid
    paced b
    b=$pid
    serve --state st --events log
    "$tests/load" unix:h $ASK clients=7 answers=got 3>&- &
    client=$!
    echo $client >>pids
    busy
    kill -9 $a
    paced c
    eventually '[ "$(events log lost)" -ge 1 ]'
    busy
    kill -TERM $b
    eventually '[ "$(events log notice)" -ge 1 ]'
    busy
    kill -9 $server
    wait $server || true
    serve --state st --events log --resume
    wait $client
    sort got | cmp - want
    kill $server
    wait $server
    spot-run report --format json log | jq -e '.coordinator_restarts == 1 and .kills >= 1 and .notices >= 1'
}

@test "Qwen 3 is served through a storm" { stormed qwen3; }
@test "Gemma 3 is served through a storm" { stormed gemma3; }
@test "Phi 3 is served through a storm" { stormed phi3; }
@test "Granite is served through a storm" { stormed granite; }
@test "OLMo 2 is served through a storm" { stormed olmo2; }
@test "Qwen 3 with experts is served through a storm" { stormed qwen3-moe; }
