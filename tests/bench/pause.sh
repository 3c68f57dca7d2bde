#!/bin/bash
# SPDX-License-Identifier: MIT
# How long training pauses after a notice, a kill and a join: last commit of the old epoch to the
# first of the new one, minus the run's median step. Model L=4 C=128 H=4 T=64, G=16, b=1.
#   tests/bench/pause.sh [EVENTS_OF_EACH_KIND] [GRID...]
set -eu
n=${1:-20}
shift || true
grids=${*:-2x2 4x1}
tmp=$(mktemp -d)
job='' pids=()
cleanup() {
    kill ${job:+"$job"} "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cat /usr/share/common-licenses/* LICENSE >"$tmp/text" 2>/dev/null || cp LICENSE "$tmp/text"

start() { # a worker takes slot $1
    spot-run worker --quiet --join "unix:$tmp/job" 2>/dev/null &
    pids[$1]=$!
}
commits() {
    grep -c '"committed"' "$tmp/events" || true
}
settle() { # three more commits
    local want=$(($(commits) + 3)) i
    for i in $(seq 200); do
        [ "$(commits)" -ge "$want" ] && return
        sleep 0.05
    done
}
hit() { # SIGNAL SLOT
    kill -"$1" "${pids[$2]}"
    wait "${pids[$2]}" 2>/dev/null || true
    settle
    start "$2"
    sleep 0.3
    settle
}

for grid in $grids; do
    spot-run train --quiet --data "$tmp/text" --steps 1000000 --seed 3 --listen "unix:$tmp/job" --grid "$grid" \
        --events "$tmp/events" &
    job=$!
    until [ -S "$tmp/job" ]; do sleep 0.05; done
    for i in 0 1 2 3; do start $i; done
    sleep 1
    settle
    for i in $(seq "$n"); do
        hit TERM $((i % 4))
        hit KILL $(((i + 2) % 4))
    done
    kill -TERM $job
    wait $job || true
    job=''
    echo "grid $grid, $(getconf _NPROCESSORS_ONLN) cores, 4 workers"
    spot-run report --format table "$tmp/events" | grep -E 'median step|pause|samples'
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -f "$tmp/job" "$tmp/events"
done
