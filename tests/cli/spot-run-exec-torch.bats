#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# examples/pytorch on nodes that come and go, with the real PyTorch where it is installed.

bats_require_minimum_version 1.5.0
load job
# shellcheck disable=SC2016,SC2154 # eventually evaluates; background sets $pid

setup() {
    python3 -W ignore -c 'import torch' 2>/dev/null || skip "no PyTorch here"
    job_setup
    ddp=$(readlink -f "$BATS_TEST_DIRNAME/../../examples/pytorch/ddp.py")
    mkdir state
    export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore PAUSE=0.02
}
teardown() { job_teardown; }

node() { # NAME
    background spot-run exec -q --join unix:j --join-timeout 60s --name "$1" -- python3 "$ddp" state 400 >>"$1.out" 2>>"$1.err"
}

step() { # the newest that somebody wrote of
    cat ./*.out 2>/dev/null | sed -n 's/.*step \([0-9]*\) .*/\1/p' | sort -n | tail -n 1
}

@test "torch: a trainer of PyTorch is started, keeps what it learned and ends" {
    timeout 200 spot-run exec -q --workers 1 -- python3 "$ddp" state 30 >out
    grep -q 'step 30 ' out
    [ "$(jq -s '.[-1].kept' state/log)" -eq 30 ]
}

@test "torch: a trainer of PyTorch goes on through a notice and a kill, and learns what it learns undisturbed" {
    [ -n "${SPOT_WORLD-}" ] || skip "of make check-world"
    mkdir calm
    timeout 200 spot-run exec -q --workers 1 -- python3 "$ddp" calm 400 >calm.txt
    background timeout 280 spot-run exec -q --listen unix:j --nodes 1:3 --lease 2s --events log -- python3 "$ddp" state 400 2>job.err
    job=$pid
    node a
    node b
    b=$pid
    node c
    c=$pid
    eventually '[ "$(step)" -ge 30 ]'
    kill -TERM "$b" # a notice: what was done is kept
    wait "$b" || [ $? = 75 ]
    kept=$(jq -s '.[-1].kept' state/log)
    eventually '[ "$(jq -s ".[-1].kept" state/log)" -gt '"$kept"' ]'
    kill -KILL "$c"
    kept=$(jq -s '.[-1].kept' state/log)
    eventually '[ "$(jq -s ".[-1].kept" state/log)" -gt '"$kept"' ]'
    node d
    wait "$job"
    [ "$(jq -s '.[-1].kept' state/log)" -eq 400 ]
    [ "$(jq -s '.[-1].kept' calm/log)" -eq 400 ]
    # sums are rounded in another order where the world is another: near, not equal. A loss is of
    # rank 0's share of the batch, hence the weights are what is compared
    python3 - <<'P'
import torch
a, b = (torch.load(d + "/newest.pt")["model"] for d in ("calm", "state"))
worst = max((a[k] - b[k]).abs().max().item() for k in a)
print("largest difference of a weight:", worst)
assert worst < 1e-4, worst
P
}
