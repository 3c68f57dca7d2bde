#!/bin/bash
# SPDX-License-Identifier: MIT
# Does what comes later change what policy spot does before? The method of tests/unit/test_no_future.c through the tools, so
# that it asks any build, old ones too: each case is played twice, with another future, and the steps before are compared.
# usage: no_future.sh BIN [CASES]    BIN: the directory of the spot-replay that is asked (default: 200 cases a
# kind); the one on PATH draws the cases. Two minutes of a core. Fails if one differs.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:?usage: no_future.sh BIN [CASES]} cases=${2:-200} rc=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

steps() { "$bin/spot-replay" "$@" --quiet --policy spot --steps --format csv; }
before() { awk -F, -v end="$1" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["time_s"] < end'; }
draw() { spot-replay generate --quiet --seed "$@"; }
later() { # FILE END: another future: from END on what was there is gone and what was not comes, and ten rows more
    awk -F, -v OFS=, -v end="$2" -v more=$((seed % 5)) 'NR > 1 && $1 >= end { $2 = $2 > 0 ? more : more + 3 } { print; row[$1] = NR; zone[NR] = $0; time_s = $1 }
        NR == 2 { first = $1 } NR > 2 && $1 > first && !gap { gap = $1 - first }
        END { for (i = 1; i <= 10; i++) for (k = row[time_s - gap] + 1; k <= NR; k++) { n = split(zone[k], f, ","); f[1] = time_s + i * gap; f[2] = more + i % 3
            for (j = 1; j <= n; j++) printf "%s%s", f[j], j < n ? "," : "\n" } }' "$1"
}
train() {
    draw "$seed" --hours .5 --cap 6 >"$tmp/a.csv"
    later "$tmp/a.csv" 1200 >"$tmp/b.csv"
    for f in a b; do steps train --job examples/jobs/demo.json --trace "$tmp/$f.csv" --notice 0 | cut -d, -f 1-11 | before 1200 >"$tmp/$f"; done
}
fleet() {
    draw "$seed" --hours 1 --cap 3 --zones 2 >"$tmp/a.csv"
    later "$tmp/a.csv" 2400 >"$tmp/b.csv"
    for f in a b; do steps fleet --trace "$tmp/$f.csv" --n 2 --availability .99 | before 2400 >"$tmp/$f"; done
}
load() { # a spike in the last two ticks; a replay begins a load with its first request
    draw "$seed" --hours 1 --cap 3 --zones 2 >"$tmp/t.csv"
    draw "$seed" --kind load --rate .5 --hours 1 >"$tmp/a.csv"
    { cat "$tmp/a.csv"; for ((i = 0; i < 400; i++)); do echo "$((3480 + i / 4)),512,128"; done; } | awk -F, 'NR == 1 || $1 < 3600' | sort -t, -k1,1n -s >"$tmp/b.csv"
    for f in a b; do steps fleet --trace "$tmp/t.csv" --load "$tmp/$f.csv" --per-replica .2 --availability .99 | before 3360 >"$tmp/$f"; done
}
deadline() {
    draw "$seed" --hours 9 --interval 300 --cap 1 --zones 2 >"$tmp/a.csv"
    later "$tmp/a.csv" 18000 >"$tmp/b.csv"
    for f in a b; do steps deadline --trace "$tmp/$f.csv" --work 3h --deadline 7h --restart 5m --from 1h | awk -F, 'NR > 1 && NR <= 42' >"$tmp/$f"; done
}
echo "| kind | cases in which steps before differ |"
echo "|---|---:|"
for kind in ${KINDS-train fleet load deadline}; do
    differ=0
    for ((seed = 1; seed <= cases; seed++)); do
        "$kind"
        [ -s "$tmp/a" ] || { echo "$kind, case $seed: nothing was decided" >&2; exit 2; }
        cmp -s "$tmp/a" "$tmp/b" || { differ=$((differ + 1)) rc=1; }
    done
    echo "| $kind | $differ of $cases |"
done
[ $rc -eq 0 ]
