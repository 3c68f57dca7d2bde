#!/bin/bash
# SPDX-License-Identifier: MIT
# Ours beside Oobleck on recorded traces other than Parcae's p3, each charged what it does: docs/results/train.md.
# usage: train_charges.sh DATA [INTERVALS]    DATA: the public traces (bamboo, skypilot); INTERVALS of 60 s of each (default: 300), from the first on
# with 8 instances.
# Oobleck pays the constants of the job's own measurements, process groups of NCCL and building included, as its release does them; ours pays
# a regrouping of PAUSE seconds (default: .053, the median after a kill of tests/bench/pause.sh), JOIN more where members come (.026), and every
# byte that moves over the job's links. Both use a gain in its own interval. Five minutes of a core.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?usage: train_charges.sh DATA [INTERVALS]} n=${2:-300} pause=${PAUSE-.053} join=${JOIN-.026} tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
share() { # POLICY NOTICE JOB: samples over those of ideal
    spot-replay train --quiet --job "$3" --trace "$tmp/t.csv" --interval 60s --policy "ideal,$1" --notice "$2" --format csv |
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } { s[NR] = $at["samples"] } END { printf "%.4f", (s[2] > 0 ? s[3] / s[2] : 0) }'
}
spot-replay --version
echo "| trace | job | notice of losses, s | oobleck | spot, Oobleck's constants | spot, its own |"
echo "|---|---|---:|---:|---:|---:|"
for trace in bamboo/g4dn-trace bamboo/aws-g4dn-us-east-1c-2020-11 bamboo/aws-p2-us-east-1-2020-11 skypilot/avail-16-node-aws-08-27-2023/us-west-2a_v100_1; do
    awk -F, -v length_s=$((n * 60)) 'NR == 1 { print "time_s,available"; next } !is_there && $4 >= 8 { is_there = 1; from = $1 }
        is_there && $1 < from + length_s { print $1 - from "," ($4 < 32 ? $4 : 32) }' "$data/$trace.csv" >"$tmp/t.csv"
    for job in gpt-1.5b gpt-6.7b bert resnet152 vgg19; do
        jq --argjson pause "$pause" --argjson join "$join" '.cost |= (del(.build, .regroup, .process_s, .extra_s, .add_per_group_s, .remove_per_group_s, .add_per_node_s,
            .remove_per_node_s) + { regroup_s: $pause, rendezvous_s: $join })' "examples/jobs/$job.json" >"$tmp/ours.json"
        for notice in 0 120; do
            echo "| ${trace##*/} | $job | $notice | $(share oobleck ${notice}s:1s "examples/jobs/$job.json") |" \
                "$(share spot ${notice}s:1s "examples/jobs/$job.json") | $(share spot ${notice}s:1s "$tmp/ours.json") |"
        done
    done
done | tee "$tmp/rows"
awk -F'|' '$5 > 0 { n++; a += $6 > $5; b += $7 > $5; da += 100 * ($6 - $5); db += 100 * ($7 - $5); if (n == 1 || $7 - $5 < least) least = $7 - $5 }
    END { printf "spot above oobleck in %d of %d rows with its constants (mean %+.2f points), in %d with its own (mean %+.2f, least %+.2f)\n", a, n, da / n, b, db / n, 100 * least }' "$tmp/rows"
