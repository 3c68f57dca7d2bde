#!/bin/bash
# SPDX-License-Identifier: MIT
# follow.sh [SECONDS [N [LAYERS WIDTH]]] - a server that follows a training job of 86M parameters, every N commits (default: 4):
# how long after a commit the first answer has its weights, and how long streams wait meanwhile.
set -euo pipefail

seconds=${1:-60} every=${2:-4} layers=${3:-12} width=${4:-768}
tmp=$(mktemp -d)
pids=
# shellcheck disable=SC2086
trap 'kill $pids 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
seq 1 30000 >text
model="--layers $layers --width $width --heads $((width / 64)) --seq 256 --micro-batch 1 --global-batch 1"
# shellcheck disable=SC2086
spot-run train -q --data text $model --steps 1 --save model >/dev/null
# shellcheck disable=SC2086
spot-run train -q --data text $model --steps 1000000 --listen unix:t --workers 1 --events log >train.out 2>&1 &
pids="$pids $!"
spot-run serve -q --model model --http unix:h --listen unix:j --workers 2 --follow "unix:t,$every" >serve.out 2>&1 &
pids="$pids $!"
ask() { curl -s --unix-socket h http://x/v1/completions -d "$1"; }
until [ -S h ] && ask '{"prompt": "1", "max_tokens": 1}' | grep -q step-; do sleep .1; done
# when each step committed, and when an answer first had it
tail -n 0 -F log 2>/dev/null | while read -r line; do
    [[ $line != *'"committed"'* ]] || { [[ $line =~ \"step\":([0-9]+) ]] && echo "${BASH_REMATCH[1]} $EPOCHREALTIME"; }
done >commits &
pids="$pids $!"
for k in 1 2 3; do
    while :; do
        curl -sN --unix-socket h http://x/v1/completions -d '{"prompt": "1", "max_tokens": 120, "stream": true, "ignore_eos": true}' |
            while read -r line; do [[ $line != data:\ \{* ]] || echo "$EPOCHREALTIME"; done
        echo end
    done >"stream.$k" &
    pids="$pids $!"
done
last="" until=$((SECONDS + seconds))
while [ $SECONDS -lt $until ]; do
    answer=$(ask '{"prompt": "1", "max_tokens": 1}')
    [[ $answer =~ step-([0-9]+) ]] || continue
    [ "${BASH_REMATCH[1]}" = "$last" ] || { last=${BASH_REMATCH[1]} && echo "$last $EPOCHREALTIME"; }
done >served
awk 'NR == FNR { at[$1] = $2; next } FNR > 1 && $1 in at { print $2 - at[$1] }' commits served | sort -n |
    awk '{ t[NR] = $1 } END { printf "new weights in service after %d commits: median %.2f s, worst %.2f s\n", NR, t[int((NR + 1) / 2)], t[NR] }'
cat stream.? | awk '/end/ { last = 0; next } { if (last) print 1000 * ($1 - last); last = $1 }' | sort -n |
    awk '{ t[NR] = $1 } END { printf "gaps of streams, ms: %d, median %.0f, 99%% %.0f, worst %.0f\n", NR, t[int((NR + 1) / 2)], t[int(NR * .99)], t[NR] }'
