#!/bin/sh
# SPDX-License-Identifier: MIT
# Each policy of spot-replay share with the length of rounds that is best for it.
# usage: share.sh JOBS THROUGHPUT CLUSTER [OPTION...]    (default options: --switch 20s --checkpoint 6m; spot-replay on PATH)
# Prints policy, least mean completion and its round, least end of the last job and its round; hours, by the mean.
set -eu
[ $# -ge 3 ] || { sed -n 's/^# usage: //p' "$0" >&2 && exit 2; }
jobs=$1 throughput=$2 cluster=$3
shift 3
[ $# -gt 0 ] || set -- --switch 20s --checkpoint 6m
for round in 1m 2m 3m 6m 12m 20m 40m 80m; do
    spot-replay share --jobs "$jobs" --throughput "$throughput" --cluster "$cluster" --round $round --policy all "$@" |
        awk -F, -v OFS=, -v round=$round 'NR > 1 { print $1, $3, $5, round }'
done | awk -F, '!($1 in mean) || $2 < mean[$1] { mean[$1] = $2; by[$1] = $4 }
    !($1 in end) || $3 < end[$1] { end[$1] = $3; until[$1] = $4 }
    END { for (p in mean) printf "%-22s %.2f %4s  %.2f %4s\n", p, mean[p], by[p], end[p], until[p] }' | sort -k 2 -n
