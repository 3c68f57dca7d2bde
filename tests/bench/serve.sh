#!/bin/bash
# SPDX-License-Identifier: MIT
# serve.sh DATA [seen|unseen|spotserve] [OPTION...] - ours against SpotServe's corrected rule on paper.
#
# DATA has traces/ and golden/spotserve/ of the reference data. Each cell is a trace and a load; a row
# says P99 end to end (s) and USD per million tokens of both, and the ratios. Options go to spot-replay serve.
set -euo pipefail

data=$1
set=${2:-seen}
shift $(($# < 2 ? $# : 2))
top=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

# cut FILE FROM_H TO_H >trace: counts, on a clock that begins with the window
cut_trace() {
    awk -F, -v a="$2" -v b="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == "available") k = i; print "time_s,available"; next }
        $1 <= a * 3600 { v = $k; next }
        $1 <= b * 3600 { if (!s) print "0," v; s = 1; print $1 - a * 3600 "," $k }' "$1"
}

# loads RATE HOURS SEED: bursts of a true CV of 6, a day of four hours, the arrivals of Azure slowed down
loads() {
    spot-replay generate -q --kind load --arrivals gamma:6 --rate "$1" --hours "$2" --seed "$3" >cv6.csv
    spot-replay generate -q --kind load --rate "$1" --swing .6:4h:2h --hours "$2" --seed "$3" >day.csv
    awk -F, -v r="$1" -v h="$2" 'NR == FNR { if (FNR > 1) { n++; last = $1 } next }
        FNR == 1 { k = n / last / r; print; next } $1 * k <= h * 3600 { printf "%.6f,512,128\n", $1 * k }' \
        "$data/traces/requests/azure2023_conv.csv" "$data/traces/requests/azure2023_conv.csv" >azure.csv
}

# cell NAME MODEL LOAD [OPTION...]: of t.csv
cell() {
    local name=$1 model=$2 load=$3
    shift 3
    spot-replay serve --job "$top/examples/serve/gpt-$model.json" --trace t.csv --load "$load" \
        --policy spotserve,spot,clairvoyant --format csv "$@" | awk -F, -v name="$name" '
        NR > 1 { p[$1] = $13; u[$1] = $18 }
        END { printf "%s,%.1f,%.1f,%.3f,%.2f,%.2f,%.3f,%.3f,%.3f\n", name, p["spotserve"], p["spot"],
            p["spot"] / p["spotserve"], u["spotserve"], u["spot"], u["spot"] / u["spotserve"],
            p["clairvoyant"] / p["spotserve"], u["clairvoyant"] / u["spotserve"] }'
}

three() { # NAME MODEL RATE HOURS SEED [OPTION...]
    local name=$1 model=$2 rate=$3 hours=$4 seed=$5 load
    shift 5
    loads "$rate" "$hours" "$seed"
    for load in cv6 azure day; do cell "$name $load" "$model" $load.csv "$@"; done
}

run_spotserve() { # their four traces and arrivals, at the rate that their artifact asks for
    local name
    for name in A_S:1320 B_S:1020 A_SO:1380 B_SO:720; do
        awk -F, -v e="${name#*:}" 'NR == 1 { print "time_s,available"; next }
            $2 == "add" || $2 == "remove" { n[$1] = $4; if (!($1 in s)) o[++k] = $1; s[$1] = 1; last = $4 }
            END { for (i = 1; i <= k; i++) print o[i] "," n[o[i]]; print e "," last }' \
            "$data/golden/spotserve/trace_${name%:*}.csv" >t.csv
        spot-replay generate -q --kind load --arrivals spotserve --rate .35 \
            --hours "$(awk "BEGIN { print ${name#*:} / 3600 }")" >l.csv
        cell "${name%:*}" 20b l.csv --rate .4 "$@"
    done
}

run_seen() {
    cut_trace "$data/traces/bamboo/g4dn-trace.csv" 4 10 >t.csv && three g4dn 20b .46 6 1 "$@"
    cut_trace "$data/traces/parcae/p3trace.csv" 4 10 >t.csv && three p3 20b .75 6 1 "$@"
    cut_trace "$data/traces/bamboo/aws-g4dn-us-east-1c-2020-11.csv" 8 16 >t.csv && three east-1c 20b .38 8 1 "$@"
    cut_trace "$data/traces/bamboo/aws-p2-us-east-1-2020-11.csv" 4 12 >t.csv && three p2 20b .5 8 1 "$@"
    cut_trace "$data/traces/skypilot/avail-16-node-aws-08-27-2023/us-west-2a_v100_1.csv" 0 8 >t.csv &&
        three west-2a 20b .35 8 1 "$@"
}

run_unseen() {
    cut_trace "$data/traces/parcae/p3trace.csv" 0 4 >t.csv && three p3-early 20b .9 4 5 "$@"
    cut_trace "$data/traces/bamboo/aws-p2-us-east-1-2020-11.csv" 60 68 >t.csv && three p2-late 20b .5 8 5 "$@"
    cut_trace "$data/traces/skypilot/preem-4-node-aws-08-03-2023/us-west-2c_v100_1.csv" 24 40 >t.csv &&
        three west-2c 6.7b .5 16 5 "$@"
    spot-replay generate --profile stormy --hours 8 --cap 16 --seed 11 >g.csv
    cut_trace g.csv 0 8 >t.csv && three stormy 20b .4 8 5 "$@"
    spot-replay generate --profile typical --hours 8 --cap 8 --seed 12 >g.csv
    cut_trace g.csv 0 8 >t.csv && three typical 6.7b .9 8 5 "$@"
}

echo "cell,p99_spotserve_s,p99_spot_s,p99_ratio,usd_spotserve,usd_spot,usd_ratio,p99_ratio_clairvoyant,usd_ratio_clairvoyant"
"run_$set" "$@" | tee rows.csv
awk -F, '{ p += log($4); u += log($7); if ($4 > wp) wp = $4; if ($7 > wu) wu = $7 }
    END { printf "geometric mean,,,%.3f,,,%.3f,,\nworst,,,%.3f,,,%.3f,,\n", exp(p / NR), exp(u / NR), wp, wu }' rows.csv
