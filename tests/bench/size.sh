#!/bin/bash
# SPDX-License-Identifier: MIT
# A job of real size on this machine: 86 M parameters, state of 1.03 GB, grid 2x2 and a spare. What a kill, a notice, a
# join and a plan cost, how far the disk is behind, how long a resume and the end of the job take, what the coordinator had.
#   tests/bench/size.sh [BEFORE-BIN-DIR]
# With another spot-run first the same is done with that one; each measures for MINUTES (4) at most and tells what it has.
#   LAYERS=12 WIDTH=768 SEQ=64 BATCH=4    the model and its batch        KILLS=3 NOTICES=2 JOINS=1    events of each kind
#   OUT=DIR   keep logs there; what is there already is not run again, only told: PARTS="before after" is resumed
# Every wait is as many steps as it needs, at the pace that was measured; what does not come in time is left out, and told.
#   recovery  from the loss to the first commit behind it, less a median step (what is redone); of that, until all had moved
#   pause     longest time between commits in the 12 behind the event, less a median step; with no event (calm) that is
#             how steps vary. Beside it, of the step that has the change in it: how much longer than a median step it was,
#             and from the commit before it until the new epoch (in that the update of every step is done as well)
#   lag       from the commit of a step until it is durable; share: what steps took longer meanwhile, of all their time
# shellcheck disable=SC2016 # jq's own variables
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
layers=${LAYERS:-12} width=${WIDTH:-768} heads=${HEADS:-12} seq=${SEQ:-64} batch=${BATCH:-4}
kills=${KILLS:-3} notices=${NOTICES:-2} joins=${JOINS:-1} minutes=${MINUTES:-4}
out=${OUT:-$(mktemp -d)}
tmp=$(mktemp -d)
mkdir -p "$out"
pids=()
cleanup() {
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
    [ -n "${OUT-}" ] || rm -rf "$out"
}
trap cleanup EXIT
cat "$here/LICENSE" "$here/README.md" "$here"/docs/design/*.md >"$tmp/text"

now() { date +%s.%N; }
count() { grep -c "\"event\":\"$1\"" "$log" 2>/dev/null || true; }
say() { echo "$(date +%T) $*" >&2; }

# pace: the median of the last steps in whole seconds, upwards; before there are two, what is left of the time
pace() {
    jq -rs '[.[] | select(.event == "committed").time_s][-12:] | [range(1; length) as $i | .[$i] - .[$i - 1]] | sort
        | if . == [] then 30 else .[length / 2 | floor] | ceil end' "$log" 2>/dev/null || echo 30
}

# until_more EVENT HOW-MANY STEPS: so many more than now, within the time of so many steps and what is left of all; 1: not
until_more() {
    local to=$(($(count "$1") + $2)) begun=$SECONDS late=0
    until [ "$(count "$1")" -ge "$to" ]; do
        [ $SECONDS -lt $late ] || late=$((SECONDS + 1 + (begun + 20 + $3 * $(pace) - SECONDS) / 2))
        if [ $SECONDS -ge "$deadline" ] || [ $late -le $SECONDS ]; then
            say "  $what: no $2 more of $1 in $((SECONDS - begun)) s; going on with what there is" && return 1
        fi
        sleep 0.5
    done
}

worker() { # NAME
    "$bin/spot-run" worker -q --join "unix:$tmp/job" --join-timeout 120s --name "$1" 2>>"$out/$what.err" &
    id[$1]=$!
    pids+=($!)
}

coordinator() { # ARGUMENTS
    "$bin/spot-run" train --quiet --data "$tmp/text" --layers "$layers" --width "$width" --heads "$heads" --seq "$seq" \
        --global-batch "$batch" --listen "unix:$tmp/job" --state "$tmp/state" --lease 60s \
        --grace 30s --events "$log" "$@" 2>>"$out/$what.err" &
    job=$!
    pids+=("$job")
}

phase() { # NAME: what follows in the log belongs to it
    say "  $what: $1"
    jq -nc --arg p "$1" --argjson n "$(wc -l <"$log")" '{phase: $p, line: $n}' >>"$out/$what.phases"
}

place() { # K: who has the k-th place now
    grep '"formed"' "$log" | tail -n 1 | jq -r ".place[$1]"
}

runs() { # the coordinator, still
    local state
    state=$(sed 's/.*) //; s/ .*//' "/proc/$job/stat" 2>/dev/null) && [ -n "$state" ] && [ "$state" != Z ]
}

peak() { awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$job/status" 2>/dev/null || echo 0; }

gone() { # all of a run
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
    { wait; } 2>/dev/null || true
    pids=()
}

measure() { # events, one after the other; each is left out when the time is over
    local n victim
    until_more committed 4 1000 || return 0
    worker s0
    until_more committed $((layers + 6)) 100 || return 0 # the spare is handed what it mirrors
    phase calm
    until_more committed 13 40 || return 0
    for n in $(seq "$kills"); do
        victim=$(place $((n % 4)))
        phase kill
        kill -KILL "${id[$victim]}"
        until_more committed 6 40 || return 0
        worker "k$n"
        phase join
        until_more committed $((layers + 6)) 60 || return 0
    done
    for n in $(seq "$notices"); do
        victim=$(place $((n % 4)))
        phase notice
        kill -TERM "${id[$victim]}"
        until_more committed 12 60 || return 0
        worker "n$n"
        phase join
        until_more committed $((layers + 6)) 60 || return 0
    done
    for n in $(seq "$joins"); do
        phase plan
        echo "{\"schema\":\"spot.plan/1\",\"kind\":\"train\",\"job\":\"x\",\"time_s\":$n,\"next\":{\"D\":1,\"P\":4,\"M\":1,\"B\":1}}" |
            "$bin/spot-run" replan --join "unix:$tmp/job" - 2>>"$out/$what.err" || true
        until_more committed 12 60 || return 0
    done
    phase calm
    until_more committed 4 20 || return 0
}

# again NAME ARGUMENTS: the same job goes on; seconds from the start of the coordinator until formed, and from the last
# commit until the process is gone
again() {
    local steps formed from
    [ "$(count durable)" -gt 0 ] || { say "  $what: nothing was durable" && return 0; }
    phase resume
    deadline=$((SECONDS + 60))
    kill -TERM "$job" # its state is durable then, and nobody's memory is waited for
    while runs && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
    gone
    rm -f "$tmp/job"
    steps=$(jq -s 'map(select(.event == "committed").step) | max // 0' "$log")
    formed=$(count formed) from=$(now)
    deadline=$((SECONDS + 120))
    coordinator --steps $((steps + 2)) --grid 2x2 --resume --save "$tmp/model.safetensors"
    for n in w x y z; do worker $n; done
    until [ "$(count formed)" -gt "$formed" ]; do
        { [ $SECONDS -lt $deadline ] && runs; } || return 0
        sleep 0.02
    done
    echo "resume_s $(echo "$(now) - $from" | bc -l)" >>"$out/$what.numbers"
    until grep -q "\"committed\".*\"step\":$((steps + 2))," "$log"; do
        { [ $SECONDS -lt $deadline ] && runs; } || return 0
        sleep 0.02
    done
    from=$(now)
    while runs && [ $SECONDS -lt $deadline ]; do
        echo "end_peak_MB $(peak)" >>"$out/$what.endpeak"
        sleep 0.02
    done
    echo "end_s $(echo "$(now) - $from" | bc -l)" >>"$out/$what.numbers"
    sort -k 2n "$out/$what.endpeak" | tail -n 1 >>"$out/$what.numbers" || true
}

run() { # WHAT BIN
    what=$1 bin=$2 log=$out/$1.log
    [ -e "$out/$what.done" ] && return 0
    declare -gA id=()
    rm -rf "$tmp/state" "$tmp/job" "$log" "$out/$what".{err,phases,numbers,endpeak}
    : >"$log"
    deadline=$((SECONDS + minutes * 60))
    say "$what: $bin"
    coordinator --steps 1000000 --grid 2x2
    for n in a b c d; do worker $n; done
    phase start
    measure
    echo "peak_MB $(peak)" >>"$out/$what.numbers"
    cp "$log" "$out/$what.run"
    again
    gone
    : >"$out/$what.done"
}

# rows of one run: what, value, how many
tell() { # WHAT
    [ -e "$out/$1.run" ] || return 0
    jq -rs --slurpfile phase "$out/$1.phases" '
        def median: sort | if . == [] then null else .[length / 2 | floor] end;
        def ms: if . == null then "-" else "\(. * 1000 | round) ms" end;
        def s: if . == null then "-" else "\(. * 100 | round / 100) s" end;
        def mb: if . == null then "-" else "\(. / 1e6 | round) MB" end;
        . as $e | [range(length)] as $i
        | [$i[] | select($e[.].event == "committed")] as $c
        | [range(1; $c | length) | {at: $c[.], took: ($e[$c[.]].time_s - $e[$c[. - 1]].time_s)}] as $gap
        | def step($from): [$gap[] | select(.at < $from)] | .[-12:] | map(.took) | median;
          def lines($name): [$phase[] | select(.phase == $name).line];
          def pause($from): ([$gap[] | select(.at >= $from)] | .[:12] | map(.took) | max) as $m
            | if $m == null then null else $m - step($from) end;
          def formed($from): [$i[] | select(. >= $from and $e[.].event == "formed")][0];
          def waited($from): formed($from) as $f
            | if $f == null then null else $e[$f].time_s - ([$c[] | select(. < $f)] | $e[last].time_s) end;
          def longer($from): formed($from) as $f
            | if $f == null then null else [$gap[] | select(.at > $f).took][0] - step($from) end;
        [$i[] | select($e[.].event == "lost") as $l | {
            step: step($l), lost: $e[$l].time_s,
            formed: ([$e[$l:][] | select(.event == "formed").time_s][0]),
            commit: ([$e[$l:][] | select(.event == "committed").time_s][0]),
            byte: ([$e[$l:][] | select(.event == "migrate").moved_byte][0]) }
            | select(.commit != null and .step != null)] as $loss
        | [$e[] | select(.event == "durable") as $d | {
            lag: ($d.time_s - ([$e[] | select(.event == "committed" and .step == $d.step).time_s] | last // $d.time_s)),
            cost: ($d.cost_s // 0), byte: ($d.relayed_byte // 0), at: $d.time_s }] as $g
        | ([range(1; $g | length) | $g[.].at - $g[. - 1].at + 0] | max) as $between
        | ["step, median", ([$gap[].took] | median | ms), ($gap | length)],
          ["kill: recovery less a step", ([$loss[] | .commit - .lost - .step] | median | ms), ($loss | length)],
          ["kill: at most", ([$loss[] | .commit - .lost - .step] | max | ms), ($loss | length)],
          ["kill: until the new epoch", ([$loss[] | select(.formed != null) | .formed - .lost] | median | ms), ($loss | length)],
          ["kill: moved", ([$loss[].byte | values] | max | mb), ($loss | length)],
          ["calm: pause", (lines("calm")[0] | if . == null then null else pause(.) end | ms), 1],
          ["notice of 30 s: pause", ([lines("notice")[] | pause(.)] | map(values) | median | ms), (lines("notice") | length)],
          ["notice of 30 s: its step, longer by", ([lines("notice")[] | longer(.)] | map(values) | median | ms), (lines("notice") | length)],
          ["notice of 30 s: commit to new epoch", ([lines("notice")[] | waited(.)] | map(values) | median | ms), (lines("notice") | length)],
          ["join: pause", ([lines("join")[] | pause(.)] | map(values) | median | ms), (lines("join") | length)],
          ["join: its step, longer by", ([lines("join")[] | longer(.)] | map(values) | median | ms), (lines("join") | length)],
          ["join: commit to new epoch", ([lines("join")[] | waited(.)] | map(values) | median | ms), (lines("join") | length)],
          ["plan: pause", ([lines("plan")[] | pause(.)] | map(values) | median | ms), (lines("plan") | length)],
          ["plan: its step, longer by", ([lines("plan")[] | longer(.)] | map(values) | median | ms), (lines("plan") | length)],
          ["plan: commit to new epoch", ([lines("plan")[] | waited(.)] | map(values) | median | ms), (lines("plan") | length)],
          ["durable: lag, median", ([$g[].lag] | median | s), ($g | length)],
          ["durable: lag, at most", ([$g[].lag] | max | s), ($g | length)],
          ["durable: between two, at most", ($between | s), ($g | length)],
          ["durable: share of the time", (([$g[].cost] | add // 0) / (($e | last).time_s) * 1000 | round / 10 | "\(.) %"), ($g | length)],
          ["durable: by the coordinator", ([$g[].byte] | max | mb), ($g | length)]
        | @tsv' "$out/$1.run"
    sed -n 's/^resume_s \(.*\)/resume until formed\t\1/p; s/^end_s \(.*\)/end of the job\t\1/p; s/^peak_MB \(.*\)/coordinator, at most\t\1 MB/p
        s/^end_peak_MB \(.*\)/coordinator, at most, to the end\t\1 MB/p' "$out/$1.numbers" 2>/dev/null |
        awk -F'\t' '{ if ($2 ~ /^[0-9.]+$/) $2 = sprintf("%.2f s", $2); print $1 "\t" $2 "\t1" }'
}

table() { # of what there is
    echo
    for what in before after; do
        [ ! -e "$out/$what.run" ] || { echo "$what: value, of how many" && tell "$what" | column -t -s "$(printf '\t')" && echo; }
    done
}

[ -z "${1-}" ] || { run before "$1" && table; }
run after "${BIN:-$here/build/release/bin}"
table
