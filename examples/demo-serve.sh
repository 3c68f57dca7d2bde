#!/bin/sh
# SPDX-License-Identifier: MIT
# A model that is served on machines that vanish: every client gets the tokens of the undisturbed server.
#
#   examples/demo-serve.sh [FOLDER]      SPOT_DEMO_PREEMPTIONS=10 SPOT_DEMO_SPEEDUP=90
#
# A trace is drawn and forecast, a small model is trained on a text that is here, and asked by many
# clients at once: first of two workers that nobody touches, then of workers that come and go as the
# trace says, some without notice, while the coordinator is killed and resumed, too. The closing table
# compares both.
set -eu
cloud='' server='' client=''
children() { echo "$client $cloud $server"; }
# shellcheck source=examples/demo-parts.sh
. "$(dirname "$0")/demo-parts.sh"
enough=${SPOT_DEMO_PREEMPTIONS:-10} speedup=${SPOT_DEMO_SPEEDUP:-90}
take_folder build/demo-serve "${1-}"

say 'four hours of a zone that loses machines often'
spot-replay generate --profile stormy --law loss_per_h=30,loss_mean=1.5,loss_all=0,gain_per_h=60,shock_per_h=0 \
    --cap 4 --hours 4 --seed 44 -o "$out/trace.csv"
spot-replay describe --format table "$out/trace.csv" >&2
say 'what its first half hour says of the next ten minutes'
awk -F, 'NR == 1 || $1 <= 1800' "$out/trace.csv" |
    spot-predict --quiet --interval 60s --horizon 10 --cap 4 --format table >&2

say 'a small model learns the licences of this machine'
write_text "$out/text"
rm -rf "$out/model"
spot-run train --quiet --data "$out/text" --layers 4 --width 128 --heads 4 --seq 256 --global-batch 8 --steps 80 \
    --workers 2 --save "$out/model" >"$out/train.jsonl"
spot-run serve --quiet --model "$out/model" --batch - <<'R' | jq -r '.response.body.choices[0].text' >&2
{"custom_id":"a","url":"/v1/completions","body":{"model":"model","prompt":"This License ","max_tokens":60}}
R

# 300 requests, ten a second, each the same whoever asks: greedy and sampled, with one choice and two.
ask() { # ANSWERS
    load "unix:$tmp/http" n=300 rate=10 clients=64 in=48 out=120 "answers=$1"
}
ready() {
    until load "unix:$tmp/http" n=1 clients=1 in=1 out=1 plain=1 >/dev/null 2>&1; do
        kill -0 "$server"
        sleep 0.1
    done
}
serve() {
    spot-run serve --quiet --model "$out/model" --http "unix:$tmp/http" "$@" &
    server=$!
}

say 'clients ask two workers that nobody touches'
rm -f "$out/calm.jsonl"
serve --workers 2 --events "$out/calm.jsonl"
ready
ask "$out/calm" >"$out/calm.txt"
kill "$server"
wait "$server" || true

say 'the same of workers that come and go'
rm -rf "$out/state" "$out/cloud.jsonl" "$out/events.jsonl"
mkdir "$out/state"
storm() {
    serve --listen "unix:$tmp/job" --kv-buddies --grace 2s --lease 1s --state "$out/state" --events "$out/events.jsonl" "$@"
}
storm
spot-replay live --trace "$out/trace.csv" --from 30m --speedup "$speedup" --grace 2s --no-notice 0.4 \
    --max 4 --seed 7 --quiet --events "$out/cloud.jsonl" -- \
    spot-run worker --quiet --join "unix:$tmp/job" --name '{node}' 2>"$out/workers.log" &
cloud=$!
ready
preemptions() {
    grep -cE '"event":"(notice|kill)"' "$out/cloud.jsonl" || true
}
: >"$out/storm.txt"
rounds=0 died=''
rm -f "$out"/storm.[0-9]*
while [ "$(preemptions)" -lt "$enough" ] || [ $rounds -lt 1 ]; do
    rounds=$((rounds + 1))
    ask "$out/storm.$rounds" >>"$out/storm.txt" &
    client=$!
    while sleep 2 && kill -0 "$client" 2>/dev/null; do
        echo "$(preemptions) preemptions; $(spot-run status --join "unix:$tmp/job" --format json 2>/dev/null |
            jq -r '"\(.replicas) replicas, \(.running) running, \(.queued) waiting, \(.tokens_per_s | floor) tokens/s"')" >&2
        if [ ! "$died" ] && [ "$(preemptions)" -ge 5 ]; then
            died=yes
            echo 'the coordinator is killed, and another goes on from its journal' >&2
            kill -9 "$server"
            wait "$server" 2>/dev/null || true
            storm --resume
        fi
    done
    wait "$client"
    client=''
    [ $rounds -lt 5 ] || break
done
kill "$cloud" "$server"
wait "$cloud" "$server" || true
cloud='' server=''

say 'what came of it'
sort "$out/calm" >"$out/want"
for i in $(seq $rounds); do sort "$out/storm.$i" | comm -12 - "$out/want"; done >"$out/equal"
tokens() {
    awk '{ n += $3 } END { print n + 0 }' "$@"
}
spot-run report --format json -o "$out/calm.json" "$out/calm.jsonl"
spot-run report --format json -o "$out/storm.json" --plot "$out/storm.svg" "$out/events.jsonl"
row() { # WHAT KEY: of both reports; seconds as ms
    printf '%-34s %12s %12s\n' "$1" "$(jq ".$2" "$out/calm.json")" "$(jq ".$2" "$out/storm.json")"
}
all=$(for i in $(seq $rounds); do cat "$out/storm.$i"; done | tokens -)
printf '%-34s %12s %12s\n' '' undisturbed storm
row requests requests
row tokens tokens
printf '%-34s %12s %12s\n' 'tokens equal to the undisturbed' - "$(tokens "$out/equal") of $all"
row 'preemptions with notice' notices
row 'without' kills
row 'coordinator restarts' coordinator_restarts
for time in 'ttft:time to first token' 'between:between tokens' 'e2e:whole request'; do
    for q in 50 99; do
        row "${time#*:}, P$q ms" "${time%%:*}_p${q}_s * 1e4 | round / 10"
    done
done
row 'without any replica, s' 'no_replica_s * 10 | round / 10'
row 'tokens that came as pages' tokens_from_pages
row 'tokens prefilled again' tokens_prefilled_again
echo "drawn in $out/storm.svg"
[ "$(tokens "$out/equal")" = "$all" ]
