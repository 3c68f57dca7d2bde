#!/bin/bash
# SPDX-License-Identifier: MIT
# serve-sim.sh [TURNS] [REQUESTS of a turn] [WORKERS] [PERCENT] - a live server's log against its simulation.
#
# A small model is served by WORKERS processes, a request at a time each. In each turn a closed loop with all of them busy is
# the profile: the mean time to the first token and between tokens, as the server's own log has them. Then requests come by
# Poisson at PERCENT of what the first loop took. Their arrivals, from the log, go through spot-replay serve with the profile,
# and the percentiles of both are compared. Goals: P50 within 15 %, P99 within 30 %, end to end.
# `service` is what an answer took once it had begun, in the open over in the loops: what it is off 1, the machine changed.
set -euo pipefail
turns=${1:-4}
n=${2:-60}
workers=${3:-2}
percent=${4:-70}
n_profile=20
layers=6
here=$(dirname "$(readlink -f "$0")")
PATH="$here/../../build/release/bin:$here/../../build/release/tests:$PATH"
tmp=$(mktemp -d)
server=''
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"

for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
spot-run train -q --data text --layers $layers --width 384 --heads 6 --seq 256 --steps 1 --global-batch 1 --save model >/dev/null
spot-run serve -q --model model --http unix:s --workers "$workers" --max-batch 1 --queue 4000 --linger 0s --events log &
server=$!
until load unix:s n=1 out=1 in=1 plain=1 clients=1 >/dev/null 2>&1; do
    kill -0 "$server"
    sleep 0.1
done
ask() { load unix:s in=64 out=64 plain=1 "$@"; }

for _ in $(seq "$turns"); do
    ask n=$n_profile clients="$workers" >line
    [ -n "${rate:-}" ] ||
        rate=$(sed -n 's/.*\btook_s=\([0-9.]*\).*/\1/p' line | awk -v n=$n_profile -v p="$percent" '{ print n / $1 * p / 100 }')
    ask n="$n" clients=4000 rate="$rate" >line
done
kill "$server"
wait "$server" || true
server=''

# lines of requests by arrival, without the ones that asked whether it is there: a loop, then the open, in turn
jq -c 'select(.event == "request" and .output_tokens == 64)' log | jq -s -c 'sort_by(.came_s) | .[]' >requests
awk -v p=$n_profile -v n="$n" '{ k = (NR - 1) % (p + n); print > (k >= p ? "open" : k < 2 || k > p - 3 ? "edge" : "loop") }' requests
jq -s --argjson layers $layers '(map((.e2e_s - .ttft_s) / (.output_tokens - 1)) | add / length) as $token |
    { schema: "spot.job/1", name: "measured", kind: "serve", cost: { usd_per_h: 1 },
      serve: { layers: $layers, max_batch: 1, prompt_tokens: .[0].prompt_tokens, output_tokens: .[0].output_tokens,
               cells: [{ M: 1, B: 1, prefill_s: (((map(.ttft_s - .queue_s) | add / length) - $token) / $layers),
                         decode_s: ($token / $layers) }] } }' loop >job.json
jq -s -c 'sort_by(.time_s) | .[]' open >log.open # as the log has them: by their ends
spot-replay import -q --from spot-serve log.open -o load.csv
printf 'time_s,available\n0,%d\n%d,%d\n' "$workers" 100000 "$workers" >trace.csv
spot-replay serve --job job.json --trace trace.csv --load load.csv --policy "on-demand-$workers" --batching shared \
    --arrivals-only --format csv >sim.csv

jq -r --argjson n $((turns * n)) --arg w "$workers" --arg rate "$rate" \
    '.serve | "\($n) requests, \($w) workers, \($rate)/s; a prompt \(1e5 * .layers * .cells[0].prefill_s | round / 100) ms, a token \(
    1e5 * .layers * .cells[0].decode_s | round / 100) ms"' job.json
jq -n -r --slurpfile open open --slurpfile loop loop 'def mean: map(.e2e_s - .queue_s) | add / length;
    "service: open over loops \(1000 * ($open | mean) / ($loop | mean) | round / 1000)"'
jq -s -r 'def at(f; q): map(f) | sort | .[(q * length | ceil) - 1];
    "ttft_p50_s \(at(.ttft_s; .5))", "ttft_p99_s \(at(.ttft_s; .99))", "e2e_p50_s \(at(.e2e_s; .5))", "e2e_p99_s \(at(.e2e_s; .99))"' open >live
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) name[i] = $i; next } { for (i = 1; i <= NF; i++) print name[i], $i }' sim.csv >sim
awk 'NR == FNR { sim[$1] = $2; next }
    { printf "%s: live %.3f, simulated %.3f, ratio %.3f\n", $1, $2, sim[$1], sim[$1] / $2 }' sim live

# the same queue with the time that each answer took: what is left is the order in which the server gives requests out
jq -s -r 'sort_by(.came_s) | .[] | "\(.came_s) \(.e2e_s - .queue_s) \(.e2e_s)"' open | awk -v c="$workers" '
    { best = 1; for (i = 2; i <= c; i++) if (free[i] < free[best]) best = i
      begin = $1 > free[best] ? $1 : free[best]; free[best] = begin + $2; print free[best] - $1 > "own"; print $3 > "was" }'
for q in 50 99; do
    for f in own was; do sort -g $f | awk -v q=$q '{ x[NR] = $1 } END { k = int(q / 100 * NR + .999); print x[k] }'; done |
        xargs printf 'with the time of each answer: e2e_p'$q'_s %.3f, live %.3f\n'
done
