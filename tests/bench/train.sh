#!/bin/sh
# SPDX-License-Identifier: MIT
# CPU seconds of spot-replay train and spot-plan train, start and reading of documents included:
# simple policies on a million intervals, a trace of 683 under each solver, all policies on all
# jobs, a plan for a thousand instances.
# usage: train.sh      spot-replay, spot-plan and spot-predict on PATH
set -eu
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

walk() { # intervals, least, most: a random walk that stands still four times of five
    awk -v n="$1" -v low="$2" -v high="$3" 'BEGIN { srand(1); print "time_s,available"; x = high
        for (i = 0; i < n; i++) { u = rand()
            if (u < .1) x -= 1 + int(3 * rand()); else if (u < .2) x += 1 + int(3 * rand())
            x = x < low ? low : x > high ? high : x; print 60 * i "," x } }'
}
cpu() { # label, command..
    label=$1
    shift
    (
        "$@" >/dev/null
        times
    ) | awk -v label="$label" 'NR == 2 { split($1, a, /[ms]/); printf "%-44s %8.3f s\n", label, a[1] * 60 + a[2] }'
}
jobs='gpt-1.5b gpt-6.7b bert resnet152 vgg19'

walk 1000000 4 32 >"$tmp/long.csv"
walk 683 10 32 >"$tmp/p3.csv"
walk 400 900 1024 >"$tmp/big.csv"
spot-predict "$tmp/big.csv" >"$tmp/big.json"
cpu 'bert, 10^6 intervals, ideal twice' spot-replay train --job examples/jobs/bert.json \
    --trace "$tmp/long.csv" --policy ideal
cpu 'bert, 10^6 intervals, and throughput' spot-replay train --job examples/jobs/bert.json \
    --trace "$tmp/long.csv" --policy ideal,throughput
for policy in parcae-truth spot; do
    for job in $jobs; do
        cpu "$job, 683 intervals, $policy" spot-replay train --job "examples/jobs/$job.json" \
            --trace "$tmp/p3.csv" --policy $policy
    done
done
for job in $jobs; do
    cpu "$job, 683 intervals, all policies" spot-replay train --job "examples/jobs/$job.json" \
        --trace "$tmp/p3.csv" --policy all
done
cpu 'a plan for a thousand instances, by the fitted curve' spot-plan train --job examples/jobs/bert.json \
    --throughput law --forecast "$tmp/big.json"
