#!/bin/bash
# SPDX-License-Identifier: MIT
# A job of real size: 86 M parameters, state of 1.03 GB, grid 2x2 and one spare, all on this machine. A worker of the grid
# is killed once the spare could be warm: how long until steps run again, what moved, how far the disk is behind.
#   tests/bench/size.sh [BEFORE-BIN-DIR]       the same with another spot-run first, for comparison
# recovery: from the loss to the first commit behind it, less a median step (what was redone); of that, until the new
# epoch ran. lag: from a step's commit to its being durable, and how many steps had been committed since.
# shellcheck disable=SC2016 # jq's own variables
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
layers=${LAYERS:-12} width=${WIDTH:-768} seq=${SEQ:-64} batch=${BATCH:-4} kills=${KILLS:-2} warm=${WARM:-10}
tmp=$(mktemp -d)
pids=()
cleanup() {
    kill -KILL "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cat "$here/LICENSE" "$here/README.md" "$here"/docs/design/*.md >"$tmp/text"

count() { grep -c "\"event\":\"$1\"" "$tmp/events" 2>/dev/null || true; }
until_more() { # EVENT HOW-MANY: so many more than now, at most 200 s
    local to=$(($(count "$1") + $2)) end=$((SECONDS + 200))
    until [ "$(count "$1")" -ge "$to" ]; do
        [ "$SECONDS" -lt "$end" ] || { echo "never: $2 more of $1" >&2 && return 1; }
        sleep 0.1
    done
}

worker() { # NAME
    "$bin/spot-run" worker -q --join "unix:$tmp/job" --join-timeout 60s --name "$1" 2>>"$tmp/err" &
    pids+=($!)
    id[$1]=$!
}

tell() { # WHAT: rows of the events
    jq -rs --arg what "$1" '
        def median: sort | if . == [] then 0 else .[length / 2 | floor] end;
        . as $e | [range(length)] as $i
        | [$i[] | select($e[.].event == "committed")] as $c
        | ([range(1; $c | length) | $e[$c[.]].time_s - $e[$c[. - 1]].time_s] | median) as $step
        | [$i[] | select($e[.].event == "lost") as $l
            | {lost: $e[$l].time_s,
               formed: ([$e[$l:][] | select(.event == "formed").time_s][0]),
               commit: ([$e[$l:][] | select(.event == "committed").time_s][0]),
               byte: ([$e[$l:][] | select(.event == "migrate").moved_byte][0])}] as $loss
        | [$e[] | select(.event == "durable") as $d
            | {lag: ($d.time_s - ([$e[] | select(.event == "committed" and .step == $d.step).time_s] | last)),
               steps: (([$e[] | select(.event == "committed" and .time_s <= $d.time_s).step] | max) - $d.step)}] as $lag
        | "\($what): step \($step * 1000 | round) ms; recovery \([$loss[] | .commit - .lost - $step] | median * 1000 | round) ms, to the new epoch \([$loss[] | .formed - .lost] | median * 1000 | round) ms, moved \([$loss[].byte] | median / 1e6 | round) MB (median of \($loss | length) kills); durable lag \([$lag[].lag] | median * 10 | round / 10) s, at most \([$lag[].lag] | max // 0 | . * 10 | round / 10) s, \([$lag[].steps] | max // 0) steps (\($lag | length) generations in \($e[-1].time_s | round) s)"' "$tmp/events"
}

run() { # WHAT BIN
    local bin=$2 job victim n
    declare -A id=()
    "$bin/spot-run" train --quiet --data "$tmp/text" --layers "$layers" --width "$width" --heads 12 --seq "$seq" \
        --global-batch "$batch" --steps 1000000 --grid 2x2 --listen "unix:$tmp/job" --state "$tmp/state" --lease 20s \
        --events "$tmp/events" 2>>"$tmp/err" &
    job=$!
    pids=("$job")
    for n in a b c d; do worker $n; done
    until_more committed 1
    worker s0
    until_more committed "$warm"
    for n in $(seq "$kills"); do
        victim=$(grep '"formed"' "$tmp/events" | tail -n 1 | jq -r '.place[1]')
        kill -KILL "${id[$victim]}"
        until_more committed 2
        [ "$n" = "$kills" ] || { worker "s$n" && until_more committed "$warm"; }
    done
    tell "$1"
    kill -KILL "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp/events" "$tmp/state" "$tmp/job"
}

[ -z "${1-}" ] || run before "$1"
run "${AFTER:-after}" "${BIN:-$here/build/release/bin}"
