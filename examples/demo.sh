#!/bin/sh
# SPDX-License-Identifier: MIT
# The main job, from a trace to a training run that survives it.
#
#   examples/demo.sh [TEXT [FOLDER]]      SPOT_DEMO_PREEMPTIONS=15 SPOT_DEMO_SPEEDUP=120
#   examples/demo.sh --lived EVENTS       the counters of a log; status 1 until it has lived through enough
#
# A trace is drawn, forecast and planned for; a real training job runs on real processes that are
# preempted as the trace says, some without notice; the same pipe replans it as it goes. After 15
# preemptions its coordinator is killed, too, and the job goes on for 40 steps. Then the same job
# runs undisturbed, and a report compares the two, bit by bit.
set -eu
job='' cloud='' text=${1:-}
children() { echo "$cloud $job"; }
# shellcheck source=examples/demo-parts.sh
. "$(dirname "$0")/demo-parts.sh"
enough=${SPOT_DEMO_PREEMPTIONS:-15} speedup=${SPOT_DEMO_SPEEDUP:-120}

# What a job has lived through; status 0 for enough preemptions, and a pause after each kind of change.
lived() { # EVENTS
    counts=$(spot-run report --quiet --format json "$1") || return
    printf '%s' "$counts" | jq -r '"\(.notices) preempted with notice, \(.kills) without, \(.joins) joined"'
    printf '%s' "$counts" | jq -e --argjson enough "$enough" '.notices + .kills >= $enough and
        ([.pause_notice_count, .pause_kill_count, .pause_join_count] | all(. > 0))' >/dev/null
}
if [ "${1-}" = --lived ]; then
    lived "$2"
    exit
fi
take_folder build/demo "${2-}"
[ "$text" ] || write_text "${text:=$out/text}"
train() { # EVENTS [OPTION...]
    events=$1
    shift
    ${run:-} spot-run train --data "$text" --layers 4 --width 128 --heads 4 --seq 64 --shards 4 \
        --micro-batch 1 --global-batch 16 --steps "$steps" --lr 1e-3 --seed 5 --events "$events" "$@"
}
plan() { # a trace on stdin, a plan on stdout
    spot-predict --interval 60s --horizon 6 --cap 8 |
        spot-plan train --job examples/jobs/demo.json --forecast - "$@"
}

say 'a trace of eight machines, drawn under a seed'
spot-replay generate --profile stormy --law loss_per_h=30,loss_mean=1.5,loss_all=0,gain_per_h=60,shock_per_h=0 \
    --cap 8 --hours 4 --seed 44 -o "$out/trace.csv"
spot-replay describe --format table "$out/trace.csv" >&2

say 'forecast and plan from its first half hour'
awk -F, 'NR == 1 || $1 <= 1800' "$out/trace.csv" | plan -o "$out/plan.json"
jq -r '"grid \(.next.D)x\(.next.P)", .why[]' "$out/plan.json" >&2

say "a live run on machines that come and go (trace time x $speedup), until $enough were taken away"
rm -rf "$out/state" "$out/live.jsonl" "$out/calm.jsonl" # of another demonstration
coordinate() { # [OPTION...]: in the background, as $job; it says at which $port its page is, and keeps to that
    mkfifo "$tmp/said.$#"
    tee "$tmp/said" <"$tmp/said.$#" >&2 &
    run="exec" train "$out/live.jsonl" --listen "unix:$tmp/job" --state "$out/state" --plan "$out/plan.json" \
        --metrics "127.0.0.1:$port" "$@" 2>"$tmp/said.$#" &
    job=$!
}
steps=1000000 port=0 # until it is known how many were enough
coordinate
for _ in 1 2 3 4 5 6 7 8 9 10; do
    port=$(sed -n 's|.* http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$tmp/said" 2>/dev/null) && [ "$port" ] && break
    sleep 0.5
done
port=${port:-0}
say "watch it: http://127.0.0.1:$port/"
spot-replay live --trace "$out/trace.csv" --from 30m --speedup "$speedup" --grace 2s --no-notice 0.4 \
    --max 8 --seed 7 --quiet --events "$out/cloud.jsonl" -- \
    spot-run worker --quiet --join "unix:$tmp/job" --name '{node}' &
cloud=$!

# What cron would do: see what was there, forecast, plan, tell the job.
replan() { # STATUS
    # And say what runs, so that a change from it is charged.
    current=$(printf '%s' "$1" | jq -r 'if .suspended then "0x0" else "\(.D)x\(.P)" end')
    # The log is in seconds of this run, in each of which $speedup of the trace pass.
    spot-replay import --from spot-event --quiet "$out/live.jsonl" |
        awk -F, -v OFS=, -v s="$speedup" 'NR > 1 { $1 *= s } 1' |
        plan --quiet --current "$current" -o "$out/next.json" &&
        spot-run replan --join "unix:$tmp/job" "$out/next.json"
}
# The coordinator dies, the workers wait, and the next coordinator goes on where it was.
kill_coordinator() {
    say 'that is enough; now the coordinator is killed, too, and a new one goes on for 40 steps'
    kill -9 $job
    wait $job 2>/dev/null || true # without a word on how it ended
    cp "$out/next.json" "$out/plan.json"
    steps=$(($(spot-run report --quiet --format json "$out/live.jsonl" | jq .steps) + 40))
    coordinate --resume
}
taken=0 refused=0 died=''
: >"$out/replan.log"
while sleep 3 && kill -0 $job 2>/dev/null; do
    status=$(spot-run status --join "unix:$tmp/job" --format json 2>/dev/null) || continue
    counts=$(lived "$out/live.jsonl") && done=yes || done=''
    printf '%s' "$status" | jq -r --arg counts "$counts" \
        '"step \(.step), grid \(.D)x\(.P) of \(.members | length); \($counts)"' >&2
    if replan "$status" 2>>"$out/replan.log"; then
        taken=$((taken + 1))
    else
        refused=$((refused + 1))
    fi
    kill -0 $cloud 2>/dev/null || done=over
    if [ "$done" ] && [ ! "$died" ]; then
        died=yes
        kill_coordinator
    fi
    if [ "$done" = over ]; then # a last machine finishes
        spot-run worker --quiet --join "unix:$tmp/job" --name last || true
        break
    fi
done
wait $job
job=''
kill $cloud 2>/dev/null || true
wait $cloud || true
cloud=''

say 'the same job, undisturbed'
train "$out/calm.jsonl" --workers 2 --grid 2x1

say "what happened: $taken plans were taken while it ran, $refused refused"
[ "$taken" -gt 0 ] || {
    cat "$out/replan.log" >&2
    exit 1
}
spot-run report --reference "$out/calm.jsonl" --plot "$out/demo.svg" --speedup "$speedup" \
    --usd-per-h 0.918:3.06 --format table "$out/live.jsonl"
echo "picture: $out/demo.svg" >&2
