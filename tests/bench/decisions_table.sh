#!/bin/bash
# SPDX-License-Identifier: MIT
# At 200 prefixes a row: does spot-replay decide as the shipped pipe does that sees the prefix alone? docs/results/decisions.md.
# usage: decisions_table.sh DATA [PREFIXES]    DATA: traces/, golden/, market/windows of the reference data; the tools on PATH. Half an hour of a core.
# KINDS="train fleet deadline price serve share" (the default) names some. Fails if one decision differs.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=$(realpath "${1:?usage: decisions_table.sh DATA [PREFIXES]}") n=${2:-200} failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sky=$data/traces/skypilot

row() { # KIND WHAT COMMAND...: one line of the table; what differs goes to stderr
    local kind=$1 what=$2
    shift 2
    tests/decisions.sh "$@" >"$tmp/out" || failed=1
    sed '$d' "$tmp/out" >&2
    echo "| $kind | $what | $(sed -n '$s/.*: \([0-9]*\) of \([0-9]*\) .*/\1 of \2/p' "$tmp/out") |"
}
train() { # JOB TRACE seconds of notice, in turn
    local job trace notice
    while read -r job trace notice; do
        awk -F, 'NR == 1 { print "time_s,available" } NR > 1 { print $1 "," $4 }' "$data/traces/$trace.csv" >"$tmp/t.csv"
        row train "$job on ${trace#*/}, losses told $notice s before" "examples/jobs/$job.json" "$tmp/t.csv" "$n" "$notice"
    done <<'END'
bert parcae/p3trace 120
gpt-1.5b parcae/p3trace 0
gpt-6.7b parcae/p3trace 120
gpt-1.5b bamboo/g4dn-trace 30
bert bamboo/g4dn-trace 0
gpt-6.7b bamboo/aws-g4dn-us-east-1c-2020-11 0
END
    row train "the demonstration's" examples/jobs/demo.json examples/traces/demo.csv "$n" 30
}
fleet() {
    local four=$sky/avail-1-node-aws-02-15-2023 k
    { head -1 "$four/us-east-1c_v100_1.csv"
      for f in "$four"/*_v100_1.csv; do sed 1d "$f"; done; } | awk -F, 'NR == 1 || $1 < 600000' >"$tmp/four.csv"
    for k in 1 2 3; do row fleet "$k of four zones, aim .998" fleet "$tmp/four.csv" "$n" $k .998; done
    cp "$sky/preem-4-node-aws-08-03-2023/us-west-2c_v100_1.csv" "$tmp/one.csv"
    row fleet "2 of one zone of four" fleet "$tmp/one.csv" "$n" 2 .99
    awk -F, 'NR == 1 || $1 < 172800' "$tmp/one.csv" >"$tmp/two-days.csv"
    spot-replay generate -q --kind load --rate .5 --swing .6:6h --hours 48 |
        awk -F, -v OFS=, 'NR == 2 { first = $1 } NR > 1 { $1 = sprintf("%.6f", $1 - first) } 1' >"$tmp/l.csv" # it begins with the trace
    row fleet "one zone of four, a load" fleet "$tmp/two-days.csv" "$n" 2 .99 300 "$tmp/l.csv" .2
}
deadline() {
    local west=$sky/avail-1-node-aws-10-26-2022/us-west-2a_v100_1.csv east=$sky/avail-1-node-aws-02-15-2023
    row deadline "48 h by 70, us-west-2a" deadline "$west" "$n" 691200 --work 48h --deadline 70h --restart 12m
    row deadline "24 h by 40, us-east-1c" deadline "$east/us-east-1c_v100_1.csv" "$n" 691200 --work 24h --deadline 40h --restart 25m
    { cat "$east/us-east-1c_v100_1.csv"; sed 1d "$east/us-west-2a_v100_1.csv"; } >"$tmp/two.csv"
    row deadline "24 h by 40, two regions" deadline "$tmp/two.csv" "$n" 345600 --work 24h --deadline 40h --restart 12m --egress-usd 1
}
price() { # a deadline with the prices of each hour
    local w
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h\np3.2xlarge,.9731,3.06\n' >"$tmp/catalogue.csv"
    for w in 56 12 79; do
        row "deadline, prices" "24 h by 48, nine zones, window $w" deadline "$data/market/windows/w$w.csv" "$n" 0 \
            --work 24h --deadline 48h --restart 12m --catalogue "$tmp/catalogue.csv" --tick 195
    done
}
serve() {
    local name
    jq 'del(.instance_type)' examples/serve/gpt-20b.json >"$tmp/job.json"
    spot-replay generate -q --kind load --rate .5 --arrivals gamma:6 --hours 10 >"$tmp/l.csv"
    spot-replay generate -q --kind load --rate .5 --swing .6:4h:2h --hours 10 >"$tmp/day.csv"
    for name in "p3 $data/traces/parcae/p3trace.csv" "g4dn $data/traces/bamboo/g4dn-trace.csv"; do
        awk -F, 'NR == 1 { print "time_s,available" } NR > 1 && $1 <= 36000 { print $1 "," $4 }' "${name#* }" >"$tmp/t.csv"
        row serve "${name%% *}, bursts" serve "$tmp/job.json" "$tmp/t.csv" "$tmp/l.csv" "$n"
        row serve "${name%% *}, a day of four hours" serve "$tmp/job.json" "$tmp/t.csv" "$tmp/day.csv" "$n"
    done
}
share() {
    local trace policy
    printf 'instance_type,count,usd_per_h\nv100,8,2.48\np100,16,1.46\nk80,24,0.45\n' >"$tmp/c.csv"
    spot-replay import --from gavel "$data/golden/gavel/physical_cluster_isolated.csv" -o "$tmp/t.json"
    for trace in max_min_fairness minimize_makespan; do
        spot-replay import --from gavel "$data/golden/gavel/$trace.trace" -o "$tmp/j.csv"
        for policy in spot spot:max-min; do
            POLICY=$policy row share "$policy, $trace" share "$tmp/j.csv" "$tmp/c.csv" "$tmp/t.json" "$n" --switch 20s --checkpoint 6m
        done
    done
}
echo "| kind | of | decisions that agree |"
echo "|---|---|---:|"
for kind in ${KINDS-train fleet deadline price serve share}; do "$kind"; done
[ $failed -eq 0 ]
