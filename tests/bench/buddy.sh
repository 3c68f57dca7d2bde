#!/bin/bash
# SPDX-License-Identifier: MIT
# What a buddy costs in a step and saves after a kill: grid 1x2 on three workers, the model of
# tests/bench/pause.sh, with and without, in turn.   tests/bench/buddy.sh [ROUNDS] [STEPS]
set -eu
rounds=${1:-3} steps=${2:-60}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat /usr/share/common-licenses/* LICENSE >"$tmp/text" 2>/dev/null || cp LICENSE "$tmp/text"
for round in $(seq "$rounds"); do
    for how in --buddies --no-buddies; do
        spot-run train --quiet --data "$tmp/text" --steps "$steps" --seed 3 --workers 3 --grid 1x2 $how \
            --durable-every 1h --events "$tmp/$how$round"
        printf '%-13s %s\n' "$how" "$(spot-run report --format csv "$tmp/$how$round" | grep '^median step')"
    done
done
