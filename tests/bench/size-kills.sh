#!/bin/bash
# SPDX-License-Identifier: MIT
# Does a job of real size keep its bits through kills and notices? 86 M parameters, grid 2x2 and a spare, EVENTS of them one
# after the other, each at a random moment to a random member, who is replaced. Then the same steps by one worker that nobody
# disturbs: all weights, moments and losses must be the same bits. Status 1 if they are not, or if too few events took place.
#   tests/bench/size-kills.sh
#   LAYERS=12 WIDTH=768 HEADS=12 SEQ=16 BATCH=4   the model and its batch       EVENTS=30   kills and notices
#   SEED=1      who is hit, how, and when (moments vary with the machine, so the steps do)
#   APART=2     steps between two events at most                                MINUTES=9   for all events
#   BIN=DIR     another spot-run          OUT=DIR   keep logs there
# pause: from the event until the next commit, less the median step. moved: bytes that all waited for. back: steps lost to a
# rollback, where both holders of a stage went before one of them was replaced.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
layers=${LAYERS:-12} width=${WIDTH:-768} heads=${HEADS:-12} seq=${SEQ:-16} batch=${BATCH:-4}
events=${EVENTS:-30} apart=${APART:-2} minutes=${MINUTES:-9} seed=${SEED:-1}
bin=${BIN:-$here/build/release/bin}
tmp=$(mktemp -d)
out=${OUT:-$tmp}
mkdir -p "$out"
log=$out/disturbed.log calm=$out/calm.log
declare -A id=()
pids=()
cleanup() {
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
    { wait; } 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cat "$here/LICENSE" "$here/README.md" "$here"/docs/design/*.md >"$tmp/text"
rm -f "$calm" "$out/hits"
: >"$log"
RANDOM=$seed

say() { echo "$(date +%T) $*" >&2; }
committed() { grep -c '"event":"committed"' "$log" 2>/dev/null || true; }

model=(--quiet --data "$tmp/text" --layers "$layers" --width "$width" --heads "$heads" --seq "$seq" --global-batch "$batch")
train() { # LOG STATE ARGUMENTS
    "$bin/spot-run" train "${model[@]}" --state "$tmp/$2" --events "$1" "${@:3}" 2>>"$out/err"
}

worker() { # NAME
    "$bin/spot-run" worker -q --join "unix:$tmp/job" --join-timeout 120s --name "$1" 2>>"$out/err" &
    id[$1]=$!
    pids+=($!)
}

runs() { kill -0 "$job" 2>/dev/null; }

# more N: so many commits more, 1 if the time is over or the job is
more() {
    local to=$(($(committed) + $1))
    until [ "$(committed)" -ge "$to" ]; do
        { [ $SECONDS -lt $deadline ] && runs; } || return 1
        sleep 0.02
    done
}

# a random part of a step, so that events come at any moment of it
part_of_step() {
    local step
    step=$(jq -rs '[.[] | select(.event == "committed").time_s][-9:] | [range(1; length) as $i | .[$i] - .[$i - 1]] | sort
        | .[length / 2 | floor] // 0.1' <(grep '"committed"' "$log" | tail -n 9))
    sleep "$(echo "scale=4; $step * $((RANDOM % 1000)) / 1000" | bc)"
}

hit() { # K: one of those who are there
    local names=("${!id[@]}") kind=KILL victim line
    mapfile -t names < <(printf '%s\n' "${names[@]}" | sort)
    victim=${names[$((RANDOM % ${#names[@]}))]}
    [ $((RANDOM % 2)) -eq 0 ] || kind=TERM
    line=$(wc -l <"$log")
    kill -$kind "${id[$victim]}" 2>/dev/null || return 0
    [ $kind = TERM ] || { wait "${id[$victim]}"; } 2>/dev/null || true
    unset "id[$victim]"
    jq -nc --arg kind $kind --arg name "$victim" --argjson line "$line" '{kind: $kind, name: $name, line: $line}' \
        >>"$out/hits"
    worker "r$1"
}

disturbed() {
    local k=0
    "$bin/spot-run" train "${model[@]}" --state "$tmp/state" --events "$log" --steps 1000000 --grid 2x2 \
        --listen "unix:$tmp/job" --lease 60s --grace 30s 2>>"$out/err" &
    job=$!
    pids+=("$job")
    for name in a b c d e; do worker $name; done
    deadline=$((SECONDS + minutes * 60))
    more 3 || { say "no step in $minutes minutes" && return 1; }
    while [ $k -lt "$events" ] && more $((1 + RANDOM % apart)); do
        part_of_step
        k=$((k + 1))
        hit $k
    done
    [ $SECONDS -ge $deadline ] || more 2 || true
    say "$k events in $(committed) commits"
    kill -TERM $job # its state is durable then
    local status=0
    wait $job || status=$?
    [ $status -eq 75 ]
}

# calm: the same steps, undisturbed; then the hash of both, and every byte of both
same_bits() {
    local steps
    steps=$(jq -s 'map(select(.event == "committed").step) | max' "$log")
    say "$steps steps, undisturbed"
    train "$calm" calm --steps "$steps" --workers 1
    train "$log" state --steps "$steps" --workers 1 --resume
    jq -r 'select(.event == "done").state_xxh3_128' "$calm" >"$out/calm.hash"
    jq -r 'select(.event == "done").state_xxh3_128' "$log" >"$out/disturbed.hash"
    for of in calm disturbed; do # of a step that was computed again the last
        jq -rs 'map(select(.event == "committed")) | group_by(.step)[] | .[-1] | "\(.step) \(.loss_hex)"' "$out/$of.log" >"$out/$of.loss"
    done
    [ -s "$out/calm.hash" ] && cmp "$out/calm.hash" "$out/disturbed.hash" && cmp "$out/calm.loss" "$out/disturbed.loss" &&
        for file in "$tmp/calm/gen-$(printf %012d "$steps")"/bundle-*; do
            cmp "$file" "$tmp/state/gen-$(printf %012d "$steps")/${file##*/}" || return 1
        done
}

table() {
    jq -rs --slurpfile hit "$out/hits" '
        def median: sort | if . == [] then 0 else .[length / 2 | floor] end;
        def ms: "\(. * 1000 | round)";
        . as $e | [.[] | select(.event == "committed")] as $c
        | ([range(1; $c | length) | $c[.].time_s - $c[. - 1].time_s] | median) as $step
        | [$hit[] as $h | $e[$h.line:] as $after
            | ([$after[] | select((.event == "lost" or .event == "notice") and .name == $h.name)][0]) as $l
            | ([$after[] | select(.event == "committed")][0]) as $next
            | select($l != null and $next != null)
            | { kind: (if $h.kind == "KILL" then "kill" else "notice" end),
                pause: ([$next.time_s - $l.time_s - $step, 0] | max),
                moved: ([$after[] | select(.event == "migrate")][0].moved_byte // 0) }] as $all
        | ["step, median ms", ($step | ms), ($c | length)],
          ((["kill", "notice"][]) as $k | [$all[] | select(.kind == $k)] as $of
            | ["\($k)s", ($of | length), ""],
              ["  pause, median ms", ([$of[].pause] | median | ms), ($of | length)],
              ["  pause, at most ms", ([$of[].pause] | max // 0 | ms), ($of | length)],
              ["  moved nothing", ([$of[] | select(.moved == 0)] | length), ($of | length)],
              ["  moved, at most MB", ([$of[].moved] | max // 0 | . / 1e6 | round), ($of | length)]),
          ["epochs", ([$e[] | select(.event == "formed")] | length), ""],
          ["rolled back", ([$e[] | select(.event == "rolled_back")] | length), ""],
          ["steps lost to that", ([$e[] | select(.event == "rolled_back") | .from - .to] | add // 0), ""]
        | @tsv' "$log" | column -t -s "$(printf '\t')"
}

begun=$SECONDS
disturbed || { tail -n 5 "$out/err" >&2 && exit 1; }
table
bits=different
! same_bits || bits=same
n_hit=$(wc -l <"$out/hits")
echo "events $n_hit of $events; weights, moments and losses: $bits bits; $((SECONDS - begun)) s"
[ $bits = same ] && [ "$n_hit" -eq "$events" ]
