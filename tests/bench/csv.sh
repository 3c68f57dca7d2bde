#!/bin/bash
# SPDX-License-Identifier: MIT
# How fast CSV is read, and whether memory grows with it: describe of 20,000, 1 and 4 million rows,
# beside wc and awk on the same file.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
TIMEFORMAT=%R

best_s() { # of five runs
    for _ in 1 2 3 4 5; do
        { time "$@" >/dev/null; } 2>&1
    done | sort -g | head -n 1
}
peak_kb() { # of a run, by the kernel's own count
    bash -c '"$@" >/dev/null & pid=$!
        while read -r line < <(grep VmHWM /proc/$pid/status 2>/dev/null); do echo "$line"; done
        wait $pid' _ "$@" | awk '$2 > most { most = $2 } END { print most + 0 }'
}

printf '%-10s %10s %12s %10s %8s %8s\n' rows describe_s rows_per_s peak_KB wc_s awk_s
for hours in 333.33 16666.66 66666.66; do
    spot-replay generate --profile typical --hours $hours --seed 1 -o "$tmp/trace.csv"
    rows=$(($(wc -l <"$tmp/trace.csv") - 1))
    s=$(best_s spot-replay describe --format csv "$tmp/trace.csv")
    # shellcheck disable=SC2016 # awk's own $2
    printf '%-10s %10s %12.0f %10s %8s %8s\n' $rows "$s" "$(awk "BEGIN { print $rows / $s }")" \
        "$(peak_kb spot-replay describe --format csv "$tmp/trace.csv")" "$(best_s wc -l "$tmp/trace.csv")" \
        "$(best_s awk -F, '{ s += $2 } END { print s }' "$tmp/trace.csv")"
done
