#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# serve_llama.sh - 16 streaming clients over HTTP, beside llama.cpp's server, in one run: medians of alternations.
#
#   LLAMA_SERVER=.../llama-server LLAMA_MODEL=DIR SERVE_MODEL=DIR tests/bench/serve_llama.sh
#
# LLAMA_MODEL has f32.gguf, bf16.gguf and q8.gguf (infer_llama.sh says of what), SERVE_MODEL is a Hugging Face directory of the
# same shape and vocabulary. Without them there is nothing to measure. Each server has two threads and the machine to itself;
# theirs keeps no prompts from request to request, as ours keeps none. IN=96 letters of the prompt, OUT=64 tokens, N=32
# requests, ROUNDS=3 alternations.
set -euo pipefail

if [ -z "${LLAMA_SERVER-}" ] || [ -z "${LLAMA_MODEL-}" ] || [ -z "${SERVE_MODEL-}" ]; then
    echo "serve_llama: LLAMA_SERVER, LLAMA_MODEL and SERVE_MODEL do not say where llama-server and the models are: skipped"
    exit 0
fi
top=$(cd "$(dirname "$0")/../.." && pwd)
PATH="$top/build/release/bin:$top/build/release/tests:$PATH"
make -s -C "$top" build/release/tests/load
dir=$(mktemp -d)
ln -s "$(readlink -f "$SERVE_MODEL")" "$dir/model"
server=''
finish() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT

# ask ADDRESS [KEY=VALUE...]: tokens/s and the median time to the first token, ms
ask() {
    local address=$1
    shift
    until load "$address" n=1 clients=1 in=4 out=1 plain=1 "$@" >/dev/null 2>&1; do
        kill -0 "$server"
        sleep 0.2
    done
    load "$address" n=16 clients=16 in="${IN:-96}" out=8 plain=1 "$@" >/dev/null
    load "$address" n="${N:-32}" clients=16 in="${IN:-96}" out="${OUT:-64}" plain=1 "$@" |
        sed -n 's/.* token_per_s=\([0-9.]*\) .*first_p50=\([0-9.]*\) .*/\1 \2/p'
}

stop() {
    kill -TERM "$server"
    wait "$server" 2>/dev/null || true
    server=''
}

ours() { # TYPE
    rm -f "$dir/s"
    spot-run serve -q --model "$dir/model" --dtype "$1" --threads 2 --max-batch 16 --http unix:"$dir/s" --linger 0s 2>"$dir/log" &
    server=$!
    ask unix:"$dir/s"
    stop
}

theirs() { # TYPE
    "$LLAMA_SERVER" -m "$LLAMA_MODEL/${1/fp32/f32}.gguf" -t 2 -tb 2 -np 16 -c 4096 --host 127.0.0.1 --port "${PORT:-18080}" \
        --no-cache-prompt --cache-ram 0 >"$dir/log" 2>&1 &
    server=$!
    ask 127.0.0.1:"${PORT:-18080}" ids=0
    stop
}

median() {
    sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

for ((round = 0; round < ${ROUNDS:-3}; round++)); do
    for type in fp32 bf16 q8; do
        ours $type >"$dir/ours"
        theirs $type >"$dir/theirs"
        paste -d ' ' "$dir/ours" "$dir/theirs" | tee -a "$dir/$type"
    done
done
for type in fp32 bf16 q8; do
    printf '%s: %s token/s, first after %s ms; times llama-server %s, its first token %s\n' "$type" \
        "$(cut -d' ' -f1 "$dir/$type" | median)" "$(cut -d' ' -f2 "$dir/$type" | median)" \
        "$(awk '{ print $1 / $3 }' "$dir/$type" | median)" "$(awk '{ print $2 / $4 }' "$dir/$type" | median)"
done
