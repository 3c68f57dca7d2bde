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

steps_of() { # WORKERS GRID: ms from commit to commit
    spot-run train --quiet --data "$tmp/text" --steps "$steps" --seed 3 --workers "$1" --grid "$2" \
        --durable-every 1h --events "$tmp/events"
    sed -n 's/.*"event":"committed","time_s":\([0-9.]*\).*/\1/p' "$tmp/events" |
        awk 'NR > 1 { print 1e3 * ($1 - at) } { at = $1 }'
}
quartile() { # the lower one of a file of numbers: what else a machine does only adds
    sort -g "$1" | awk '{ x[NR] = $1 } END { print x[int((NR + 3) / 4)] }'
}

compare() { # WORKERS GRID
    local round how
    for ((round = 0; round < rounds; round++)); do
        for how in 1 0; do
            SPOT_TEST_BUDDIES=$how steps_of "$1" "$2" >>"$tmp/$2-$how"
        done
    done
    awk -v n="$1" -v grid="$2" -v with="$(quartile "$tmp/$2-1")" -v without="$(quartile "$tmp/$2-0")" \
        'BEGIN { printf "%d workers, grid %s  step %5.1f ms with buddies, %5.1f ms without  %+.1f %%\n",
            n, grid, with, without, 100 * (with / without - 1) }'
}

echo "$(nproc) cores, $rounds rounds of $steps steps, lower quartile"
compare 2 1x1
compare 3 1x2
