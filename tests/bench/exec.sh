#!/bin/bash
# SPDX-License-Identifier: MIT
# examples/pytorch/ddp.py on three nodes of one rank under spot-run exec, warm and --cold, and beside it under torchrun:
# undisturbed, and with a node that is killed every so often and comes back. Skips without PyTorch.
#   tests/bench/exec.sh [SECONDS [EVERY]]
# A row: steps in so many seconds of work, their share of the undisturbed ones of the same system, the median and the longest time from
# a kill to the next new step. Steps that are done again count once.
set -u
seconds=${1:-120} every=${2:-20}
python3 -W ignore -c 'import torch' 2>/dev/null || { echo "skipped: no PyTorch here" && exit 0; }
ddp=$(readlink -f "$(dirname "$0")/../../examples/pytorch/ddp.py")
top=$(mktemp -d)
cd "$top" || exit 1
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore PAUSE=0.02 TORCH_CPP_LOG_LEVEL=ERROR
declare -A root_of
# a machine that is gone: this process and all below it at once
vanish() { # PID
    local pid all=$1 at=$1
    while at=$(for pid in $at; do pgrep -P "$pid"; done) && [ "$at" ]; do all="$all $at"; done
    # shellcheck disable=SC2086  # words
    kill -KILL $all 2>/dev/null
}
cleanup() {
    local pid
    for pid in "${root_of[@]}"; do vanish "$pid"; done
    wait 2>/dev/null
}
trap 'cleanup; rm -rf "$top"' EXIT

# each line that a rank writes, and when
stamped() {
    local line
    while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done >>said
}

node() { # SYSTEM NAME
    local command=(spot-run exec -q --join unix:j --join-timeout 60s --name "$2")
    [ "$1" = warm ] || command+=(--cold)
    command+=(-- python3 "$ddp" state 1000000)
    [ "$1" != torchrun ] || command=(python3 -m torch.distributed.run --nnodes 1:3 --nproc-per-node 1 --rdzv-backend c10d
        --rdzv-endpoint 127.0.0.1:29431 --rdzv-id bench --max-restarts 1000 "$ddp" state 1000000)
    "${command[@]}" > >(stamped) 2>>err &
    root_of[$2]=$!
}

newest() {
    sed -n 's/.*step \([0-9]*\) loss.*/\1/p' said 2>/dev/null | sort -n | tail -n 1
}

# the time of the first line of a step above $1 after the moment $2
first_above() {
    awk -v step="$1" -v after="$2" '$1 > after { for (i = 2; i < NF; i++) if ($i == "step" && $(i + 1) + 0 > step) { print $1; exit } }' said
}

play() { # SYSTEM calm|storm: "STEPS kills and waits..."
    local begin from last strike name n=0 at waits=()
    mkdir "$1-$2" && cd "$1-$2" && mkdir state && : >said
    root_of=()
    if [ "$1" != torchrun ]; then
        spot-run exec -q --listen unix:j --nodes 1:3 --lease 2s -- python3 "$ddp" state 1000000 2>>err &
        root_of[job]=$!
    fi
    for name in a b c; do
        node "$1" "$name"
        [ "$name$1" != atorchrun ] || sleep 4 # the first is to keep the rendezvous
    done
    until [ "$(newest)" ]; do sleep 0.2; done
    begin=${EPOCHREALTIME/./}
    from=$(newest)
    while [ $((${EPOCHREALTIME/./} - begin)) -lt $((seconds * 1000000)) ]; do
        sleep "$every"
        [ "$2" = storm ] || continue
        # never the first, which keeps torchrun's rendezvous
        n=$((n + 1)) name=$([ $((n % 2)) = 0 ] && echo b || echo c)
        last=$(newest) strike=$EPOCHREALTIME
        vanish "${root_of[$name]}"
        for _ in $(seq 900); do
            at=$(first_above "$last" "$strike")
            [ -z "$at" ] || break
            sleep 0.1
        done
        waits+=("$(awk -v a="${at:-0}" -v b="$strike" 'BEGIN { print a ? a - b : "never" }')")
        node "$1" "$name"
    done
    echo "$((($(newest) - from) * 1000000 / ((${EPOCHREALTIME/./} - begin) / 100))) ${waits[*]-}"
    cleanup
    cd ..
}

printf '%-10s %14s %14s %8s  %s\n' system 'calm steps/s' 'storm steps/s' share 'kill to the next new step: median, most'
for system in ${SYSTEMS:-warm cold torchrun}; do
    read -r calm _ <<<"$(play "$system" calm)"
    read -r storm waits <<<"$(play "$system" storm)"
    # shellcheck disable=SC2086  # words
    sorted=$(printf '%s\n' $waits | sort -n)
    printf '%-10s %14.1f %14.1f %8.2f  %s s, %s s\n' "$system" "${calm}e-2" "${storm}e-2" "$(awk -v a="$storm" -v b="$calm" 'BEGIN { print a / b }')" \
        "$(sed -n "$((($(wc -l <<<"$sorted") + 1) / 2))p" <<<"$sorted")" "$(tail -n 1 <<<"$sorted")"
done
