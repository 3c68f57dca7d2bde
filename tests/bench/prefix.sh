#!/bin/bash
# SPDX-License-Identifier: MIT
# What the prefix cache is worth: the requests of every so many-th session of a trace with "hash_ids" (Mooncake's conversation_trace.jsonl), played
# live at shares of what the server computes without it, without and with it in turn. A block of 512 tokens is a page of 16 here, and
# answers are as much shorter; each block has tokens of its own, drawn by its hash. The answers must be equal.
#   tests/bench/prefix.sh TRACE [REQUESTS] [SHARES of the capacity] [TURNS] [SESSIONS, one of so many] [OPTION of the server...]
set -eu
trace=$(readlink -f "$1")
n=${2:-150} shares=${3:-.9 1.1} turns=${4:-2} every=${5:-29}
here=$(dirname "$(readlink -f "$0")")
PATH="$here/../../build/release/bin:$PATH"
tmp=$(mktemp -d)
cleanup() {
    kill -KILL "$(cat server 2>/dev/null)" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"
for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
spot-run train -q --data text --layers 6 --width 384 --heads 6 --seq 2048 --steps 1 --global-batch 1 --save model >/dev/null

# A line each: milliseconds, the body.
jq -rc --argjson every "$every" 'select(.input_length < 60000 and (.hash_ids[1] // 0) % $every == 0)
    | ([.input_length / 32 | floor, 1] | max) as $most
    | "\(.timestamp) \({model: "model", temperature: 0, ignore_eos: true, max_tokens: ([.output_length / 32 | floor, 1] | max),
        prompt: [.hash_ids[] as $h | range(16) as $i | ($h * (2654435 + $i * 40503) + $i * 12345) % 1000003 % 251][:$most]} | tojson)"' "$trace" |
    head -n "$n" >asked
jq -rRc 'split(" ") | {custom_id: "r\(input_line_number)", url: "/v1/completions", body: (.[1:] | join(" ") | fromjson)}' asked >in.jsonl
started=$(date +%s.%N)
spot-run serve -q --model model --batch in.jsonl --prefix-cache 0 "${@:6}" >computed
rate=$(echo "$started $(date +%s.%N) $n" | awk '{ print $3 / ($2 - $1) }')
tokens=$(jq -s 'map(.body.prompt | length) | add' in.jsonl)
echo "$n requests, $tokens prompt tokens; without the cache $rate of them a second at most"

play() { # NAME SHARE OPTION...
    local name=$1 share=$2 k=0 at body
    rm -f "$name.log"
    spot-run serve -q --model model --http unix:s --events "$name.log" --queue 4000 "${@:3}" &
    echo $! >server
    until curl -sf --unix-socket s http://localhost/health >/dev/null; do sleep 0.1; done
    local -a asked=()
    local begun
    begun=$(date +%s%N)
    while read -r at body; do
        k=$((k + 1))
        sleep "$(awk -v at="$at" -v begun="$begun" -v now="$(date +%s%N)" -v slower="$(cat "slower.$share")" \
            'BEGIN { left = at * slower / 1e3 - (now - begun) / 1e9; print (left > 0 ? left : 0) }')"
        curl -sf --unix-socket s -H 'Content-Type: application/json' -d "$body" http://localhost/v1/completions >"answer.$k" &
        asked+=($!)
    done <asked
    wait "${asked[@]}"
    jq -r '.choices[0].text' $(seq -f 'answer.%.0f' "$n") | cksum >"$name.sum"
    jq -s 'map(.usage.prompt_tokens_details.cached_tokens) | add' $(seq -f 'answer.%.0f' "$n") >"$name.cached"
    kill -TERM "$(cat server)"
    while kill -0 "$(cat server)" 2>/dev/null; do sleep 0.1; done
    rm server
    jq -s '[.[] | select(.event == "request") | .ttft_s] | sort | [.[length / 2 | floor], .[length * .9 | floor], add / length]' "$name.log"
}

for share in $shares; do # so many milliseconds of the trace for one
    tail -n 1 asked | awk -v n="$n" -v rate="$rate" -v share="$share" '{ print n / (rate * share) / ($1 / 1e3) }' >"slower.$share"
    for _ in $(seq "$turns"); do
        without=$(play "without" "$share" --prefix-cache 0 "${@:6}" | jq -c .)
        with=$(play "with" "$share" "${@:6}" | jq -c .)
        cmp without.sum with.sum
        jq -rn --arg share "$share" --argjson a "$without" --argjson b "$with" --argjson c "$(cat with.cached)" --argjson t "$tokens" \
            'def ms: . * 1e3 | round; "at \($share) of it: TTFT P50 \($a[0] | ms) -> \($b[0] | ms) ms (\($b[0] / $a[0] * 100 | round) %), P90 \($a[1] | ms) -> \($b[1] | ms) ms, mean \($a[2] | ms) -> \($b[2] | ms) ms; \($c / $t * 100 | round) % of the prompt tokens were there"'
    done
done
