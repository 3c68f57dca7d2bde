#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: world, lane: wait
# examples/recipes: trainers of others on nodes with directories of their own, two of which are killed and one told to leave. What is
# saved by then is not done again, and all ranks of a round begin with the same.

# shellcheck disable=SC2016,SC2154,SC2030,SC2031,SC2086,SC2046,SC2164,SC2103 # eventually evaluates; background sets $pid; words

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    export HERE=$PWD OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore TORCH_CPP_LOG_LEVEL=ERROR PYTHONPATH
    recipes=$(readlink -f "$BATS_TEST_DIRNAME/../../examples/recipes")
    PYTHONPATH=$(readlink -f "$BATS_TEST_DIRNAME/../../packaging/python")
}
teardown() { job_teardown; }

node() { # NAME
    mkdir -p $1
    cd $1
    background spot-run exec -q --join "unix:$HERE/j" --join-timeout 60s --name $1 --checkpoint "$pattern" "${command[@]}" >>"../$1.out" 2>>"../$1.err"
    cd ..
    eval "id_$1=$pid"
}

steps() { cat ./*.out 2>/dev/null | grep -c '\] step'; }
past() { # N: so many steps were done, by whichever rounds
    for _ in $(seq 900); do
        [ "$(steps)" -lt "$1" ] || return 0
        sleep 0.1
    done
    echo "$(steps) steps" >&2
    false
}
placed() { jq -rs 'map(select(.event == "formed"))[-1].place['"$1"']' log; }

# kill the node of rank 0, with its disk; then another; then a notice to the new node of rank 0
through_kills() { # STEPS PATTERN COMMAND...
    local total=$1 gone
    pattern=$2
    command=("${@:3}" "$total")
    background timeout 250 spot-run exec -q --listen unix:j --lease 20s --max-restarts 9 --nodes 1:3 --checkpoint "$pattern" --events log "${command[@]}" 2>>job.err
    job=$pid
    for name in a b c; do node $name; done
    seen log durable 2
    gone=$(placed 0)
    eval "kill -9 \$id_$gone"
    rm -rf $gone
    seen log restored 1
    past $(($(steps) + 15))
    node d
    seen log joined 4
    gone=$(placed 1)
    eval "kill -9 \$id_$gone"
    seen log lost 2
    past $(($(steps) + 15))
    eval "kill -TERM \$id_$(placed 0)"
    seen log left 1
    wait "$job"
    cat ./*.out | grep -q "\] end $total"
    again=$(cat ./*.out | sed -n 's/.*\] step \([0-9]*\).*/\1/p' | sort -n | uniq -d | wc -l)
    echo "rounds $(events log formed), steps done again $again of $total"
    [ "$(events log restored)" -ge 3 ]
    [ "$again" -lt "$total" ]
}

@test "recipes: a program in C" {
    cc -o count "$recipes/count.c"
    through_kills 400 'count.*' -- "$HERE/count"
}

@test "recipes: spot.exact, and the bits are those of a run on one rank" {
    has torch || skip "no PyTorch here"
    mkdir calm
    (cd calm && timeout 100 spot-run exec -q "$recipes/exact.py" 3000 >../calm.said)
    through_kills 3000 ckpt.pt "$recipes/exact.py"
    [ "$(grep -o 'end .*' calm.said)" = "$(cat ./*.out | grep -o 'end .*')" ]
}

@test "recipes: FSDP2 and distributed checkpoints" {
    has torch || skip "no PyTorch here"
    through_kills 400 'out/step-*' "$recipes/fsdp2_dcp.py"
}

@test "recipes: HF Trainer" {
    has accelerate transformers || skip "no transformers and accelerate here"
    through_kills 1500 'out/checkpoint-*' "$recipes/hf_trainer.py"
}

@test "recipes: Accelerate" {
    has accelerate || skip "no accelerate here"
    through_kills 1500 'out/step-*' "$recipes/accelerate_loop.py"
}

@test "recipes: Lightning" {
    has lightning || skip "no Lightning here"
    through_kills 1500 out/ "$recipes/lightning_ddp.py"
}
