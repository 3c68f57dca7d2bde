#!/bin/bash
# SPDX-License-Identifier: MIT
# How long until there are steps: 64 workers from the coordinator's start to their first epoch, and a
# coordinator that was killed from its new start to the next commit, workers waiting. Five runs of each.
set -eu
tmp=$(mktemp -d)
job='' crew=()
cleanup() {
    kill -KILL $job "${crew[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"
seq 1 3000 >corpus
model=(--quiet --data corpus --layers 2 --width 32 --heads 2 --seq 16 --shards 2)
summary() { # WHAT: median and maximum of the numbers on standard input, seconds
    sort -n | awk -v what="$1" '{ x[NR] = $1 } END { printf "%s: median %.3f s, max %.3f s (%d)\n", what, x[int((NR + 1) / 2)], x[NR], NR }'
}

for _ in 1 2 3 4 5; do
    rm -f form
    spot-run train "${model[@]}" --global-batch 64 --steps 1 --workers 64 --events form
    jq -r 'select(.event == "formed" and .members == 64).time_s' form
done | summary "64 workers, start to epoch"

coordinator() { # no function around it: $! must be the program itself
    spot-run train "${model[@]}" --global-batch 8 --steps 1000000000 --grid 2x2 --events events --state state \
        --durable-every 1h --listen unix:job --resume &
    job=$!
}
mkdir state
commits() { grep -cs '"committed"' events || true; }
: >events
more_than() { until [ "$(commits)" -gt "$1" ]; do sleep 0.005; done; }
coordinator
for i in 1 2 3 4; do
    spot-run worker -q --join unix:job --name w$i &
    crew+=($!)
done
more_than 50
for _ in 1 2 3 4 5; do
    kill -KILL $job
    wait $job 2>/dev/null || true
    at=$(commits) start=${EPOCHREALTIME/./}
    coordinator
    more_than "$at"
    echo "$start ${EPOCHREALTIME/./}" | awk '{ print ($2 - $1) / 1e6 }' >>took
    more_than $((at + 50))
done 2>/dev/null
summary "coordinator killed, start to commit" <took
