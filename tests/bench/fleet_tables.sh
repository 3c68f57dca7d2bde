#!/bin/bash
# SPDX-License-Identifier: MIT
# The tables of docs/results/fleet.md, as Markdown, with the version that made them.
# usage: fleet_tables.sh DATA    spot-replay on PATH; DATA: the public traces (parcae, bamboo, skypilot, requests)
# PART="replicas misses load mixed" (the default), or law: ten minutes of a core.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?usage: fleet_tables.sh DATA} part=" ${PART-replicas misses load mixed} " tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
four=$data/skypilot/avail-1-node-aws-02-15-2023 half=1179165 # 6047 ticks of 195 s
wanted() { [[ $part == *" $1 "* ]]; }
replay() { spot-replay fleet --quiet --format csv "$@"; }
of() { awk -F, -v policy="$1" -v want="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } $1 == policy { print $at[want] }'; }

{ head -1 "$four/us-east-1c_v100_1.csv"
  for f in "$four"/*_v100_1.csv; do sed 1d "$f"; done; } >"$tmp/whole.csv"
awk -F, -v half=$half 'NR == 1 || $1 < half' "$tmp/whole.csv" >"$tmp/first.csv"
awk -F, -v OFS=, -v half=$half 'NR > 1 { if ($1 < half) next; $1 -= half } 1' "$tmp/whole.csv" >"$tmp/second.csv"
spot-replay --version

if wanted replicas; then
    echo "| trace | N | spothedge | spot | its misses to SpotHedge's | its cost to SpotHedge's | omniscient |"
    echo "|---|---|---|---|---|---|---|"
    for trace in whole first second; do
        for n in 1 2 3; do
            aim=$(replay --trace "$tmp/$trace.csv" --n $n --policy spothedge | of spothedge availability)
            replay --trace "$tmp/$trace.csv" --n $n --policy spothedge,spot,omniscient --availability "$aim" |
                awk -F, -v name="$trace | $n" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
                    { a[$1] = $at["availability"]; c[$1] = $at["cost_ratio"] }
                    END { printf "| %s | %.4f / %.4f | %.4f / %.4f | %.2f | %.3f | %.3f |\n", name, a["spothedge"], c["spothedge"], a["spot"],
                        c["spot"], (1 - a["spot"]) / (1 - a["spothedge"]), c["spot"] / c["spothedge"], c["omniscient"] }'
        done
    done
fi
if wanted misses; then # is the aim kept, where nothing was tuned but on the first half
    cp "$data/skypilot/avail-16-node-aws-08-27-2023/us-west-2a_v100_1.csv" "$tmp/avail-16.csv"
    cp "$data/skypilot/preem-4-node-aws-08-03-2023/us-west-2c_v100_1.csv" "$tmp/preem-4.csv"
    for type in v100 k80; do cp "$data/skypilot/avail-1-node-aws-10-26-2022/us-west-2a_${type}_1.csv" "$tmp/one-$type.csv"; done
    for k in 1 2 3; do spot-replay generate -q --zones 4 --regions 2 --cap 2 --interval 195 --hours 327 --seed 90$k -o "$tmp/drawn-$k.csv"; done
    for k in 4 5; do
        spot-replay generate -q --zones 3 --cap 1 --interval 195 --hours 327 --law loss_per_h=1,gain_per_h=4,shock_per_h=.1 --seed 90$k -o "$tmp/drawn-$k.csv"
    done
    echo "| trace | N | aim | missed ticks / allowed | cost | SpotHedge: missed / allowed, cost |"
    echo "|---|---|---|---|---|---|"
    for trace in first second avail-16 preem-4 one-v100 one-k80 drawn-1 drawn-2 drawn-3 drawn-4 drawn-5; do
        case $trace in avail-16 | preem-4) most=2 ;; one-*) most=1 ;; *) most=3 ;; esac
        for ((n = 1; n <= most; n++)); do
            for aim in .99 .998; do
                replay --trace "$tmp/$trace.csv" --n $n --policy spot,spothedge --availability $aim --steps |
                    awk -F, -v name="$trace | $n | $aim" -v aim=$aim -v n=$n 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
                        { t[$1]++; missed[$1] += $at["unserved"] > 0; usd[$1] += $at["usd"]; if (NR == 2) from = $at["time_s"]; if (NR == 3) tick = $at["time_s"] - from }
                        function ratio(p) { return missed[p] / ((1 - aim) * t[p]) }
                        function cost(p) { return usd[p] / (t[p] * n * 3.06 * tick / 3600) }
                        END { printf "| %s | %.2f (%d) | %.3f | %.2f, %.3f |\n", name, ratio("spot"), missed["spot"], cost("spot"), ratio("spothedge"), cost("spothedge") }'
            done
        done
    done
fi
if wanted law; then # no probe is known: each tick is one
    for trace in first second; do
        for n in 1 2 3; do
            aim=$(replay --trace "$tmp/$trace.csv" --n $n --policy spothedge | of spothedge availability)
            echo "$trace half: $(build/release/bench/bench_fleet_law "$tmp/$trace.csv" $n "$aim" 1 4)"
        done
    done
fi
if wanted load; then
    echo "| load | policy | availability / cost / unserved |"
    echo "|---|---|---|"
    for load in azure2023_conv mooncake_synthetic; do
        one() { # POLICY AIM NAME
            replay --trace "$data/skypilot/preem-4-node-aws-08-03-2023/us-west-2c_v100_1.csv" --load "$data/requests/$load.csv" \
                --per-replica 1.5 --policy "$1" --availability "$2" | awk -F, -v name="$load | $3" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
                    { printf "| %s | %.4f / %.3f / %.4f |\n", name, $at["availability"], $at["cost_ratio"], $at["unserved_share"] }'
        }
        one on-demand .99 'on demand, autoscaled'
        one spothedge .99 spothedge
        for aim in .999 .99 .95; do one spot $aim "spot, aim $aim"; done
        one omniscient .99 'omniscient, aim .99'
    done
fi
# Three series as zones, rows FROM <= time_s < FROM + LENGTH.
three() { # OUT FROM LENGTH V100 T4 K80
    local out=$1 from=$2 length=$3 z=0 f type
    shift 3
    echo time_s,zone,instance_type,available >"$out"
    for f; do
        type=(p3.2xlarge g4dn.xlarge p2.xlarge)
        awk -F, -v OFS=, -v from="$from" -v length_s="$length" -v zone="zone-$z" -v type="${type[z]}" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            $at["time_s"] >= from && $at["time_s"] < from + length_s { print $at["time_s"] - from, zone, type, $at["available"] }' "$f" >>"$out"
        z=$((z + 1))
    done
}
mixed() { # TRACE LOAD NAME
    replay --trace "$1" --tick 60 --cold-start 60 --load "$2" --demand examples/fleet/three-types.json \
        --catalogue examples/fleet/three-types.csv --unserved .01 --policy all |
        awk -F, -v name="$3" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            { printf "| %s | %s | %.1f / %.4f / %.2f |\n", name, $1, $at["usd"], $at["unserved_share"], $at["to_bound"] }'
}
if wanted mixed; then
    three "$tmp/three.csv" 0 38880 "$data/parcae/p3trace.csv" "$data/bamboo/g4dn-trace.csv" "$data/bamboo/aws-p2-us-east-1e-2020-11.csv"
    lengths=$data/requests/azure2023_conv.csv
    generate() { spot-replay generate --kind load --rate 6 --hours 24 --lengths "$lengths" --seed 101 "$@"; }
    generate --swing .5:6h >"$tmp/chat.csv"
    generate --arrivals gamma:6 >"$tmp/bursty.csv"
    generate --arrivals on-off:5m:15m >"$tmp/on-off.csv"
    echo "| load | policy | usd / unserved / usd over the bound |"
    echo "|---|---|---|"
    for load in "$data/requests/azure2023_conv.csv" "$data/requests/mooncake_synthetic.csv" "$tmp/chat.csv" "$tmp/bursty.csv" "$tmp/on-off.csv"; do
        mixed "$tmp/three.csv" "$load" "$(basename "$load" .csv)"
    done
fi
