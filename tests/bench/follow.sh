#!/bin/bash
# SPDX-License-Identifier: MIT
# follow.sh [SECONDS [N [LAYERS WIDTH [WORKERS [unix|tcp [STREAMS]]]]]] - a server that follows a training job of 86M
# parameters, every N commits (default: 4), on this machine: when weights are in service behind their commit, at each
# replica and in the first answer, how long running streams wait meanwhile, and what of this the machine itself takes.
set -euo pipefail

seconds=${1:-60} every=${2:-4} layers=${3:-12} width=${4:-768} workers=${5:-2} way=${6:-unix} n_stream=${7:-3}
tmp=$(mktemp -d /dev/shm/follow.XXXXXX)
pids=
# shellcheck disable=SC2086
trap 'kill $pids 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
seq 1 30000 >text
model="--layers $layers --width $width --heads $((width / 64)) --seq 256 --micro-batch 1 --global-batch 1"
train=unix:t serve=unix:j
[ "$way" = unix ] || { train=127.0.0.1:$((20000 + RANDOM % 20000)) serve=127.0.0.1:$((20000 + RANDOM % 20000)); }
# shellcheck disable=SC2086
spot-run train -q --data text $model --steps 1 --save model >/dev/null
now() { echo "$EPOCHREALTIME"; }
begin=$(now)
cp model/model.safetensors copied
echo "$(wc -c <copied) $(now) $begin" | awk '{ printf "weights: %.0f MB; one copy of them in memory: %.2f s\n", $1 / 1e6, $2 - $3 }'
rm copied
# shellcheck disable=SC2086
spot-run train -q --data text $model --steps 1000000 --listen "$train" --workers 1 --events log >train.out 2>&1 &
trainer=$!
pids="$pids $!"
spot-run serve -q --model model --http unix:h --listen "$serve" --workers "$workers" --events served.log \
    --follow "$train,$every" >serve.out 2>&1 &
server=$!
pids="$pids $!"
ask() { curl -s --unix-socket h http://x/v1/completions -d "$1"; }
until [ -S h ] && ask '{"prompt": "1", "max_tokens": 1}' | grep -q step-; do sleep .1; done
stamp() { # LOG PATTERN: the number of each line that has it, and when it came
    tail -n 0 -F "$1" 2>/dev/null | while read -r line; do
        [[ $line =~ $2 ]] && echo "${BASH_REMATCH[1]} $EPOCHREALTIME"
    done
}
stamp log '"committed".*"step":([0-9]+)' >commits &
pids="$pids $!"
stamp served.log '"formed".*-step-([0-9]+)"' >formed &
pids="$pids $!"
for k in $(seq "$n_stream"); do
    while :; do
        curl -sN --unix-socket h http://x/v1/completions -d '{"prompt": "1", "max_tokens": 120, "stream": true, "ignore_eos": true}' |
            while read -r line; do [[ $line != data:\ \{* ]] || echo "$EPOCHREALTIME"; done
        echo end
    done >"stream.$k" &
    pids="$pids $!"
done
cpu_of() { # PROCESS: seconds of it and of what it started
    local p sum=0
    for p in "$1" $(ps -o pid= --ppid "$1"); do
        sum=$(awk -v s="$sum" -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print s + ($12 + $13) / hz }' "/proc/$p/stat")
    done
    echo "$sum"
}
trained=$(cpu_of $trainer) served=$(cpu_of $server) begin=$(now)
last="" until=$((SECONDS + seconds))
while [ $SECONDS -lt $until ]; do
    answer=$(ask '{"prompt": "1", "max_tokens": 1}')
    [[ $answer =~ step-([0-9]+) ]] || continue
    [ "${BASH_REMATCH[1]}" = "$last" ] || { last=${BASH_REMATCH[1]} && echo "$last $EPOCHREALTIME"; }
    sleep .02
done >answered
echo "$(now) $begin $(cpu_of $trainer) $trained $(cpu_of $server) $served $(nproc)" |
    awk '{ s = $1 - $2; printf "processors of %d: training %.2f, serving and following %.2f\n", $7, ($3 - $4) / s, ($5 - $6) / s }'
awk 'NR > 1 { print $2 - last } { last = $2 }' commits | sort -n |
    awk '{ t[NR] = $1 } END { printf "a step of training: median %.2f s, worst %.2f s\n", t[int((NR + 1) / 2)], t[NR] }'
behind() { # WHAT FILE: of the k-th line of each step
    awk -v what="$1" '
        NR == FNR { at[$1] = $2; next }
        $1 in at { k = ++n[$1]; d[k, ++m[k]] = $2 - at[$1] }
        END {
            for (k = 1; m[k]; k++) {
                for (i = 1; i <= m[k]; i++) for (j = i; j > 1 && d[k, j] < d[k, j - 1]; j--) { t = d[k, j]; d[k, j] = d[k, j - 1]; d[k, j - 1] = t }
                printf "%s %d: %d times, median %.2f s behind the commit, worst %.2f s\n", what, k, m[k], d[k, int((m[k] + 1) / 2)], d[k, m[k]]
            }
        }' commits "$2"
}
behind "in service at replica" formed
behind "in the first answer," answered
cat stream.? | awk '/end/ { last = 0; next } { if (last) print 1000 * ($1 - last); last = $1 }' | sort -n |
    awk '{ t[NR] = $1 } END { printf "gaps of streams, ms: %d, median %.0f, 99%% %.0f, 99.9%% %.0f, worst %.0f\n", NR, t[int((NR + 1) / 2)], t[int(NR * .99)], t[int(NR * .999)], t[NR] }'
