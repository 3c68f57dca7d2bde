#!/bin/bash
# SPDX-License-Identifier: MIT
# A small model is trained on a text, then served to concurrent HTTP clients, undisturbed and on machines
# that come and go as a trace says, some without notice. Each answer is compared, then a table tells.
#
#   examples/demo-serve.sh [TEXT [FOLDER]]      SPOT_DEMO_PREEMPTIONS=10 SPOT_DEMO_SPEEDUP=240
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PWD/build/release/tests:$PATH
enough=${SPOT_DEMO_PREEMPTIONS:-10} speedup=${SPOT_DEMO_SPEEDUP:-240}
text=${1:-} out=${2:-build/demo-serve}
mkdir -p "$out"
tmp=$(mktemp -d) # a socket's path must be short
server='' cloud=''
finish() {
    status=$?
    trap - EXIT
    for pid in $cloud $server; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$tmp"
    exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
say() { printf '\n== %s\n' "$*" >&2; }
state() { spot-run status --join "unix:$tmp/job" --format json 2>/dev/null; }

if [ -z "$text" ]; then # what every Debian machine has
    text=$out/text
    cat /usr/share/common-licenses/* >"$text" 2>/dev/null || true
    [ -s "$text" ] || cat LICENSE README.md docs/*.md >"$text"
fi
say 'a small model learns a text'
spot-run train --quiet --data "$text" --layers 4 --width 128 --heads 4 --seq 256 --micro-batch 1 --global-batch 8 \
    --steps 60 --lr 1e-3 --seed 5 --save "$out/model" >"$out/train.log"

say 'a trace of machines, and a forecast of it'
spot-replay generate --profile stormy --law loss_per_h=30,loss_mean=1.5,loss_all=0,gain_per_h=60,shock_per_h=0 \
    --cap 4 --hours 4 --seed 44 -o "$out/trace.csv"
spot-replay describe --format table "$out/trace.csv" >&2
awk -F, 'NR == 1 || $1 <= 1800' "$out/trace.csv" | spot-predict --interval 60s --horizon 6 --cap 4 -o "$out/forecast.json"

# Which requests: the same ones in the same order, whoever asks, whenever.
ask="in=60 out=120 clients=6"
serve() { # [OPTION...]
    spot-run serve --quiet --model "$out/model" --http "unix:$tmp/http" --listen "unix:$tmp/job" --lease 1s "$@" &
    server=$!
}
until_served() { until state | jq -e ".replicas >= $1" >/dev/null; do sleep 0.1; done; }
end_server() {
    kill "$server"
    wait "$server" || true
    server=''
}
say 'undisturbed: 6 clients, 40 requests, each answer kept'
serve --workers 2
until_served 2
# shellcheck disable=SC2086
load "unix:$tmp/http" $ask n=40 answers="$tmp/calm" 2>/dev/null >"$out/calm"
end_server

say "the same on machines that come and go (trace time x $speedup), until $enough were taken away"
rm -f "$out/live.jsonl" "$out/cloud.jsonl" # of another demonstration
serve --events "$out/live.jsonl"
spot-replay live --trace "$out/trace.csv" --from 30m --speedup "$speedup" --grace 2s --no-notice 0.4 \
    --max 4 --seed 7 --quiet --events "$out/cloud.jsonl" -- \
    spot-run worker --quiet --join "unix:$tmp/job" --name '{node}' &
cloud=$!
until_served 1
: >"$out/storm"
: >"$tmp/rounds"
equal=0 compared=0 taken=0
sort "$tmp/calm" >"$tmp/want"
while [ "$taken" -lt "$enough" ]; do
    kill -0 "$cloud" 2>/dev/null || { echo "the trace was over too early" >&2; exit 1; }
    # shellcheck disable=SC2086
    load "unix:$tmp/http" $ask n=40 answers="$tmp/got" 2>/dev/null >>"$out/storm"
    sort "$tmp/got" >"$tmp/sorted"
    equal=$((equal + $(comm -12 "$tmp/want" "$tmp/sorted" | awk '{ n += $3 } END { print n + 0 }')))
    compared=$((compared + $(awk '{ n += $3 } END { print n + 0 }' "$tmp/want")))
    taken=$(state | jq .preemptions)
    echo "$taken preempted; $equal of $compared tokens equal" >&2
done
end_server

say 'what clients saw'
awk -v equal="$equal" -v compared="$compared" -v taken="$taken" '
    { for (i = 1; i <= NF; i++) { split($i, a, "="); v[a[1]] = a[2] }
      k = FILENAME ~ /calm$/ ? "calm" : "storm"; rounds[k]++
      n[k] += v["requests"]; t[k] += v["tokens"]; broken[k] += v["broken"]; wrong[k] += v["wrong"]
      f50[k] += v["first_p50"]; g50[k] += v["gap_p50"]; w50[k] += v["whole_p50"]
      if (v["first_p99"] > f99[k]) f99[k] = v["first_p99"]
      if (v["gap_p99"] > g99[k]) g99[k] = v["gap_p99"] }
    function line(what, calm, storm) { printf "%-32s %14s %14s\n", what, calm, storm }
    END {
      line("", "undisturbed", "storm")
      line("preempted", 0, taken)
      line("requests", n["calm"], n["storm"])
      line("tokens", t["calm"], t["storm"])
      line("equal tokens", t["calm"], equal " of " compared)
      line("streams that broke", broken["calm"] + 0, broken["storm"] + 0)
      line("first token, ms: P50 / P99", sprintf("%.0f / %.0f", f50["calm"], f99["calm"]),
           sprintf("%.0f / %.0f", f50["storm"] / rounds["storm"], f99["storm"]))
      line("between tokens, ms: P50 / P99", sprintf("%.1f / %.0f", g50["calm"], g99["calm"]),
           sprintf("%.1f / %.0f", g50["storm"] / rounds["storm"], g99["storm"]))
      exit equal != compared || wrong["calm"] + wrong["storm"] > 0 }' "$out/calm" "$out/storm"
echo 'P50 of a storm of several rounds: their mean; P99: the worst round' >&2
