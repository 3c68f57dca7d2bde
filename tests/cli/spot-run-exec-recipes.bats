#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: world, lane: wait
# examples/recipes: trainers of others on nodes with directories of their own, two of which are killed and one told to leave. What is
# saved by then is not done again, and all ranks of a round begin with the same.

# shellcheck disable=SC2016,SC2154,SC2030,SC2031,SC2086,SC2046,SC2164,SC2103,SC2013 # eventually evaluates; background sets $pid; words

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    top=$(readlink -f "$BATS_TEST_DIRNAME/../..")
    recipes=$top/examples/recipes
    export HERE=$PWD OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore TORCH_CPP_LOG_LEVEL=ERROR PAUSE=0.1
    export PYTHONPATH=$top/tests/world/pace:$top/packaging/python${PYTHONPATH:+:$PYTHONPATH}
}
teardown() { job_teardown; }

node() { # NAME
    mkdir -p $1
    cd $1
    background spot-run exec -q --join "unix:$HERE/j" --join-timeout 60s --name $1 --checkpoint "$pattern" "${command[@]}" >>"../$1.out" 2>>"../$1.err"
    cd ..
    eval "id_$1=$pid"
}

steps() { cat ./*.out 2>/dev/null | sed -n 's/.*\] step \([0-9]*\).*/\1/p'; }
newest() { steps | sort -n | tail -n 1; }
done_again() { steps | sort -n | uniq -d | wc -l; }
past() { # STEP: is done
    for _ in $(seq 900); do
        [ "$(newest)" -le "$1" ] || return 0
        sleep 0.1
    done
    echo "no step above $(newest)" >&2
    false
}
placed() { jq -rs 'map(select(.event == "formed"))[-1].place['"$1"']' log; }

# The weights that rank 0 has printed at the end, of what nobody disturbed and of this job: of sums that are rounded in another order
# these differ by 1e-7, of a sample more or less by 1e-5: steps are that small, so that nothing is forgotten until the end.
same_weights() { # LEAST-DIFFERENCE
    paste -d ' ' <(tr ' ' '\n' <calm.said) <(cat ./*.out | grep -o 'end .*' | tr ' ' '\n') |
        awk -v most="$1" 'NR > 2 { d = $1 - $2; d = d < 0 ? -d : d; if (d > worst) worst = d }
            END { print "largest difference of a weight: " worst; exit !(NR > 3 && worst <= most) }'
}

# kill the node of rank 0, with its disk; then another; then a notice to the node that has rank 0 now
through_kills() { # STEPS PATTERN COMMAND...
    local total=$1 gone was
    pattern=$2
    command=("${@:3}" "$total")
    mkdir calm
    (cd calm && PAUSE=0 timeout 200 spot-run exec -q --workers 2 --nnodes 2 "${command[@]}" 2>calm.err | grep -o 'end .*' >../calm.said)
    background timeout 280 spot-run exec -q --listen unix:j --lease 20s --max-restarts 9 --nnodes "${nodes:-1:3}" --checkpoint "$pattern" --events log "${command[@]}" 2>>job.err
    job=$pid
    for name in a b c; do node $name; done
    seen log durable 2
    gone=$(placed 0)
    eval "kill -9 \$id_$gone"
    rm -rf $gone
    seen log restored 1
    was=$(newest)
    node d
    past $was
    eval "kill -9 \$id_$(placed 1)"
    seen log lost 2
    was=$(newest)
    node e
    past $((was + 1))
    again=$(done_again)
    eval "kill -TERM \$id_$(placed 0)"
    seen log left 1
    : >hurry
    wait "$job"
    cat ./*.out | grep -q "\] end $total"
    echo "rounds $(events log formed), steps done again after kills $again, after a notice $(($(done_again) - again)), of $total"
    [ "$(events log restored)" -ge 3 ]
    [ "$(jq 'select(.event == "finished").failures' log)" -eq 0 ]
    [ "$again" -le 120 ]
    [ $(($(done_again) - again)) -le "${after_notice:-0}" ]
}

# The script of NAME without the lines that README.md shows as added, in ./plain.py
plain() { # NAME
    cp "$recipes/$1" plain.py
    sed -n "/^### $1/,/^\`\`\`\$/p" "$recipes/README.md" | sed -n '/^--- /,/^```$/p' | sed '$d' >added.diff
    patch -sR plain.py added.diff
    [ "$(grep -c '^+[^+]' added.diff)" -le 15 ]
}

# tier: check
@test "recipes: what the README shows as added is what is added, at most 15 lines" {
    command -v patch >/dev/null || skip "no patch"
    for script in $(sed -n 's/^### \(.*\.py\).*/\1/p' "$recipes/README.md"); do
        plain $script
        ! grep -n 'spot\.\|import spot' plain.py || false
        python3 -c 'import ast; ast.parse(open("plain.py").read())'
    done
}

@test "recipes: a program in C, unchanged" {
    cc -o count "$recipes/count.c"
    after_notice=30 through_kills 900 'count.*' -- "$HERE/count"
}

@test "recipes: spot.exact, and the bits are those of a run on two ranks" {
    has torch || skip "no PyTorch here"
    after_notice=30 through_kills 600 ckpt.pt "$recipes/exact.py"
    [ "$(cat calm.said)" = "$(cat ./*.out | grep -o 'end .*')" ]
}

@test "recipes: HF Trainer" {
    has accelerate transformers || skip "no transformers and accelerate here"
    through_kills 600 'out/checkpoint-*' "$recipes/hf_trainer.py"
    same_weights 2e-6
}

@test "recipes: HF Trainer, unchanged" {
    has accelerate transformers || skip "no transformers and accelerate here"
    plain hf_trainer.py
    after_notice=40 through_kills 600 'out/checkpoint-*' "$HERE/plain.py"
    same_weights 2e-6
}

@test "recipes: Lightning" {
    has lightning || skip "no Lightning here"
    through_kills 600 out/ "$recipes/lightning_ddp.py"
    same_weights 2e-6
}

@test "recipes: Accelerate" {
    has accelerate || skip "no accelerate here"
    through_kills 600 'out/step-*' "$recipes/accelerate_loop.py"
    same_weights 2e-6
}

@test "recipes: DeepSpeed, ZeRO-1 and ZeRO-2 on as many ranks as before" {
    has deepspeed || skip "no DeepSpeed here"
    for STAGE in 1 2; do
        export STAGE
        mkdir $STAGE
        cd $STAGE
        HERE=$PWD nodes=2:2 through_kills 600 out/ "$recipes/deepspeed_zero.py"
        same_weights 0
        cd ..
    done
}

@test "recipes: FSDP2 and distributed checkpoints" {
    has torch || skip "no PyTorch here"
    through_kills 600 'out/step-*' "$recipes/fsdp2_dcp.py"
    same_weights 2e-6
}

@test "recipes: torchtitan's checkpoints" {
    has torchtitan || skip "no torchtitan here"
    through_kills 600 'outputs/checkpoint/step-*' "$recipes/torchtitan_loop.py"
    same_weights 2e-6
}

@test "recipes: JAX" {
    has jax || skip "no JAX here"
    through_kills 600 ckpt.npz "$recipes/jax_loop.py"
    same_weights 2e-6
}
