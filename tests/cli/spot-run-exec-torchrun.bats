#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Command lines of torchrun, as they stand in its manual, with spot-run exec in front. The trainer is a few lines of Python without any module,
# and knows nothing of us.

# shellcheck disable=SC2016,SC2030,SC2031,SC2046,SC2086,SC2154 # eventually evaluates; words; background sets $pid

bats_require_minimum_version 1.5.0
load job
set -o pipefail

setup() {
    job_setup
    mkdir said ended
    # said/RESTART.RANK: the environment, and behind it the arguments
    cat >train.py <<'PY'
import os, sys, time
rank = os.environ["TORCHELASTIC_RESTART_COUNT"] + "." + os.environ["RANK"]
with open("said/" + rank + ".new", "w") as file:
    for name, value in sorted(os.environ.items()):
        print(name + "=" + value, file=file)
    print("argv", *sys.argv[1:], file=file)
    print("flags", sys.flags.interactive, sys.stdout.line_buffering or sys.stdout.write_through, file=file)
os.rename("said/" + rank + ".new", "said/" + rank)
while not os.path.exists("finish"):
    time.sleep(0.02)
open("ended/" + rank, "w")
PY
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 10000))
        (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
}
teardown() { job_teardown; }

# line NAME ARGUMENTS...: the command line of one node, its id in id_NAME
line() {
    local name=$1
    shift
    background timeout 200 spot-run exec -q "$@" >>"$name.out" 2>>"$name.err"
    eval "id_$name=$pid"
}

said() { # RESTART.RANK NAME
    sed -n "s/^$2=//p" "said/$1"
}

newest() { find said -name '*.*' ! -name '*.new' -printf '%f\n' | sort -n | tail -n 1 | cut -d . -f 1; }

# of the newest round: so many ranks
world() { eventually '[ "$(said "$(newest).0" WORLD_SIZE)" = '"$1"' ] && [ "$(ls said/$(newest).* | grep -vc new)" = '"$1"' ]'; }

ends() { # STATUS NAME...
    local want=$1 name
    shift
    for name; do
        eval "wait \$id_$name" && status=0 || status=$?
        [ "$status" -eq "$want" ] || { echo "$name ended with $status, not $want" >&2 && false; }
    done
}

@test "torchrun: the same line on each node: one leads, all are nodes, the first rank is on the one that leads" {
    all=(--nnodes 1:4 --nproc_per_node 2 --rdzv_id job7 --rdzv_backend c10d --rdzv-endpoint "127.0.0.1:$port" --max-restarts 3 train.py --lr 1e-3 -m 2 -- --more)
    line a "${all[@]}"
    world 2
    for name in b c d; do line $name "${all[@]}"; done
    world 8
    round=$(newest)
    for rank in $(seq 0 7); do
        grep -qx 'argv --lr 1e-3 -m 2 -- --more' said/$round.$rank
        [ "$(said $round.$rank LOCAL_RANK)" -eq $((rank % 2)) ]
        [ "$(said $round.$rank GROUP_RANK)" -eq $((rank / 2)) ]
        [ "$(said $round.$rank LOCAL_WORLD_SIZE),$(said $round.$rank GROUP_WORLD_SIZE)" = 2,4 ]
        [ "$(said $round.$rank MASTER_ADDR):$(said $round.$rank MASTER_PORT)" = "$(said $round.0 MASTER_ADDR):$(said $round.0 MASTER_PORT)" ]
        [ "$(said $round.$rank TORCHELASTIC_MAX_RESTARTS)" -eq 3 ]
        [ "$(said $round.$rank TORCHELASTIC_RUN_ID)" = "$(said 0.0 TORCHELASTIC_RUN_ID)" ]
    done
    kill -KILL $(pgrep -P $id_c) # the node; a node that joins was started by timeout
    world 6
    : >finish
    ends 0 a b d
    [ "$(find ended -name "$(newest).*" | wc -l)" -eq 6 ]
}

@test "torchrun: all variables of its manual, and python with -u before a script" {
    : >finish
    timeout 60 env -u OMP_NUM_THREADS -u TORCH_NCCL_ASYNC_ERROR_HANDLING ROLE_NAME=worker spot-run exec -q --nproc-per-node=2 train.py a b
    for name in LOCAL_RANK RANK GROUP_RANK ROLE_RANK LOCAL_WORLD_SIZE WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT \
        TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE TORCH_NCCL_ASYNC_ERROR_HANDLING OMP_NUM_THREADS; do
        [ "$(said 0.1 $name)" ] || { echo "no $name" >&2 && false; }
    done
    [ "$(said 0.1 ROLE_NAME)" = worker ]
    grep -qx 'argv a b' said/0.1
    grep -q 'flags 0 True' said/0.1
}

@test "torchrun: a module, another python, no python, --standalone" {
    : >finish
    mkdir -p package
    cp train.py package/__main__.py
    timeout 60 spot-run exec -q --standalone --nproc_per_node 1 -m package x -m y
    grep -qx 'argv x -m y' said/0.0
    printf '#!/bin/sh\necho "$@" >python.said\nexec python3 "$@"\n' >python && chmod +x python
    timeout 60 env PYTHON_EXEC=./python spot-run exec -q train.py z
    [ "$(cat python.said)" = "-u train.py z" ]
    printf '#!/bin/sh\necho "$@" >"said.by.sh"\n' >program.py && chmod +x program.py
    timeout 60 spot-run exec -q --no_python ./program.py --q
    [ "$(cat said.by.sh)" = --q ]
    # what means nothing here is no reason to refuse a line that works elsewhere
    timeout 60 spot-run exec -q --nnodes=1 --nproc_per_node=1 --monitor_interval 5 --start_method spawn --rdzv_conf timeout=900 --rdzv-backend=c10d --tee 3 -r 3 train.py
    refuses 2 "not-an-option" exec --not-an-option train.py
    refuses 2 "2 nodes need the same" exec --nnodes 2 train.py
    refuses 4 nosuch.py exec --nproc-per-node 2 nosuch.py
    refuses 4 nosuch.py exec --join unix:nobody nosuch.py
    refuses 2 "--nproc-per-node" exec --nproc_per_node x train.py
}

@test "torchrun: --node-rank 0 leads though it comes last, with --master-addr" {
    all=(--nnodes 2 --nproc-per-node 1 --master-addr 127.0.0.1 --master_port "$port" --join-timeout 60s train.py)
    line b --node-rank 1 "${all[@]}"
    eventually '[ -d "/proc/$id_b" ]'
    line a --node_rank 0 "${all[@]}"
    world 2
    : >finish
    ends 0 a b
}

@test "torchrun: a node of another --rdzv-id is refused" {
    line a --nnodes 1:2 --rdzv-id one --rdzv-endpoint "127.0.0.1:$port" train.py
    world 1
    line b --nnodes 1:2 --rdzv-id two --rdzv-endpoint "127.0.0.1:$port" train.py
    ends 1 b
    : >finish
    ends 0 a
}

@test "torchrun: what the first rank that fails has written to its error file is told" {
    cat >fails.py <<'PY'
import json, os, sys
if os.environ["RANK"] == "1":
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": "ValueError: the 7th shard is empty", "extraInfo": {"py_callstack": "x", "timestamp": "1"}}}, file)
    sys.exit(3)
import time
time.sleep(60)
PY
    run --separate-stderr timeout 60 spot-run exec --nproc_per_node 2 --max_restarts 0 --lease 0.5s fails.py
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"rank 1 on "*"status 3: ValueError: the 7th shard is empty"* ]]
}

@test "exec --help begins with three lines that work: one host, many hosts, Slurm" {
    timeout 60 spot-run exec --help | head -n 7 >help
    [ "$(grep -cE '^  (one host|many hosts|Slurm) +.*spot-run exec .*train.py' help)" -eq 3 ]
    : >finish
    eval "timeout 60 $(sed -n 's/^  one host *//p' help)"
    [ -e said/0.1 ]
}
