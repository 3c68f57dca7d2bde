#!/bin/bash
# SPDX-License-Identifier: MIT
# serve-sim.sh [TURNS] [REQUESTS of a turn] [WORKERS] [PERCENT] [BATCH] [KILLS] - a live server's log against its simulation.
#
# A small model is served by WORKERS processes, BATCH requests at a time each, pass by pass. In each turn closed loops are the
# profile: all busy with requests alike, all busy with short and long ones, so that prompts meet others at any time, each worker with
# one at a time, and one worker alone. spot-run profile --serve fits their log: prompts alone and in company, what workers take from
# one another, spread and all. Then requests come by Poisson at PERCENT of what the first loop took, KILLS times a turn a worker is
# killed and another joins. Arrivals and the workers there were, from the log,
# go through spot-replay serve --batching passes with the profile, and the percentiles of both are compared. Goals: P50 within 15 %,
# P99 within 30 %, end to end. Loops and open windows take turns, so that both see the machine as it is.
# `service` is what an answer took once it had begun, in the open over in the loops: what it is off 1, the machine changed.
set -euo pipefail
turns=${1:-4}
n=${2:-60}
workers=${3:-2}
percent=${4:-70}
batch=${5:-1}
kills=${6:-0}
n_profile=20
n_few=10
layers=6
here=$(dirname "$(readlink -f "$0")")
PATH="$here/../../build/release/bin:$here/../../build/release/tests:$PATH"
tmp=$(mktemp -d)
server=''
worker=()
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ ${#worker[@]} -eq 0 ] || kill -KILL "${worker[@]}" 2>/dev/null || true # or they look for the server
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"

for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
spot-run train -q --data text --layers $layers --width 384 --heads 6 --seq 256 --steps 1 --global-batch 1 --save model >/dev/null
spot-run serve -q --model model --http unix:s --listen unix:g --max-batch "$batch" --queue 4000 --linger 0s --events log &
server=$!
add_worker() {
    spot-run worker -q --join unix:g &
    worker+=($!)
}
for _ in $(seq "$workers"); do add_worker; done
for _ in $(seq 600); do
    load unix:s n=1 out=1 in=1 plain=1 clients=1 >/dev/null 2>&1 && break
    kill -0 "$server"
    sleep 0.1
done
ask() { timeout 1800 load unix:s in=64 out=64 plain=1 "$@"; }

# of all, the oldest is killed, and another comes at once
replace_worker() {
    kill -KILL "${worker[0]}" 2>/dev/null || true
    worker=("${worker[@]:1}")
    add_worker
}

: >windows
ended() { jq -c 'select(.event == "request")' log | wc -l; }
sleep 1
asked=$(ended)
# a client knows of its last token a moment before the log does
mark() {
    for _ in $(seq 100); do
        [ "$(ended)" -lt "$asked" ] || break
        sleep 0.1
    done
    [ "$(ended)" -eq "$asked" ] || { echo "serve-sim: the log has $(ended) requests of $asked" >&2 && exit 1; }
    echo "$asked" >>windows
}
for _ in $(seq "$turns"); do
    mark
    ask n=$n_profile clients=$((workers * batch)) >line
    asked=$((asked + n_profile))
    [ -n "${rate:-}" ] ||
        rate=$(sed -n 's/.*\btook_s=\([0-9.]*\).*/\1/p' line | awk -v n=$n_profile -v p="$percent" '{ print n / $1 * p / 100 }')
    if [ "$batch" -gt 1 ]; then
        half=$((workers * batch / 2))
        ask n=$n_few clients=$half >/dev/null &
        long=$!
        ask n=$((2 * n_few)) clients=$half out=32 >line
        wait $long
        ask n=$n_few clients="$workers" >line # nobody beside
        asked=$((asked + 4 * n_few))
    fi
    if [ "$workers" -gt 1 ]; then
        ask n=$n_few clients=1 >line # and no other at work
        asked=$((asked + n_few))
    fi
    mark
    ask n="$n" clients="$n" rate="$rate" >line &
    open=$!
    for _ in $(seq "$kills"); do
        sleep "$(awk -v n="$n" -v r="$rate" -v k="$kills" 'BEGIN { print n / r / (k + 1) }')"
        replace_worker
    done
    wait "$open"
    asked=$((asked + n))
done
mark
kill "$server"
wait "$server" || true
server=''

# requests by their ends: a loop, then the open, in turn
jq -c 'select(.event == "request")' log >requests
awk 'NR == FNR { mark[NR] = $1; next }
    { while (FNR > mark[k + 1] && k < length(mark)) k++; if (k) print > (k % 2 ? "loop" : "open") }' windows requests
spot-run profile --serve loop --replicas "$workers" --max-batch "$batch" --one-machine --no-provenance -o job.json
# short answers were in the loops alone
jq '.cost = { usd_per_h: 1 } | .serve.output_tokens = 64' job.json >priced.json
jq -s -c 'sort_by(.time_s) | .[]' open >log.open
spot-replay import -q --from spot-serve log.open -o load.csv
# replicas there were, on the clock of the load: its first request is 0
jq -r 'select(.event == "formed" or .event == "quiesce") | "\(.time_s) \(.event) \(.view)"' log | awk -v first="$(jq -s 'map(.came_s) | min' open)" '
    BEGIN { print "time_s,available" }
    { is = $2 == "formed"; n += is - up[$3]; up[$3] = is; t = $1 - first
      if (t <= 0) { before = n; next }
      if (!begun++) print "0," before
      printf "%.6f,%d\n", t, n }
    END { if (!begun) print "0," before; printf "%.6f,%d\n", (t > 0 ? t : 0) + 1e5, n }' >trace.csv
spot-replay serve --job priced.json --trace trace.csv --load load.csv --policy rerouting --batching passes --load-time 0 \
    --arrivals-only --format csv >sim.csv

jq -r --argjson n "$(wc -l <open)" --arg w "$workers" --arg rate "$rate" --arg batch "$batch" \
    '.serve | "\($n) requests, \($w) workers of \($batch), \($rate)/s; a prompt \(1e5 * .cells[0].prefill_s | round / 100) ms, a token \(
    [.cells[] | 1e5 * .decode_s | round / 100] | map(tostring) | join(" ")) ms; in company \(.cells[-1].join * 100 | round / 100); at work together \(
    [.sharing[] * 100 | round / 100] | map(tostring) | join(" ")); spread \([.spread[0, 20, 38, 40] * 100 | round / 100] | map(tostring) | join(" "))"' job.json
jq -n -r --slurpfile open open --slurpfile loop loop 'def mean: map(.e2e_s - .queue_s) | add / length;
    "service: open over loops \(1000 * ($open | mean) / ($loop | mean) | round / 1000)"'
jq -s -r 'def at(f; q): map(f) | sort | .[(q * length | ceil) - 1];
    "ttft_p50_s \(at(.ttft_s; .5))", "ttft_p99_s \(at(.ttft_s; .99))", "e2e_p50_s \(at(.e2e_s; .5))", "e2e_p99_s \(at(.e2e_s; .99))"' open >live
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) name[i] = $i; next } { for (i = 1; i <= NF; i++) print name[i], $i }' sim.csv >sim
awk 'NR == FNR { sim[$1] = $2; next }
    { printf "%s: live %.3f, simulated %.3f, ratio %.3f\n", $1, $2, sim[$1], sim[$1] / $2 }' sim live
[ "$batch" -gt 1 ] || [ "$kills" -gt 0 ] && exit

# the same queue with the time that each answer took: what is left is the order in which the server gives requests out
jq -s -r 'sort_by(.came_s) | .[] | "\(.came_s) \(.e2e_s - .queue_s) \(.e2e_s)"' open | awk -v c="$workers" '
    { best = 1; for (i = 2; i <= c; i++) if (free[i] < free[best]) best = i
      begin = $1 > free[best] ? $1 : free[best]; free[best] = begin + $2; print free[best] - $1 > "own"; print $3 > "was" }'
for q in 50 99; do
    for f in own was; do sort -g $f | awk -v q=$q '{ x[NR] = $1 } END { k = int(q / 100 * NR + .999); print x[k] }'; done |
        xargs printf 'with the time of each answer: e2e_p'$q'_s %.3f, live %.3f\n'
done
