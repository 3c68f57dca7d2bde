#!/bin/bash
# SPDX-License-Identifier: MIT
# What a worker that joins costs the others when the state is large: moved while all wait, and
# ahead of the new grid (by the size of moves). One pipeline becomes two; the longest time between two
# commits after the join, and from the join to the first commit of the new grid.
#   tests/bench/precopy.sh [ROUNDS [LAYERS WIDTH]]
# shellcheck disable=SC2016 # jq's own variables
set -eu
rounds=${1:-3} layers=${2:-8} width=${3:-512}
tmp=$(mktemp -d)
pids=()
cleanup() {
    kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cat /usr/share/common-licenses/* LICENSE >"$tmp/text" 2>/dev/null || cp LICENSE "$tmp/text"

await() { # JQ-CONDITION: of all events, at most 120 s
    for _ in $(seq 600); do
        jq -es "$1" "$tmp/events" >/dev/null 2>&1 && return
        sleep 0.2
    done
    echo "never: $1" >&2
    return 1
}

join() { # AHEAD: one round; prints pause_s until_s moved_byte precopy_byte
    SPOT_TEST_BUDDIES=0 SPOT_TEST_PRECOPY_BYTE=$1 spot-run train --quiet --data "$tmp/text" --layers "$layers" --width "$width" --heads 8 --global-batch 8 \
        --steps 1000000 --listen "unix:$tmp/job" --state "$tmp/state" --durable-every 1h \
        --events "$tmp/events" 2>/dev/null &
    local job=$!
    pids=("$job")
    for name in a b; do
        spot-run worker --quiet --join "unix:$tmp/job" --join-timeout 20s --name $name 2>/dev/null &
        pids+=($!)
        [ $name = b ] || await 'map(select(.event == "committed")) | length >= 5'
    done
    await '(map(.event == "formed" and .D == 2) | index(true)) as $f | $f != null and (.[$f:] | map(select(.event == "committed")) | length >= 3)'
    kill "${pids[@]}" 2>/dev/null || true
    wait
    jq -rs '(map(.event == "joined" and .name == "b") | index(true)) as $j
        | (map(.event == "formed" and .D == 2) | index(true)) as $f
        | [.[] | select(.event == "committed").time_s] as $c
        | .[$j].time_s as $t
        | ([.[$f:][] | select(.event == "committed").time_s][0]) as $new
        | [range(1; $c | length) | select($c[.] > $t and $c[.] <= $new) | $c[.] - $c[. - 1]] as $gap
        | ([range(1; $c | length) | select($c[.] < $t) | $c[.] - $c[. - 1]] | sort | .[length / 2 | floor]) as $step
        | "\(($gap | max) - $step) \($new - $t) \([.[] | select(.event == "migrate").moved_byte] | add) \([.[] | select(.event == "migrate").precopy_byte // 0] | add) \($step)"' \
        "$tmp/events"
    rm -rf "$tmp/events" "$tmp/state"
}

for how in 1TB 64MiB; do
    for _ in $(seq "$rounds"); do join $how; done >"$tmp/rows"
    sort -n "$tmp/rows" | awk -v how="$how" -v n="$rounds" 'NR == int((n + 1) / 2) {
        printf "%s: longest pause %.3f s, joined after %.2f s; moved %.0f MB while all waited, %.0f MB beside; step %.3f s (median of %d)\n",
            how == "1TB" ? "at once" : "ahead  ", $1, $2, $3 / 1e6, $4 / 1e6, $5, n }'
done
