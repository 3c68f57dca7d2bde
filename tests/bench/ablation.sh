#!/bin/bash
# SPDX-License-Identifier: MIT
# What each part of a forecast is worth to policy spot: docs/results/decisions.md. Traces drawn by spot-replay generate with
# seeds that nothing was tuned on; each played with the whole forecast and with less of it (tests/bench/ablate.c).
# usage: ablation.sh [TRACES]    of each kind (default: 20); ten minutes of a core. KIND="train fleet" (the default) names some;
# KEEP=DIR keeps the rows.
set -euo pipefail
cd "$(dirname "$0")/../.."
replay=build/release/bench/spot-replay-ablated n=${1:-20} kind=" ${KIND-train fleet} "
[ -x "$replay" ] || make -s "$replay"
dir=${KEEP-$(mktemp -d)}
[ -n "${KEEP-}" ] || trap 'rm -rf "$dir"' EXIT
profile=(typical stormy calm)
play() { # WHAT COMMAND...: of spot, the columns in WANT
    local what=$1
    shift
    ABLATE=$what "$replay" "$@" --quiet --format csv | awk -F, -v want="$WANT" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; m = split(want, name, " "); next }
        { for (i = 1; i <= m; i++) printf " %s", $at[name[i]] }'
}
# Mean of a column of differences by trace, with 95 % of Student's t.
tell() { # FILE COLUMN
    awk -v c="$2" '{ n++; s += $c; q += $c * $c; low = n == 1 || $c < low ? $c : low; high = n == 1 || $c > high ? $c : high }
        END { m = s / n; t = 1.96 + 2.4 / (n - 1) + 3.1 / (n - 1) ^ 2 + 4.5 / (n - 1) ^ 3; e = t * sqrt((q / n - m * m) / (n - 1))
            printf "%+.3f (%+.3f, %+.3f), %+.2f to %+.2f", m, m - e, m + e, low, high }' "$1"
}
train() { # ZONES: points of ideal that are lost
    local zones=$1 k ideal whole less what job
    local jobs=(gpt-1.5b gpt-6.7b bert resnet152 vgg19)
    rm -f "$dir/train-$zones".*
    for ((k = 0; k < n; k++)); do
        job=examples/jobs/${jobs[k % 5]}.json
        spot-replay generate --zones "$zones" --regions $(((zones + 1) / 2)) --cap $((16 / zones)) --hours 3 --profile "${profile[k % 3]}" --seed $((7000 + k)) \
            -o "$dir/t.csv"
        ask=(train --job "$job" --trace "$dir/t.csv" --notice $((k / 5 % 2 * 120))s:0)
        WANT=samples
        ideal=$(play nothing "${ask[@]}" --policy ideal) whole=$(play nothing "${ask[@]}" --policy spot)
        for what in steps first age zones; do
            less=$(play $what "${ask[@]}" --policy spot)
            awk -v i="$ideal" -v w="$whole" -v l="$less" 'BEGIN { if (i > 0) print 100 * (w - l) / i }' >>"$dir/train-$zones.$what"
        done
    done
    for what in steps first age zones; do
        echo "| train, $zones zone(s), $(wc -l <"$dir/train-$zones.$what") traces | $what | $(tell "$dir/train-$zones.$what" 1) |"
    done
}
fleet() { # COLD start in ticks: % of usd that less costs more; ticks missed for each that the whole forecast misses
    local cold=$1 k whole less what
    rm -f "$dir/fleet-$cold".*
    for ((k = 0; k < n; k++)); do
        spot-replay generate --zones 4 --regions 2 --cap $((1 + k % 2)) --interval 195 --hours 270 --profile "${profile[k % 3]}" --seed $((8000 + k)) -o "$dir/t.csv"
        ask=(fleet --trace "$dir/t.csv" --n $((1 + k / 3 % 3)) --availability .99 --cold-start $((cold * 195))s --policy spot)
        WANT="usd availability"
        whole=$(play nothing "${ask[@]}")
        for what in steps age zones; do
            less=$(play $what "${ask[@]}")
            echo "$whole $less" | awk '{ print 100 * ($3 / $1 - 1), (1 - $4) / (1 - $2) }' >>"$dir/fleet-$cold.$what"
        done
    done
    for what in steps age zones; do
        echo "| fleet, cold start of $cold ticks, $n traces | $what | $(tell "$dir/fleet-$cold.$what" 1) | $(tell "$dir/fleet-$cold.$what" 2) |"
    done
}
spot-replay --version
if [[ $kind == *" train "* ]]; then
    echo "| traces | without | points of ideal lost: mean (95 %), least to most |"
    echo "|---|---|---|"
    train 1
    train 4
fi
if [[ $kind == *" fleet "* ]]; then
    echo "| traces | without | usd more, %: mean (95 %), least to most | missed ticks, to those of the whole |"
    echo "|---|---|---|---|"
    fleet 1
    fleet 4
fi
