#!/bin/bash
# SPDX-License-Identifier: MIT
# Jobs that take more or fewer workers, beside Pollux's simulator on its own workloads.
# usage: pollux.sh SIMULATOR    the folder of that name in the artifact of Pollux (OSDI 2021); spot-replay on PATH
# Prints mean completion in seconds: each load, each supply, each policy; in brackets that of the artifact's own results.
set -euo pipefail
simulator=${1:?usage: pollux.sh SIMULATOR}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r "$simulator/traces" "$tmp/traces"
# the artifact's program, not its data, holds this training to 8 samples a worker
sed -i '/^[0-9]*,16,/d' "$tmp/traces/yolov3/placements.csv"
sed -i '/^[0-9]*,[0-9]*,16,/d' "$tmp/traces/yolov3/scalability.csv"
spot-replay import --from pollux "$tmp"/traces/*/*.csv -o "$tmp/speed.json"
printf 'instance_type,count\ngpu,64\n' >"$tmp/all.csv"
printf 'instance_type,count,market,hazard_per_h\ngpu,64,spot,0.1\n' >"$tmp/spot.csv"
for profile in calm typical; do
    spot-replay generate --profile $profile --cap 64 --hours 40 --seed 5 --no-provenance |
        awk -F, -v OFS=, 'NR == 1 { print "time_s,available,instance_type"; next } { print $1, $2, "gpu" }' >"$tmp/$profile.csv"
done

mean() { # WORKLOADS OPTION...: of all of them, for each policy
    local folder=$1 workload
    shift
    for workload in "$simulator/$folder"/workload-*.csv; do
        spot-replay import --from pollux --origin 0 "$workload" -o "$tmp/jobs.csv"
        spot-replay share --jobs "$tmp/jobs.csv" --throughput "$tmp/speed.json" --round 60s --switch 30s \
            --policy pollux,spot,srsf "$@"
    done | awk -F, '$1 != "policy" { if (!($1 in n)) order[++k] = $1; n[$1]++; sum[$1] += 3600 * $3 }
        END { for (i = 1; i <= k; i++) printf "%s %.0f  ", order[i], sum[order[i]] / n[order[i]] }'
}

for load in 0.5 1.0 1.5 2.0; do
    folder=workloads-$load
    [ $load != 1.0 ] || folder=workloads
    echo "load $load: $(mean $folder --cluster "$tmp/all.csv")(pollux $(jq '.mean | round' "$simulator/results-jobload/pollux-$load/summary.json"))"
done
for supply in calm typical; do
    echo "$supply supply, saved when told: $(mean workloads --cluster "$tmp/spot.csv" --trace "$tmp/$supply.csv")"
    echo "$supply supply, saved each 10 min: $(mean workloads --cluster "$tmp/spot.csv" --trace "$tmp/$supply.csv" --checkpoint 10m)"
done
