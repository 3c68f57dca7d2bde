#!/bin/bash
# SPDX-License-Identifier: MIT
# What a buddy costs in a step, the model of tests/bench/pause.sh, with and without in turn: on one
# worker and its buddy (a core each), then on a grid of 1x2 and three workers.
#   tests/bench/buddy.sh [ROUNDS] [STEPS]
set -eu
rounds=${1:-5} steps=${2:-60}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat /usr/share/common-licenses/* LICENSE >"$tmp/text" 2>/dev/null || cp LICENSE "$tmp/text"

median_step() { # WORKERS GRID HOW, ms
    spot-run train --quiet --data "$tmp/text" --steps "$steps" --seed 3 --workers "$1" --grid "$2" "$3" \
        --durable-every 1h --events "$tmp/events"
    spot-run report --format csv "$tmp/events" | sed -n 's/^median step,\([0-9.]*\) ms$/\1/p'
}
middle() { # of a file of numbers
    sort -g "$1" | sed -n "$(((rounds + 1) / 2))p"
}

compare() { # WORKERS GRID
    local round how
    for ((round = 0; round < rounds; round++)); do
        for how in --buddies --no-buddies; do
            median_step "$1" "$2" "$how" >>"$tmp/$2$how"
        done
    done
    awk -v n="$1" -v grid="$2" -v with="$(middle "$tmp/$2--buddies")" -v without="$(middle "$tmp/$2--no-buddies")" \
        'BEGIN { printf "%d workers, grid %s  step %5.1f ms with buddies, %5.1f ms without  %+.1f %%\n",
            n, grid, with, without, 100 * (with / without - 1) }'
}

echo "$(nproc) cores, $rounds rounds of $steps steps"
compare 2 1x1
compare 3 1x2
