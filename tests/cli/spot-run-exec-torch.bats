#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# examples/pytorch on nodes that come and go and share no storage, with the real PyTorch where it is installed. What was used is counted
# sample by sample by tests/world/used.py.

# shellcheck disable=SC2016,SC2154,SC2030,SC2031,SC2046,SC2086 # eventually evaluates; background sets $pid; words

bats_require_minimum_version 1.5.0
load job

setup() {
    has torch || skip "no PyTorch here"
    job_setup
    top=$(readlink -f "$BATS_TEST_DIRNAME/../..")
    mkdir out
    export PYTHONPATH=$top/packaging/python OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore TORCH_CPP_LOG_LEVEL=ERROR USED='used.{TORCHELASTIC_RESTART_COUNT}.{RANK}'
}
teardown() { job_teardown; }

coordinator() { # SCRIPT STEPS ARGUMENTS...: its id in $job
    command=(python3 "$top/examples/pytorch/$1.py" "$2" out)
    background timeout 280 spot-run exec -q --listen unix:j --lease 4s --max-restarts 0 --events log "${@:3}" -- "${command[@]}" 2>>job.err
    job=$pid
}

node() { # NAME: its id in id_NAME
    background spot-run exec -q --join unix:j --join-timeout 60s --name "$1" -- "${command[@]}" >>"$1.out" 2>>"$1.err"
    eval "id_$1=$pid"
}

# a machine that is gone: this process and all below it at once
vanish() { # PID...
    local pid all=$* at=$*
    while at=$(for pid in $at; do pgrep -P "$pid"; done) && [ "$at" ]; do all="$all $at"; done
    kill -KILL $all
}

placed() { # I: the name of the node with that place in the last round
    jq -rs 'map(select(.event == "formed"))[-1].place['"$1"']' log
}

newest() { cat used.* 2>/dev/null | awk '$2 > n { n = $2 } END { print n + 0 }'; }

past() { # STEP
    for _ in $(seq 900); do
        [ "$(newest)" -lt "$1" ] || return 0
        sleep 0.1
    done
    echo "no step above $(newest)" >&2
    false
}

committed() { # STEPS: of the state that was agreed last, at least
    eventually '[ "$(grep committed log | jq -s "map(.step) | max // 0")" -ge '"$1"' ]'
}

used_once() { # [STEPS]
    python3 "$top/tests/world/used.py" used.* --size 1000 --batch 24 ${1:+--steps "$1"}
}

# the weights of a job of SCRIPT that nobody disturbed, with WORLD nodes, made once
undisturbed_weights() { # SCRIPT STEPS WORLD
    local dir=$BATS_FILE_TMPDIR/$1-$2-$3
    if ! [ -e "$dir/final.pt" ]; then
        mkdir -p "$dir"
        USED=/dev/null timeout 200 spot-run exec -q --workers "$3" -- python3 "$top/examples/pytorch/$1.py" "$2" "$dir" >/dev/null
    fi
    cp "$dir/final.pt" calm.pt
}

# the largest difference of a weight between calm.pt and out/final.pt
difference() {
    python3 -c '
import torch
a, b = (torch.load(name) for name in ("calm.pt", "out/final.pt"))
assert a.keys() == b.keys()
print(max((a[k] - b[k]).abs().max().item() if not torch.equal(a[k], b[k]) else 0 for k in a))'
}

@test "torch: two nodes of an example commit, and use each sample once" {
    timeout 200 spot-run exec -q --workers 2 --events log -- python3 "$top/examples/pytorch/ddp.py" 90 out >said
    grep -q 'step 90 loss .* world 2' said
    used_once 90 # two epochs and a part
    [ "$(jq -s 'map(select(.event == "committed"))[-1].step' log)" -eq 90 ]
    python3 -m zipfile -t out/final.pt # which the others load
}

# Another node takes the place of one that is gone: the world stays, and with it every bit.
replaced() { # SCRIPT
    export PAUSE=0.05
    undisturbed_weights "$1" 120 2
    coordinator "$1" 120 --nnodes 2:2
    node a
    node b
    past 5
    node c # the spare
    committed 20
    gone=$(placed 0)
    eval "vanish \$id_$gone" # of rank 0, and its memory with it
    seen log restored 1
    past 55
    left=$(placed 0)
    node "$gone" # the machine that is there again
    seen log joined 4
    eval "kill -TERM \$id_$left" # and a notice for the other one
    seen log restored 2
    wait "$job"
    used_once 120
    [ "$(difference)" = 0 ]
    [ "$(events log failed)" -eq 0 ]
}

# tier: world
@test "torch: DDP where a spare takes over after a kill and a notice: the same weights, bit for bit" {
    replaced ddp
}

# tier: world
@test "torch: FSDP where a spare takes over after a kill and a notice: the same weights, bit for bit" {
    replaced fsdp
}

# The world shrinks and grows: sums are rounded in another order, and no sample is lost all the same.
resized() { # SCRIPT
    export PAUSE=0.05
    undisturbed_weights "$1" 120 2
    coordinator "$1" 120 --nnodes 1:3
    node a
    node b
    past 5
    node c
    committed 20
    kill -TERM "$id_b"
    seen log left 1
    past $(($(newest) + 15))
    vanish "$id_a"
    seen log lost 1
    past $(($(newest) + 15))
    node d
    wait "$job"
    used_once 120
    worst=$(difference)
    echo "largest difference of a weight: $worst"
    awk -v d="$worst" 'BEGIN { exit !(d < 1e-3) }'
}

# tier: world
@test "torch: DDP on fewer and more nodes loses no sample, and learns the same up to rounding" {
    resized ddp
}

# tier: world
@test "torch: FSDP on fewer and more nodes loses no sample, and learns the same up to rounding" {
    resized fsdp
}

# tier: world
@test "torch: the node of rank 0 dies with the coordinator, which is begun anew" {
    export PAUSE=0.05
    undisturbed_weights ddp 90 2
    coordinator ddp 90 --nnodes 2:2
    node a
    node b
    past 5
    node c
    committed 20
    eval "vanish \$id_$(placed 0) $job"
    mv log log.first
    coordinator ddp 90 --nnodes 2:2
    wait "$job"
    [ "$(events log restored)" -ge 1 ]
    used_once 90
    [ "$(difference)" = 0 ]
}

# Kills and notices at random, of any node; each comes back. What is in the state when the job is stopped has used each sample once.
# tier: world
@test "torch: a storm of kills and notices loses and repeats no sample" {
    export PAUSE=0.02
    RANDOM=7
    coordinator ddp 1000000 --nnodes 1:3
    for name in a b c; do node $name; done
    past 15
    for _ in $(seq "$(size 30 8)"); do
        name=$(placed $((RANDOM % $(jq -s 'map(select(.event == "formed"))[-1].D' log))))
        eval "id=\$id_$name"
        if [ $((RANDOM % 2)) = 0 ]; then vanish "$id"; else kill -TERM "$id"; fi
        wait "$id" || true
        [ $((RANDOM % 3)) = 0 ] || past $(($(newest) + RANDOM % 30 + 1)) # else at once, within the round that begins
        node "$name"
    done
    past $(($(newest) + 15))
    spot-run stop --join unix:j
    wait "$job" && status=0 || status=$?
    [ "$status" -eq 75 ]
    used_once >counted
    cat counted
    [ "$(jq .in_state counted)" -eq "$(jq -s 'map(select(.event == "committed"))[-1].step' log)" ]
    [ "$(spot-run ledger --check log | tail -n 1 | cut -d , -f 5,6)" = 0,0 ]
}
