#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# arm.sh - instructions executed on Arm under qemu-user, a stand-in for time where there is no such machine: per token and per
# multiply-add of the weights, for each type, phase and set of vector instructions, beside the peers'. One thread; the counts are exact.
# Needs what tests/aarch64.sh needs, and cc. 77: something of that is not here.
#
# usage: arm.sh [CASE...]      q8 fp32 bf16 training, all unless told: a line for each phase
#
#   SIMD="neon sve256"         sets of SPOT_SIMD
#   LLAMA_NEON=DIR LLAMA_NEONDOT=DIR LLAMA_NEONI8MM=DIR LLAMA_SVE256=DIR   a static llama-batched-bench for aarch64, built for these
#   LLAMA_MODEL=DIR            q8.gguf, f32.gguf and bf16.gguf of this shape: 1 layer, 512 wide, 8 heads, 1536 in the MLP, 1024 tokens, tied
# The peer of training is OpenBLAS doing the products alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
for need in cc qemu-aarch64; do
    command -v $need >/dev/null || { echo "arm: no $need"; exit 77; }
done
tests/aarch64.sh build bench/bench_infer bench/bench_engine
bench=$PWD/build/aarch64/bench
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cc -O2 -shared -fPIC -o "$dir/count.so" tests/bench/count_instructions.c

layer=$((4 * 512 * 512 + 3 * 512 * 1536)) head=$((512 * 1024)) # weights

count() { # CMD...: the number of instructions at each reading of the clock and at the end
    qemu-aarch64 -cpu max,sve256=on -plugin "$dir/count.so" "$@" 2>&1 >/dev/null | sed -n 's/^count //p' || true
}
row() { # WHAT UNITS MULTIPLY-ADDS OURS PEER
    awk -v what="$1" -v simd="$simd" -v n="$2" -v madd="$3" -v ours="$4" -v peer="$5" 'BEGIN {
        printf "| %s | %s | %.0f, %.4f | ", what, simd, ours / n, ours / madd
        if (peer) printf "%.0f, %.4f | %.2f |\n", peer / n, peer / madd, ours / peer
        else print "not run | |"
    }'
}
theirs() { # FILE PROMPT GENERATED SEQUENCES: all instructions
    [ -x "$peer/llama-batched-bench" ] && [ -e "$1" ] || return 0
    count "$peer/llama-batched-bench" -m "$1" -t 1 -tb 1 -c $(($4 * 64 + 512)) -b 512 -ub 512 -npp "$2" -ntg "$3" -npl "$4" | tail -n 1
}
between() { # A B: A - B, or nothing
    [ -z "$1" ] || echo $(($1 - $2))
}

infer() { # TYPE
    local at file=${LLAMA_MODEL-}/${1/fp32/f32}.gguf n i=0 dir_of=LLAMA_${simd^^} peer
    peer=${!dir_of-}
    mapfile -t at < <(SPOT_SIMD=$simd count "$bench/bench_infer" -k "$simd" -t "$1" 1 1 1 512 8 8 1536 1024)
    [ ${#at[@]} = 21 ] || { echo "arm: $simd: bench_infer read the clock ${#at[@]} times, not 21" >&2; exit 1; }
    for n in 1 4 16; do # the second round; theirs: two tokens more of each of n sequences
        row "$1, batch $n" $n $((n * (layer + head))) $((at[13 + i] - at[12 + i])) \
            "$(between "$(theirs "$file" 32 4 $n)" "$(theirs "$file" 32 2 $n)" | awk '{ print $1 / 2 }')"
        i=$((i + 2))
    done
    row "$1, prefill of 512" 512 $((512 * layer + head)) $((at[19] - at[18])) \
        "$(between "$(theirs "$file" 512 1 1)" "$(theirs "$file" 32 1 1)" | awk '{ print $1 * 512 / 480 }')"
}
training() {
    local at core=NEOVERSEN1
    [ "$simd" != sve256 ] || core=NEOVERSEV1
    mapfile -t at < <(OPENBLAS_NUM_THREADS=1 OPENBLAS_CORETYPE=$core SPOT_SIMD=$simd count "$bench/bench_engine" 1 512 8 64 256 1 1 2 fma 4)
    [ ${#at[@]} = 73 ] || { echo "arm: $simd: bench_engine read the clock ${#at[@]} times, not 73" >&2; exit 1; } # 18 a step, 36 in OpenBLAS, the end
    local -i floor=0 i
    for i in 60 62 64 66; do floor+=$((at[i + 1] - at[i])); done
    floor+=$(((at[69] - at[68]) * 8 + at[71] - at[70]))
    row 'training, a step, beside the products of OpenBLAS' 64 $((3 * 64 * (12 * 512 * 512 + 256 * 512))) $((at[35] - at[18])) "$floor"
}

[ $# -gt 0 ] || set -- q8 fp32 bf16 training
echo '| what | instructions | ours: a token, a multiply-add | peer: a token, a multiply-add | ratio |'
echo '|---|---|---:|---:|---:|'
for case in "$@"; do
    all='neon sve256'
    [ "$case" != q8 ] || all='neon neondot neoni8mm sve256'
    for simd in ${SIMD-$all}; do
        case $case in training) training ;; *) infer "$case" ;; esac
    done
done
