#!/bin/sh
# SPDX-License-Identifier: MIT
# spot beside the better of nowcast and persistence on 200 generated traces of up to 32 instances and 30 with a
# timetable (tests/trace_family.h), none of them tuned on; points of `ideal`. Half an hour of a core.
# usage: train_generated.sh [OTHER]    OTHER: bench_regret of another build, whose spot is held against this one's
# KEEP=DIR keeps the rows; what is there already is not played again.
set -eu
cd "$(dirname "$0")/../.."
bench=build/release/bench/bench_regret other=${1-}
dir=${KEEP-$(mktemp -d)}
[ -n "${KEEP-}" ] || trap 'rm -rf "$dir"' EXIT
rows() { # NAME PROGRAM MODE FROM TO
    [ -s "$dir/$1.csv" ] || { "$2" "$3" "$4" "$5" >"$dir/part" && mv "$dir/part" "$dir/$1.csv"; }
}
tell() { # NAME TITLE
    [ -z "$other" ] || set -- "$1" "$2" "$dir/$1-other.csv"
    awk -F, -v title="$2" 'FNR == 1 { file++; next } $5 == 0 { next } # nothing can run
        file == 1 { key = $1 "," $2; n++; s[key] = $6 / $5; best = ($7 > $8 ? $7 : $8) / $5
            d = 100 * (s[key] - best); sum += d; above += d >= 0; least = n == 1 || d < least ? d : least
            if (d < -.1) behind++
            if (NF > 8) { optimal++; room += 100 * ($9 / $5 - s[key]) }
            next }
        { key = $1 "," $2; if (!(key in s)) next
            d = 100 * (s[key] - $6 / $5); m++; more += d; low = m == 1 || d < low ? d : low; high = m == 1 || d > high ? d : high
            worse += d < -.1 }
        END { printf "| %s | %d | %.1f %% | %+.2f | %+.2f | %d | %.2f |", title, n, 100 * above / n, sum / n, least, behind, optimal ? room / optimal : 0
            if (m) printf " %+.2f (%+.2f to %+.2f), %d |", more / m, low, high, worse
            print "" }' "$dir/$1.csv" ${3+"$3"}
}
for job in generated:1000:1306 timetable:0:30; do
    name=${job%%:*} range=${job#*:}
    rows "$name" "$bench" "$name" "${range%:*}" "${range#*:}"
    [ -z "$other" ] || rows "$name-other" "$other" "$name" "${range%:*}" "${range#*:}"
done
echo "| traces | n | not below the better | mean | least | more than .1 behind | optimal above spot |${other:+ spot less that of OTHER, more than .1 below |}"
echo "|---|---:|---:|---:|---:|---:|---:|${other:+---:|}"
tell generated "walks, storms, blackouts, levels, echoes"
tell timetable "a timetable"
