#!/bin/bash
# SPDX-License-Identifier: MIT
# From the answer of a metadata service that says a machine will be taken away to the notice in the
# coordinator's log, and to its quiesce: the workers stop at the next step boundary. Loopback, two workers.
#   tests/bench/notice.sh [NOTICES_OF_EACH_CLOUD]
set -eu
n=${1:-10}
tools=$(dirname "$(command -v spot-run)")/../tests
[ -x "$tools/metadata" ] || make -s -C "$(dirname "$0")/../.." build/release/tests/metadata
tmp=$(mktemp -d)
pids=()
cleanup() {
    kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
export TMPDIR=$tmp # the state of a job that is stopped
trap cleanup EXIT
seq 1 30000 >"$tmp/text"

until_there() { # FILE PATTERN
    until grep -q "$2" "$1" 2>/dev/null; do sleep 0.01; done
}

measure() { # CLOUD FILE TEXT: ms to notice and to quiesce
    local dir=$tmp/$1.$3 said
    mkdir -p "$dir"
    "$tools/metadata" "$dir" "$1" &
    pids+=($!)
    until [ -s "$dir/endpoint" ]; do sleep 0.01; done
    spot-run worker -q --join "unix:$tmp/job" --name "$1-$3" --notice "$1@$(cat "$dir/endpoint")" &
    pids+=($!)
    until_there "$tmp/stamped" "\"formed\".*\"$1-$3\""
    sleep 0.3
    printf '%s\n' "$4" >"$dir/new"
    said=$EPOCHREALTIME
    mv "$dir/new" "$dir/$2"
    until_there "$tmp/stamped" "\"left\".*\"$1-$3\""
    # gcp answers within 2 ms of what is said; aws when it is asked
    [ "$1" = gcp ] || said=$(awk -v from="$said" '/instance-action/ && $1 >= from { print $1; exit }' "$dir/log")
    awk -v said="$said" -v who="\"$1-$3\"" '/"notice"/ && index($0, who) { notice = $1 }
        /"quiesce"/ && notice && !quiesce { quiesce = $1 }
        END { printf "%.1f %.1f\n", (notice - said) * 1e3, (quiesce - said) * 1e3 }' "$tmp/stamped"
}

spot-run train --quiet --data "$tmp/text" --layers 2 --width 32 --heads 2 --seq 16 --shards 2 --global-batch 5 \
    --steps 100000000 --listen "unix:$tmp/job" --workers 1 --events "$tmp/events" &
pids+=($!)
until [ -s "$tmp/events" ]; do sleep 0.01; done
tail -n +1 -f "$tmp/events" | grep --line-buffered -E '"(notice|quiesce|formed|left)"' |
    while read -r line; do echo "$EPOCHREALTIME $line"; done >"$tmp/stamped" &
pids+=($!)
for cloud in gcp aws; do
    for i in $(seq "$n"); do
        if [ $cloud = gcp ]; then
            measure gcp preempted "$i" TRUE
        else
            measure aws instance-action "$i" '{"action": "terminate", "time": "@+120@"}'
        fi
    done >"$tmp/ms"
    for column in 1 2; do
        sort -n -k $column "$tmp/ms" | awk -v c=$column -v cloud=$cloud -v n="$n" '{ x[NR] = $c }
            END { printf "%s: answer to %s, ms: median %.1f, worst %.1f of %d\n", cloud, c == 1 ? "notice" : "quiesce",
                x[int((NR + 1) / 2)], x[NR], n }'
    done
done
