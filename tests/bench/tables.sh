#!/bin/bash
# SPDX-License-Identifier: MIT
# Every table of docs/results that is simulated, from one build, with its version first.
# usage: tables.sh DATA [OUT]    DATA: traces/ and golden/; OUT: a folder, a file a page (default: tables-VERSION). Tools on PATH.
# PAGES="forecast train fleet serve share deadline" (the default) names some; all take two hours of a core.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=$(realpath "${1:?usage: tables.sh DATA [OUT]}")
version=$(spot-replay --version | cut -d' ' -f2)
out=${2:-tables-$version} bench=build/release/bench
mkdir -p "$out"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
counts() { awk -F, 'NR == 1 { print "time_s,available"; next } { print 60 * $1 "," $2 }' "$data/golden/parcae/liveput_res_$1.csv"; }
forecast() { tests/bench/forecast_tables.sh "$data/traces"; }
train() {
    counts bert_gbs1024_mbs8 >"$tmp/p3.csv"
    { counts gpt-6.7b_gbs64_mbs1 && sed 1,667d "$tmp/p3.csv"; } >"$tmp/edited.csv" # its authors' ends earlier
    PART='policies notices doubt peers' tests/bench/train_tables.sh "$tmp/p3.csv" "$tmp/edited.csv"
    tests/bench/train_generated.sh
}
fleet() { PART='replicas law load mixed' tests/bench/fleet_tables.sh "$data/traces"; }
serve() { for set in spotserve seen unseen; do tests/bench/serve.sh "$data" $set; done; }
share() {
    printf 'instance_type,count,usd_per_h\nv100,8,2.48\np100,16,1.46\nk80,24,0.45\n' >"$tmp/c.csv"
    spot-replay import --from gavel "$data/golden/gavel/physical_cluster_isolated.csv" -o "$tmp/t.json"
    for trace in max_min_fairness minimize_makespan; do
        spot-replay import --from gavel "$data/golden/gavel/$trace.trace" -o "$tmp/$trace.csv"
        set -- --jobs "$tmp/$trace.csv" --throughput "$tmp/t.json" --cluster "$tmp/c.csv" --policy all --format md
        spot-replay share "$@" --rounds gavel --seed 0
        spot-replay share "$@" --switch 20s --checkpoint 6m --seed 1
        tests/bench/share.sh "$tmp/$trace.csv" "$tmp/t.json" "$tmp/c.csv"
    done
}
deadline() {
    $bench/bench_deadline "$data/golden/skypilot/uniform_progress_windows.csv" \
        "$data/traces/skypilot/avail-1-node-aws-10-26-2022" 1
}
for page in ${PAGES-forecast train fleet serve share deadline}; do
    { echo "$page, version $version"; echo; "$page"; } >"$out/$page.md"
    echo "$out/$page.md"
done
