#!/bin/bash
# SPDX-License-Identifier: MIT
# A generation written and read on idle cores, beside what the disk does in the same minute.
#   tests/bench/restore.sh [N] [BEFORE-BIN-DIR]     N (3) times each; with another spot-run in turns with that one
# Grid 2x2, four workers of this machine. Written: from the last commit until its state is durable, beside
# `dd conv=fsync` of as many bytes. Read: `--resume` with cold caches, from the order to the members until the grid is formed, beside
# `dd` of the same files. Needs the right to drop caches (/proc/sys/vm/drop_caches).
#   LAYERS=12 WIDTH=768   the model      DIR=/var/tmp   where the state lies
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
n=${1:-3} before=${2-}
tmp=$(mktemp -d -p "${DIR:-/var/tmp}")
trap 'rm -rf "$tmp"' EXIT
cat "$here/LICENSE" "$here/README.md" "$here"/docs/design/*.md >"$tmp/text"

cold() { sync && echo 3 >/proc/sys/vm/drop_caches; }
now() { date +%s.%N; }
since() { echo "$(now) - $1" | bc -l; }

job() { # BIN ARGUMENTS
    "$1/spot-run" train --quiet --data "$tmp/text" --layers "${LAYERS:-12}" --width "${WIDTH:-768}" --heads 12 --seq 16 \
        --global-batch 4 --grid 2x2 --workers 4 --state "$tmp/state" "${@:2}" 2>"$tmp/err" || { cat "$tmp/err" >&2 && exit 1; }
}

told() { # EVENT: when it was, the last one
    jq -s "map(select(.event == \"$1\")) | last.time_s" "$tmp/log"
}

row() { # WHAT BIN MB SECONDS DISK-SECONDS
    echo "$@" | awk '{ printf "%s\t%s\t%d MB\t%.0f MB/s\t%.0f MB/s\t%.2f\n", $1, $2, $3, $3 / $4, $3 / $5, $5 / $4 }'
}

measure() { # NAME BIN
    local mb at wrote read disk
    rm -rf "$tmp/state"
    job "$2" --steps 1 --events "$tmp/log"
    wrote=$(echo "$(told durable) - $(told committed)" | bc -l)
    mb=$(du -sb "$tmp/state" | awk '{ printf "%.0f", $1 / 1e6 }')
    at=$(now)
    dd if=/dev/zero of="$tmp/zero" bs=1MB count="$mb" conv=fsync status=none
    disk=$(since "$at")
    rm "$tmp/zero"
    row write "$1" "$mb" "$wrote" "$disk"
    cold
    at=$(now)
    find "$tmp/state" -type f -exec dd if={} of=/dev/null bs=1M status=none \;
    disk=$(since "$at")
    cold
    job "$2" --steps 2 --resume --events "$tmp/log.2"
    read=$(jq -s 'map({(.event): .time_s}) | add | .formed - .migrate' "$tmp/log.2")
    row read "$1" "$mb" "$read" "$disk"
    rm "$tmp/log" "$tmp/log.2"
}

printf 'what\tof\tsize\tours\tdd\tshare\n'
for _ in $(seq "$n"); do
    [ -z "$before" ] || measure before "$before"
    measure now "${BIN:-$here/build/release/bin}"
done
