#!/bin/bash
# SPDX-License-Identifier: MIT
# Give one worker of a job a fault (tests/tool/faulty.c), many times over, and see what --verify makes of it. A
# table at the end; exit 0 if each fault was found as stated, nobody else was accused, and no weight is wrong
# where it must not be.
#   tests/corrupt.sh [FAULTS] [SEED]
#   tests/corrupt.sh calm [STEPS]
# With `calm` there is no fault: a job with all verified, whose workers are killed, one each second; exit 0 if there was
# no alarm and the bits are those of one undisturbed worker.
# Half of the faults last, and a twentieth of the microbatches is checked: each must be found within K steps. The
# others strike once, and all is checked: each must be found before its commit. Weights are those of an
# undisturbed run wherever the fault was found before the commit of the step in which it struck.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
seq 1 3000 >"$tmp/corpus"

calm() { # STEPS
    local job i=0 n=7 pids=() log=$tmp/log why=
    local small=(--data "$tmp/corpus" --layers 2 --width 16 --heads 1 --seq 8 --shards 1 --global-batch 6 --steps "$1")
    join() { # NUMBER
        spot-run worker -q --join "unix:$tmp/j" --join-timeout 60s 2>/dev/null &
        pids[$1]=$!
    }
    spot-run train -q "${small[@]}" --workers 1 --events "$tmp/alone" --durable-every 1h
    spot-run train -q "${small[@]}" --grid 3x2 --verify 1 --listen "unix:$tmp/j" --events "$log" &
    job=$!
    for i in $(seq $n); do join "$i"; done
    while kill -0 $job 2>/dev/null; do
        sleep 1
        i=$((RANDOM % n + 1))
        kill -9 "${pids[i]}" 2>/dev/null || true
        { wait "${pids[i]}" || true; } 2>/dev/null
        join "$i"
    done
    wait $job || why="; the job failed"
    kill -9 "${pids[@]}" 2>/dev/null || true
    { wait || true; } 2>/dev/null
    alarms=$(grep -cE '"event":"(differs|corrupt)"' "$log") || true
    [ "$(sed -n 's/.*"state_xxh3_128":"\([^"]*\)".*/\1/p' "$log")" = "$(sed -n 's/.*"state_xxh3_128":"\([^"]*\)".*/\1/p' "$tmp/alone")" ] ||
        why="$why; the bits are others"
    echo "$(grep -c '"event":"committed"' "$log") commits, $(grep -c '"event":"formed"' "$log") epochs, $alarms alarms$why"
    [ "$alarms$why" = 0 ]
}
if [ "${1:-}" = calm ]; then
    calm "${2:-100000}"
    exit
fi

n=${1:-1000}
RANDOM=${2:-1}
model=(--data "$tmp/corpus" --layers 2 --width 32 --heads 2 --seq 16 --shards 2 --global-batch 12)
steps=24

spot-run train -q "${model[@]}" --steps $steps --events "$tmp/calm"
jq -c 'select(.event == "committed") | .chain' "$tmp/calm" | jq -s . >"$tmp/chain"
calm=$(jq -r 'select(.event == "done").state_xxh3_128' "$tmp/calm")

play() { # NUMBER GRID SHARE FAULT FROM PLACE BIT [once]
    local dir=$tmp/$1 grid=$2 share=$3 status=0 i job pids=()
    shift 3
    mkdir "$dir"
    faulty "unix:$dir/j" bad "$@" 2>/dev/null &
    pids+=($!)
    for i in $(seq 2 $((${grid%x*} * ${grid#*x}))); do
        spot-run worker -q --join "unix:$dir/j" --join-timeout 60s --name "good$i" 2>/dev/null &
        pids+=($!)
    done
    SPOT_TEST_FIRST=$((${grid%x*} * ${grid#*x})) timeout 120 spot-run train -q "${model[@]}" --steps $steps --grid "$grid" --verify "$share" --lease 30s \
        --listen "unix:$dir/j" --events "$dir/log" 2>"$dir/err" &
    job=$!
    wait $job || status=$?
    kill "${pids[@]}" 2>/dev/null || true
    # steps from the first commit that is not the undisturbed one to when it was found: 0, before any; -1: never
    jq -rs --arg calm "$calm" --argjson status $status --arg what "$grid $share $1 ${5:-lasting}" \
        --slurpfile chain "$tmp/chain" '
        map(select(.event == "corrupt")) as $found | (map(select(.event == "done"))[0].state_xxh3_128 // "") as $state |
        (map(select(.event == "committed" and .chain != $chain[0][.step - 1]))[0].step) as $wrong |
        [$what, $status, ($found | map(select(.name == "bad")) | length), ($found | map(select(.name != "bad")) | length),
         (if $wrong == null then 0 elif $found == [] then -1 else $found[0].step + 1 - $wrong end),
         ($state == $calm)] | @tsv' "$dir/log" >>"$tmp/all"
    rm -r "$dir"
    wait "${pids[@]}" || true
}

fault=(weight moment sum activation gemm ulp)
for i in $(seq "$n"); do
    what=${fault[i / 2 % 6]}
    bit=$((RANDOM % 23)) # of a float's fraction; of a sum, low ones too
    if [ $((i % 2)) = 0 ]; then
        play "$i" 4x1 .05 "$what" $((2 + RANDOM % 8)) "$RANDOM" "$bit" &
    else
        play "$i" 3x$((1 + i % 4 / 2)) 1 "${fault[i / 2 % 5]}" $((2 + RANDOM % 8)) "$RANDOM" "$bit" once &
    fi
    [ $((i % 4)) != 0 ] || wait
done
wait
# K = D / (share G) = 4 / (.05 * 12) = 6. A fault without effect, on what is rounded away or multiplied by 0, is
# not found, and does no harm; the bits tell.
awk -F '\t' -v n="$n" '
    { kind = $1; all[kind]++; found[kind] += $3 > 0; accused[kind] += $4; void[kind] += !$3 && !$5 && $6 == "true"
      if ($5 > late[kind]) late[kind] = $5
      wrong[kind] += $6 == "false"
      in_time[kind] += $6 == "false" && $5 == 0
      once = kind ~ /once/
      if ($5 < 0 || $5 > (once ? 0 : 5) || $4 > 0 || $2 != 0 || (!$3 && $6 == "false") || $3 > 1 || ($6 == "false" && !$5))
          failed++ }
    END { printf "%-28s %6s %6s %8s %8s %8s %14s %14s\n", "grid share fault", "faults", "found", "no harm", "accused",
              "latest", "weights wrong", "though in time"
          for (k in all) printf "%-28s %6d %6d %8d %8d %8d %14d %14d\n", k, all[k], found[k], void[k], accused[k], late[k],
              wrong[k], in_time[k] | "sort"
          close("sort")
          printf "%d faults, %d not as stated\n", NR, failed
          exit failed > 0 || NR != n }' "$tmp/all"
