#!/bin/bash
# SPDX-License-Identifier: MIT
# Is what is measured what ships? At prefixes of a trace `spot-replay train --policy spot` and the pipe
# spot-predict | spot-plan train, which sees the prefix alone, have to decide the same.
# usage: decisions.sh JOB TRACE PREFIXES [NOTICE]    the tools on PATH; NOTICE in seconds (default: 120)
# Prints one line: how many of how many agree, and each that does not. Fails if one does not. The trace
# has one series.
set -eu
job=$1 trace=$2 prefixes=$3 notice=${4:-120}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

spot-replay train --quiet --job "$job" --trace "$trace" --policy spot --steps --notice-loss "${notice}s" \
    --format csv >"$tmp/steps"
interval=$(jq '.cost.interval_s // 60' "$job")
horizon=$(jq '.cost.look_ahead // 12' "$job")
profiled=$(jq '[.profile[] | .D * .P] | max' "$job")
told=losses
[ "$notice" != 0 ] || told=none

field() { # ROW COLUMN of --steps
    awk -F, -v row="$1" -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 && $2 == row { print $at[name] }' "$tmp/steps"
}

n=$(($(wc -l <"$tmp/steps") - 1)) same=0 all=0
step=$(((n - 1) / prefixes))
[ "$step" -gt 0 ] || step=1
for ((i = step; i < n && all < prefixes; i += step)); do
    awk -F, -v i="$i" 'NR == 1 { print "time_s,available" } NR > 1 && $2 < i { print $3 "," $4 }' "$tmp/steps" >"$tmp/prefix.csv"
    cap=$(awk -F, -v cap="$profiled" 'NR > 1 && $2 > most { most = $2 } END { while (cap < most) cap *= 2; print cap }' "$tmp/prefix.csv")
    # losses that are told: of this interval, and of those that begin before the notice is over
    announced=$(awk -F, -v i="$i" -v t="$interval" -v notice="$notice" 'NR > 1 && $2 >= i && notice > 0 &&
        ($2 == i || ($2 - i) * t < notice) { lost[++n] = $6; if ($6) last = n }
        END { for (k = 1; k <= last; k++) printf "%s%d", (k > 1 ? "," : ""), -lost[k] }' "$tmp/steps")
    ask=(--now "$(field $((i - 1)) available)" --starts next --told "$told")
    d=$(field $((i - 1)) D) p=$(field $((i - 1)) P)
    [ "$d" = 0 ] || ask+=(--current "${d}x$p" --pending "$(field $((i - 1)) carry_s)")
    [ -z "$announced" ] || ask+=(--announced="$announced")
    spot-predict --interval "$interval" --horizon "$horizon" --cap "$cap" "$tmp/prefix.csv" |
        spot-plan train --job "$job" --forecast - "${ask[@]}" 2>"$tmp/err" |
        jq -r '"\(.next.D) \(.next.P)"' >"$tmp/pipe"
    echo "$(field "$i" asked_D) $(field "$i" asked_P)" >"$tmp/replay"
    all=$((all + 1))
    if cmp -s "$tmp/pipe" "$tmp/replay"; then
        same=$((same + 1))
    else
        echo "interval $i: the replay $(cat "$tmp/replay"), the pipe $(cat "$tmp/pipe") with ${ask[*]}"
        cat "$tmp/err"
    fi
done
echo "$job, $trace, notice $notice s: $same of $all decisions agree"
[ "$same" = "$all" ]
