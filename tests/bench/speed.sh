#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# speed.sh - one table: what, ours, the peer or the limit, and the ratio, for each kind of processor; medians of alternations.
#
# usage: speed.sh [CASE...]     infer http floor torch, all unless told: measures, prints the table
#        speed.sh table [FILE]  the table of $ROWS alone; with FILE between its two marks there, in place of the one before
#
#   ROWS=FILE                  rows are added to it, and it is kept: a table may be measured in parts and on several machines
#   SIMD="avx2 avx512"         what this processor is taken for (SPOT_SIMD; the peers likewise); on Arm neon. ROUNDS=3
#   TYPES="q8 fp32 bf16" MODELS="12M 124M T1024"
#   LLAMA_AVX2=DIR LLAMA_AVX512=DIR LLAMA_NEON=DIR  llama-batched-bench and llama-server, built for these
#   LLAMA_MODEL=DIR            q8.gguf, f32.gguf and bf16.gguf of the model of its config.json, or without that of bench_infer's shape
#                              (12 layers, 768 wide, 12 heads, 2048 in the MLP, 32000 tokens, tied)
#   TORCH=PYTHON               one that has PyTorch
# A peer that is not told is left out. 16 clients: 96 letters in, 64 tokens out, 32 requests; theirs keeps no prompts, as ours keeps none.
set -euo pipefail
cd "$(dirname "$0")/../.."
bench=$PWD/build/release/bench
PATH="$PWD/build/release/bin:$PWD/build/release/tests:$PATH"
dir=$(mktemp -d) server=''
ROWS=${ROWS-$dir/rows}
# shellcheck disable=SC2317 # it is called at the end
finish() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT

row() { # WHAT AIM OURS PEER: of this $simd
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$simd" "$2" "$3" "$4" >>"$ROWS"
}
kinds() { # that this processor can be taken for
    case $(uname -m) in
        aarch64) echo neon ;;
        *) echo avx2 "$(grep -qm1 avx512_vnni /proc/cpuinfo && echo avx512)" ;;
    esac
}
peers() { # the folder of llama.cpp's programs for this $simd
    local name=LLAMA_${simd^^}
    echo "${!name-}"
}

infer() { # TYPE
    local theirs file=${LLAMA_MODEL-}/${1/fp32/f32}.gguf aim=(1.1 1.5 1.5 1.3) what shape=()
    [ "$1" = q8 ] || aim=(1.1 1.3 1.5 1.3)
    [ ! -e "${LLAMA_MODEL-}/config.json" ] || shape=(-m "$LLAMA_MODEL/config.json")
    SPOT_SIMD=${simd/512/512bf16} "$bench/bench_infer" -t "$1" "${shape[@]}" 2 5 |
        sed -E 's/.*probe ([0-9.]+) GB.*one ([0-9.]+) tok.s, ([0-9.]+) of.*batch 4 ([0-9]+) tok.*batch 16 ([0-9]+) tok.*of 512 ([0-9]+) tok.*/\1 \3\n\2\n\4\n\5\n\6/' >"$dir/ours"
    row "$1, one stream, GB/s read, of what is there" '≥ .85' "$(awk 'NR == 1 { print $1 * $2 }' "$dir/ours")" "$(awk 'NR == 1 { print $1 }' "$dir/ours")"
    sed -i 1d "$dir/ours"
    theirs=$(peers)
    [ -x "$theirs/llama-batched-bench" ] && [ -e "$file" ] || return 0
    for what in '32 -ntg 8 -npl 1,4,16 .speed_tg' '512 -ntg 1 -npl 1 .speed_pp'; do
        # shellcheck disable=SC2086 # options
        "$theirs/llama-batched-bench" -m "$file" -t 2 -c 2048 -b 512 -ub 512 -npp ${what% *} --output-format jsonl 2>/dev/null |
            jq -r "select(.n_kv) | ${what##* }"
    done >"$dir/theirs"
    paste "$dir/ours" "$dir/theirs" >"$dir/both"
    for what in 'one stream' 'batch 4' 'batch 16' 'prefill of 512'; do
        read -r ours theirs <&3
        row "$1, $what, tokens/s, of llama.cpp's" "≥ ${aim[0]}" "$ours" "$theirs"
        aim=("${aim[@]:1}")
    done 3<"$dir/both"
}

# ADDRESS [KEY=VALUE...]: tokens/s and the median time to the first token, ms
ask() {
    local address=$1
    shift
    until load "$address" n=1 clients=1 in=4 out=1 plain=1 "$@" >/dev/null 2>&1; do
        kill -0 "$server"
        sleep 0.2
    done
    load "$address" n=16 clients=16 in=96 out=8 plain=1 "$@" >/dev/null
    load "$address" n=32 clients=16 in=96 out=64 plain=1 "$@" |
        sed -n 's/.* token_per_s=\([0-9.]*\) .*first_p50=\([0-9.]*\) .*/\1 \2/p'
}
stop() {
    kill -TERM "$server"
    wait "$server" 2>/dev/null || true
    server=''
}
http() { # TYPE
    local theirs file=${LLAMA_MODEL-}/${1/fp32/f32}.gguf ours peer
    theirs=$(peers)
    [ -x "$theirs/llama-server" ] && [ -e "$file" ] || return 0
    rm -f "$dir/s"
    [ -e "$dir/model" ] || spot-run import -q "$LLAMA_MODEL/f32.gguf" "$dir/model"
    SPOT_SIMD=${simd/512/512bf16} spot-run serve -q --model "$dir/model" --dtype "$1" --threads 2 --max-batch 16 --http unix:"$dir/s" \
        --linger 0s 2>"$dir/log" &
    server=$!
    read -r -a ours < <(ask unix:"$dir/s")
    stop
    "$theirs/llama-server" -m "$file" -t 2 -tb 2 -np 16 -c 4096 --host 127.0.0.1 --port "${PORT:-18080}" \
        --no-cache-prompt --cache-ram 0 >"$dir/log" 2>&1 &
    server=$!
    read -r -a peer < <(ask 127.0.0.1:"${PORT:-18080}" ids=0)
    stop
    row "$1, 16 clients, tokens/s, of llama-server's" '≥ 1.4' "${ours[0]}" "${peer[0]}"
    row "$1, 16 clients, first token, ms, of llama-server's" '≤ .5' "${ours[1]}" "${peer[1]}"
}

shape_of() { # MODEL: L C H T V b THREADS STEPS, as bench_engine and torch_step.py take them
    case $1 in
        12M) echo 6 384 6 64 256 4 2 12 ;;
        124M) echo 12 768 12 64 256 4 2 4 ;;
        T1024) echo 2 768 12 1024 256 1 2 4 ;;
    esac
}
step() { # MODEL: tokens/s, ms of a step, ms of OpenBLAS
    local core=Haswell shards=4
    [ "$simd" != avx512 ] || core=SkylakeX
    [ "$1" != 12M ] || shards=2 # it has six heads
    # shellcheck disable=SC2046 # numbers
    OPENBLAS_CORETYPE=$([ "$simd" = neon ] || echo $core) SPOT_SIMD=${simd/512/512bf16} "$bench/bench_engine" $(shape_of "$1") auto $shards |
        sed -n 's/.*best \([0-9.]*\) ms, \([0-9.]*\) token.*floor \([0-9.]*\) ms.*/\2 \1 \3/p'
}
floor() { # MODEL
    local at
    read -r -a at < <(step "$1")
    row "training $1, ms a step, of OpenBLAS's products alone" "$([ "$1" = T1024 ] && echo '≤ 1.0' || echo '≤ 1.05')" "${at[1]}" "${at[2]}"
}
torch() { # MODEL
    local at way
    [ -n "${TORCH-}" ] || return 0
    for way in eager compile; do
        # shellcheck disable=SC2046 # numbers
        ATEN_CPU_CAPABILITY=$simd ONEDNN_MAX_CPU_ISA=$([ "$simd" = avx2 ] && echo AVX2 || echo ALL) \
            "$TORCH" tests/bench/torch_step.py $(shape_of "$1") "${way/eager/}" >"$dir/theirs" 2>"$dir/log" ||
            { echo "speed.sh: PyTorch ($way, $simd) ended with $?: $(tail -n 1 "$dir/log")" >&2; continue; }
        read -r -a at < <(step "$1")
        row "training $1, tokens/s, of PyTorch's ($way)" "$([ "$1" = 124M ] && echo '≥ 1.4' || echo '≥ 1.3')" "${at[0]}" "$(cat "$dir/theirs")"
    done
}

table() {
    echo '| what | asked | AVX2: ours, peer, ratio | AVX-512: ours, peer, ratio | Arm: ours, peer, ratio |'
    echo '|---|---|---:|---:|---:|'
    awk -F'\t' '
        function median(list,   n, x, i, j, t) {
            n = split(list, x, " ")
            for (i = 2; i <= n; i++) for (j = i; j > 1 && x[j] + 0 < x[j - 1] + 0; j--) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t }
            return (x[int((n + 1) / 2)] + x[int((n + 2) / 2)]) / 2
        }
        function three(x) { return x >= 100 ? sprintf("%.0f", x) : x >= 10 ? sprintf("%.1f", x) : sprintf("%.2f", x) }
        !($1 in aim) { what[++n] = $1; aim[$1] = $3 }
        { k = $1 FS $2; ours[k] = ours[k] " " $4; peer[k] = peer[k] " " $5; ratio[k] = ratio[k] " " $4 / $5 }
        END {
            split("avx2 avx512 neon", simd, " ")
            for (i = 1; i <= n; i++) {
                printf "| %s | %s |", what[i], aim[what[i]]
                for (s = 1; s <= 3; s++) {
                    k = what[i] FS simd[s]
                    printf k in ours ? " " three(median(ours[k])) ", " three(median(peer[k])) ", **" sprintf("%.2f", median(ratio[k])) "** |" : " not run |"
                }
                print ""
            }
        }' "$ROWS"
    echo
    sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort | uniq -c | awk '{ n = $1; $1 = ""; print "Run on" $0 ", " n " cores, " }' | tr -d '\n'
    awk -F': *' '/^cpu family/ { f = $2 } /^model\t/ { m = $2 } END { print "family " f ", model " m "; AVX2 is this processor without its better instructions (`SPOT_SIMD=avx2`)." }' /proc/cpuinfo
}

if [ "${1-}" = table ] && [ -n "${2-}" ]; then
    table >"$dir/table"
    sed -i -e "/^<!-- speed.sh -->/r $dir/table" -e '/^<!-- speed.sh -->/,/^<!-- end -->/{/^<!--/!d}' "$2"
    exit 0
fi
if [ "${1-}" != table ]; then
    [ $# -gt 0 ] || set -- infer http floor torch
    for ((round = 0; round < ${ROUNDS:-3}; round++)); do
        for case in "$@"; do
            of=${TYPES-q8 fp32 bf16}
            case $case in floor | torch) of=${MODELS-12M 124M T1024} ;; esac
            for one in $of; do
                for simd in ${SIMD-$(kinds)}; do
                    "$case" "$one"
                done
            done
        done
    done
fi
table
