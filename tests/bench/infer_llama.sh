#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# infer_llama.sh - tokens per second beside llama.cpp's, in one run: medians of alternations, as ratios.
#
#   LLAMA_BENCH=.../llama-batched-bench LLAMA_MODEL=DIR tests/bench/infer_llama.sh
#
# DIR has f32.gguf, bf16.gguf and q8.gguf of the model of its config.json, or without that of bench_infer's shape (12 layers, 768 wide,
# 12 heads, 2048 in the MLP, 32000 tokens, tied). Those that are missing are left out. ROUNDS=5 alternations, KERNEL=... for ours.
set -euo pipefail

bench=$(dirname "$0")/../../build/release/bench/bench_infer
if [ -z "${LLAMA_BENCH-}" ] || [ -z "${LLAMA_MODEL-}" ]; then
    echo "infer_llama: LLAMA_BENCH and LLAMA_MODEL do not say where llama-batched-bench and its models are: skipped"
    exit 0
fi

# theirs FILE: TYPE one, batch 4, batch 16, prefill
theirs() {
    "$LLAMA_BENCH" -m "$1" -t 2 -c 2048 -b 512 -ub 512 -npp 32 -ntg 8 -npl 1,4,16 --output-format jsonl 2>/dev/null |
        jq -r 'select(.n_kv) | .speed_tg'
    "$LLAMA_BENCH" -m "$1" -t 2 -c 2048 -b 512 -ub 512 -npp 512 -ntg 1 -npl 1 --output-format jsonl 2>/dev/null |
        jq -r 'select(.n_kv) | .speed_pp'
}

median() {
    sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

shape=() types=()
[ ! -e "$LLAMA_MODEL/config.json" ] || shape=(-m "$LLAMA_MODEL/config.json")
for type in fp32 bf16 q8; do
    [ ! -e "$LLAMA_MODEL/${type/fp32/f32}.gguf" ] || types+=("$type")
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for ((round = 0; round < ${ROUNDS:-5}; round++)); do
    for type in "${types[@]}"; do
        file=$LLAMA_MODEL/${type/fp32/f32}.gguf
        "$bench" ${KERNEL:+-k "$KERNEL"} -t "$type" "${shape[@]}" 2 1 | sed -E 's/.*one ([0-9.]+) tok.*batch 4 ([0-9]+) tok.*batch 16 ([0-9]+) tok.*of 512 ([0-9]+) tok.*/\1\n\2\n\3\n\4/' >"$dir/ours"
        theirs "$file" >"$dir/theirs"
        paste "$dir/ours" "$dir/theirs" | awk -v d="$dir/$type" '{ print $1 / $2 >> (d "." NR) }'
    done
done
for type in "${types[@]}"; do
    printf '%s: times llama.cpp: one %s, batch 4 %s, batch 16 %s, prefill of 512 %s\n' "$type" \
        "$(median <"$dir/$type.1")" "$(median <"$dir/$type.2")" "$(median <"$dir/$type.3")" "$(median <"$dir/$type.4")"
done
