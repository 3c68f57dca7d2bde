#!/bin/bash
# SPDX-License-Identifier: MIT
# Reinforcement learning on machines that vanish: GRPO on sums of two digits, with nothing but these tools.
#
#   examples/rl/grpo.sh [FOLDER]     SPOT_RL_ROUNDS=40 SPOT_RL_KILLS=0 SPOT_RL_PROMPTS=32 SPOT_RL_LR=1e-3
#
# A small model learns from sums of which half are wrong. Then, a round after another: it answers (serve),
# an answer is worth 1 if it is right, the advantage of each answer over the others to its question becomes
# the weight of its tokens' losses (train --weights-of-samples), and one step is made. With SPOT_RL_KILLS=N up
# to N workers of each server and each training are killed: the same weights come out, bit for bit.
set -euo pipefail
out=${1:-build/rl} rounds=${SPOT_RL_ROUNDS:-40} kills=${SPOT_RL_KILLS:-0}
prompts=${SPOT_RL_PROMPTS:-32} lr=${SPOT_RL_LR:-1e-3} steps=${SPOT_RL_STEPS:-1000}
each=8 T=8 # answers to a prompt; bytes of a question and its answer, filled up with ends of lines
rm -rf "$out"
mkdir -p "$out"
cd "$out"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# strike PID LOG: each time that workers have their places, one is killed, as often as was asked for
strike() {
    local k=0 line worker
    tail -n +1 -f -s 0.05 --pid="$1" "$2" | while [ $k -lt "$kills" ] && read -r line; do
        [[ $line == *'"event":"formed"'* ]] || continue
        k=$((k + 1))
        worker=$(pgrep -P "$1" | sed -n "$((k % 2 + 1))p") || true
        [ -z "$worker" ] || kill -9 "$worker" 2>/dev/null || true
    done || true
}

# job LOG COMMAND...: it ends well, whoever dies on the way
job() {
    local log=$1 pid
    shift
    : >"$log"
    spot-run "$@" -q --workers 2 --events "$log" &
    pid=$!
    [ "$kills" -eq 0 ] || strike $pid "$log"
    wait $pid
}

# The sums of a round: all hundred of them, in turn
questions() { # ROUND
    jq -nc --argjson r "$1" --argjson n "$prompts" --argjson each $each 'range($n) as $i
        | (($r * $n + $i) * 37 % 100) as $q | {custom_id: "\($i)", url: "/v1/completions", body: {
            prompt: "\($q / 10 | floor)+\($q % 10)=", n: $each, max_tokens: 3, stop: ["\n"], logprobs: 0,
            return_token_ids: true, seed: ($r * 1000 + $i)}}'
}

# What came back, in order: a line an answer with its tokens, where they begin, how probable they were, its
# reward, and its advantage over the others of its question
samples() { # QUESTIONS ANSWERS
    jq -c --slurpfile q "$1" -s 'sort_by(.custom_id | tonumber)[]
        | $q[.custom_id | tonumber].body.prompt as $prompt
        | ($prompt | capture("(?<a>.)[+](?<b>.)=") | (.a | tonumber) + (.b | tonumber)) as $sum
        | [.response.body.choices | sort_by(.index)[] | {
            word: (.prompt_token_ids + .token_ids), begin: (.prompt_token_ids | length),
            logprob: .logprobs.token_logprobs,
            reward: (if .finish_reason == "stop" and .text == "\($sum)" then 1 else 0 end)}]
        | (map(.reward) | add / length) as $mean
        | (map(.reward - $mean | . * .) | add / length | sqrt) as $spread
        | .[] | .advantage = (if $spread > 0 then (.reward - $mean) / $spread else 0 end)' "$2"
}

# Their tokens as bytes, T of each, and one behind the last; a number for each
write_data() { # SAMPLES DATA WEIGHTS
    # shellcheck disable=SC2059 # escapes alone: any byte may have been drawn
    printf "$(jq -j --argjson T $T 'def octal: "\\\(. / 64 | floor)\(. / 8 | floor % 8)\(. % 8)";
        .word + [range($T - (.word | length)) | 10] | map(octal) | add' "$1")\n" >"$2"
    jq -r --argjson T $T '.advantage as $a | .begin as $b | (.word | length) as $e
        | [range($T)] | map(if . >= $b and . < $e then $a else 0 end) | join(" ")' "$1" >"$3"
    echo 0 >>"$3"
}

# How far the ratio of the trainer's probability of a drawn token to the server's is from 1, at most, over how many
ratio() { # SAMPLES DATA MODEL
    spot-run eval -q --data "$2" --load "$3" --format csv | jq -Rn '[inputs | split(",") | select(.[0] != "at")
        | {key: .[0], value: (.[2] | tonumber)}] | from_entries' >losses
    jq -rs --argjson T $T --slurpfile loss losses 'to_entries
        | map(.key as $k | .value | .begin as $b | .logprob | to_entries[]
            | -$loss[0]["\($k * $T + $b + .key)"] - .value | exp - 1 | fabs) | "\(max) \(length)"' "$1"
}

# --- a model that has learnt from others' mistakes, too
awk -v n=4000 -v T=$T 'function draw(m) { x = x * 16807 % 2147483647; return int(x / 4096) % m }
    BEGIN { x = 1; for (i = 0; i < n; i++) { a = draw(10); b = draw(10)
        line = a "+" b "=" (draw(2) ? draw(19) : a + b)
        while (length(line) < T) line = line "\n"
        printf "%s", line } print "" }' >text
job begin.log train --data text --layers 2 --width 64 --heads 4 --seq $T --global-batch 64 --micro-batch 16 \
    --steps "$steps" --lr 5e-3 --lr-schedule cosine:warmup=20 --weight-decay 0 --save model.0

# --- rounds
echo 'round reward  ratio-1 of tokens  loss      killed'
for ((r = 0; r < rounds; r++)); do
    rm -f answers
    questions $r >asked
    job serve.$r.log serve --model model.$r --batch asked -o answers
    samples asked answers >drawn
    write_data drawn data.$r weights.$r
    read -r far n <<<"$(ratio drawn data.$r model.$r)"
    job train.$r.log train --load model.$r --data data.$r --weights-of-samples weights.$r --steps 1 \
        --global-batch $((prompts * each)) --micro-batch 16 --lr "$lr" --weight-decay 0 --save model.$((r + 1))
    reward=$(jq -s 'map(.reward) | add / length' drawn)
    printf '%5d %6.3f %8g %9d %9.5f %6d  %s\n' $r "$reward" "$far" "$n" \
        "$(jq -rs 'map(select(.event == "committed")) | last.loss' train.$r.log)" \
        "$(cat serve.$r.log train.$r.log | grep -c '"event":"lost"')" \
        "$(printf '%*s' "$(jq -n "$reward * 40 | floor")" '' | tr ' ' '#')" | tee -a curve
    [ "$far" = 0 ] || { echo "the trainer has another probability than the server" >&2; exit 1; }
done
echo "weights $(sha256sum <"model.$rounds/model.safetensors" | cut -c 1-32)"
