#!/bin/bash
# SPDX-License-Identifier: MIT
# What train --verify costs in a step, and how fast an audit is: with and without in turn, two workers of a grid
# 2x1 on two cores; then one worker and an idle one that mirrors it, where what counts is the first one's time; then
# the steps of a job of one worker computed anew.
#   tests/bench/verify.sh [ROUNDS] [STEPS]
set -eu
rounds=${1:-5} steps=${2:-40}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat /usr/share/common-licenses/* LICENSE >"$tmp/text" 2>/dev/null || cp LICENSE "$tmp/text"
job=(--quiet --data "$tmp/text" --layers 4 --width 128 --heads 4 --seq 64 --global-batch 40 --seed 3 --durable-every 1h)

quartile() { # the lower one of a file of numbers: what else a machine does only adds
    sort -g "$1" | awk '{ x[NR] = $1 } END { print x[int((NR + 3) / 4)] }'
}
one() { # SHARE: ms from commit to commit, and ms of processor time a step
    local TIMEFORMAT='%U %S' used
    used=$({ time spot-run train "${job[@]}" --steps "$steps" --workers 2 --grid 2x1 --verify "$1" --events "$tmp/events"; } 2>&1)
    sed -n 's/.*"event":"committed","time_s":\([0-9.]*\).*/\1/p' "$tmp/events" |
        awk 'NR > 1 { print 1e3 * ($1 - at) } { at = $1 }' >>"$tmp/wall-$1"
    awk -v n="$steps" '{ print 1e3 * ($1 + $2) / n }' <<<"$used" >>"$tmp/cpu-$1"
    rm "$tmp/events"
}

echo "$(nproc) cores, $rounds rounds of $steps steps, lower quartiles"
for ((round = 0; round < rounds; round++)); do
    for share in off .05 1; do
        one $share
    done
done
for share in .05 1; do
    for what in wall cpu; do
        awk -v what=$what -v share=$share -v with="$(quartile "$tmp/$what-$share")" -v without="$(quartile "$tmp/$what-off")" \
            'BEGIN { printf "--verify %-4s %-4s %6.1f ms a step, %6.1f ms without  %+.1f %%\n", share, what, with, without, 100 * (with / without - 1) }'
    done
done

beside() { # WHAT: ms of processor time a step of the worker that has a place, and ms from commit to commit
    local TIMEFORMAT='%U %S' coordinator
    rm -f "$tmp/events"
    spot-run train "${job[@]}" --steps "$steps" --grid 1x1 --verify "$1" --listen "unix:$tmp/j" --events "$tmp/events" &
    coordinator=$!
    { time spot-run worker -q --join "unix:$tmp/j" --join-timeout 60s; } 2>"$tmp/used" &
    until grep -q '"event":"formed"' "$tmp/events" 2>/dev/null; do sleep .05; done
    spot-run worker -q --join "unix:$tmp/j" --join-timeout 60s &
    wait $coordinator
    wait
    awk -v n="$steps" '{ print 1e3 * ($1 + $2) / n }' "$tmp/used" >>"$tmp/beside-cpu-$1"
    sed -n 's/.*"event":"committed","time_s":\([0-9.]*\).*/\1/p' "$tmp/events" |
        awk 'NR > 10 { print 1e3 * ($1 - at) } { at = $1 }' >>"$tmp/beside-wall-$1"
}
for ((round = 0; round < rounds; round++)); do
    beside off
    beside auto
done
for what in wall cpu; do
    awk -v what=$what -v with="$(quartile "$tmp/beside-$what-auto")" -v without="$(quartile "$tmp/beside-$what-off")" \
        'BEGIN { printf "--verify auto, one idle member: %-4s %6.1f ms a step, %6.1f ms without  %+.1f %%\n", what, with, without, 100 * (with / without - 1) }'
done

n=$steps
cpu() { # COMMAND...: ms of processor time
    local TIMEFORMAT='%U %S'
    { time "$@" >/dev/null; } 2>&1 | awk '{ print 1e3 * ($1 + $2) }'
}
for ((round = 0; round < rounds; round++)); do
    rm -rf "$tmp/state" "$tmp/events"
    cpu spot-run train "${job[@]}" --steps "$n" --workers 1 --state "$tmp/state" --events "$tmp/events" >>"$tmp/train"
    cpu spot-run audit --state "$tmp/state" --events "$tmp/events" --steps "1:$n" --threads 1 >>"$tmp/audit"
done
awk -v n="$n" -v t="$(quartile "$tmp/train")" -v a="$(quartile "$tmp/audit")" \
    'BEGIN { printf "audit of %d steps %.0f ms of processor time, their training by one worker %.0f ms: %.2f of its speed\n", n, a, t, t / a }'
