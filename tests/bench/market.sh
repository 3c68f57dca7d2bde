#!/bin/bash
# SPDX-License-Identifier: MIT
# What a job with a deadline costs in nine zones, under every policy: docs/results/market.md.
# usage: market.sh WINDOWS tune|test [EVERY [PICTURE]]    WINDOWS: a folder of wNN.csv, nine zones over 60 h each, every 195 s;
#     tune: those that begin in the first half of the time they cover, test: the others, none of which overlaps one of tune; of
#     them every EVERY-th. PICTURE: draw money against slack into that .svg instead of the table (gnuplot).
# The tools on PATH.
set -euo pipefail
# in the order of their begin: 530 h of one record
tune="91 57 40 19 86 52 94 15 39 43 97 48 47 89 10 42 08 20 71 05 60 96"
test="56 31 82 85 61 54 07 12 34 95 75 80 78 98 24 14 41 02 36 28 62 46 74 38 26 03 79"
dir=$1 part=$2 every=${3:-1} picture=${4:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h\np3.2xlarge,.9731,3.06\n' >"$tmp/catalogue.csv"

# WORK_H DEADLINE_H RESTART_MIN: policy,mean usd,late,windows
play() {
    local i=0 w
    for w in $([ "$part" = tune ] && echo "$tune" || echo "$test"); do
        [ $((i++ % every)) = 0 ] || continue
        spot-replay deadline -q --format csv --trace "$dir/w$w.csv" --catalogue "$tmp/catalogue.csv" --work "$1h" --deadline "$2h" \
            --restart "$3m" --tick 195 | sed 1d
    done | awk -F, -v OFS=, '!($1 in n) { order[++k] = $1 } { n[$1]++; usd[$1] += $2; late[$1] += $4 }
        END { for (i = 1; i <= k; i++) print order[i], usd[order[i]] / n[order[i]], late[order[i]], n[order[i]] }'
}

if [ -n "$picture" ]; then
    for deadline in 25 26 28 32 36 42 48 56; do
        play 24 "$deadline" 12 | sed "s/^/$deadline,/"
    done >"$tmp/all"
    { echo "set terminal svg size 760,420; set output '$picture'; set xlabel 'deadline (h) of 24 h of work'; set ylabel 'usd of a job, mean'"
      echo "set key outside right; set grid; set datafile separator ','; set xrange [24:57]; set yrange [20:80]"
      echo -n plot
      for p in on-demand levi openevolve shinka gepa greedy skynomad uniform-progress spot offline; do
          grep ",$p," "$tmp/all" >"$tmp/$p"
          case $p in # ours and the two bounds are drawn apart from the others
          spot) name='ours' style="lc 'black' lw 3 pt 7" ;;
          offline) name='optimum' style="lc 'black' dt 2 pt 6" ;;
          on-demand) name='on demand' style="lc 'black' dt 3 pt 0" ;;
          *) name=$p style='' ;;
          esac
          echo -n " '$tmp/$p' using 1:3 with linespoints $style title '$name'$([ $p = offline ] || echo ,)"
      done; } >"$tmp/plot"
    gnuplot "$tmp/plot"
    exit
fi
first=1
for row in 24:36:3 24:36:12 24:48:3 24:48:12 48:52:12; do
    IFS=: read -r work deadline restart <<<"$row"
    play "$work" "$deadline" "$restart" >"$tmp/row"
    if [ $first = 1 ]; then
        awk -F, 'BEGIN { printf "| work h | deadline h | restart min |" } { printf " %s |", $1 } END { print " spot / best of others | spot / offline | late |" }' "$tmp/row"
        awk -F, 'BEGIN { printf "|---|---|---|" } { printf "---|" } END { print "---|---|---|" }' "$tmp/row"
        first=0
    fi
    awk -F, -v head="| $work | $deadline | $restart |" 'BEGIN { printf "%s", head; best = 1e9 }
        { printf " %.2f |", $2; usd[$1] = $2; late += $3 }
        $1 !~ /^(spot|known-law|offline)$/ && $2 < best { best = $2 }
        END { printf " %.3f | %.3f | %d |\n", usd["spot"] / best, usd["spot"] / usd["offline"], late }' "$tmp/row"
done
