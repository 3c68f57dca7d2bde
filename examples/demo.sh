#!/bin/sh
# SPDX-License-Identifier: MIT
# The main job, from a trace to a training run that survives it.
#
#   examples/demo.sh [TEXT [FOLDER]]      SPOT_DEMO_STEPS=300 SPOT_DEMO_SPEEDUP=120
#
# A trace is drawn, forecast and planned for; a real training job runs on real processes that are
# preempted as the trace says, some without notice; the same pipe replans it as it goes. Then the
# same job runs undisturbed, and a report compares the two, bit by bit.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
PATH=$here/build/release/bin:$PATH
steps=${SPOT_DEMO_STEPS:-300} speedup=${SPOT_DEMO_SPEEDUP:-120}
out=${2:-build/demo}
mkdir -p "$out"
tmp=$(mktemp -d) # a socket's path must be short
job='' cloud='' text=${1:-}

finish() {
    status=$?
    trap - EXIT
    for pid in $cloud $job; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$tmp"
    exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() {
    printf '\n== %s\n' "$*" >&2
}

if [ -z "$text" ]; then # what every Debian machine has
    text=$out/text
    cat /usr/share/common-licenses/* >"$text" 2>/dev/null || true
    [ -s "$text" ] || cat LICENSE README.md docs/*.md >"$text"
fi
train() { # EVENTS [OPTION...]
    events=$1
    shift
    spot-run train --data "$text" --layers 4 --width 128 --heads 4 --seq 64 --shards 4 \
        --micro-batch 1 --global-batch 16 --steps "$steps" --lr 1e-3 --seed 5 --events "$events" "$@"
}
plan() { # a trace on stdin, a plan on stdout
    spot-predict --interval 60s --horizon 6 --cap 8 |
        spot-plan train --job examples/jobs/demo.json --forecast - "$@"
}

say 'a trace of eight machines, drawn under a seed'
spot-replay generate --profile stormy --cap 8 --hours 4 --seed 12 -o "$out/trace.csv"
spot-replay describe --format table "$out/trace.csv" >&2

say 'forecast and plan from its first half hour'
awk -F, 'NR == 1 || $1 <= 1800' "$out/trace.csv" | plan -o "$out/plan.json"
jq -r '"grid \(.next.D)x\(.next.P)", .why[]' "$out/plan.json" >&2

say "a live run: $steps steps on machines that come and go (trace time x $speedup)"
rm -rf "$out/state" "$out/live.jsonl" "$out/calm.jsonl" # of another demonstration
train "$out/live.jsonl" --listen "unix:$tmp/job" --state "$out/state" --plan "$out/plan.json" &
job=$!
spot-replay live --trace "$out/trace.csv" --from 30m --speedup "$speedup" --grace 2s --no-notice 0.4 \
    --max 8 --seed 7 --quiet --events "$out/cloud.jsonl" -- \
    spot-run worker --quiet --join "unix:$tmp/job" --name '{node}' &
cloud=$!
taken=0 refused=0
: >"$out/replan.log"
while sleep 3 && kill -0 $job 2>/dev/null; do
    # What cron would do: see what was there, forecast, plan, tell the job.
    kill -0 $cloud 2>/dev/null || {
        spot-run worker --quiet --join "unix:$tmp/job" --name last || true # the trace is over
        break
    }
    # And say what runs, so that a change from it is charged.
    status=$(spot-run status --join "unix:$tmp/job" --format json 2>/dev/null) || continue
    current=$(printf '%s' "$status" | jq -r 'if .suspended then "0x0" else "\(.D)x\(.P)" end')
    printf '%s' "$status" | jq -r '"step \(.step) of \(.steps), \(.members | length) machine\(if (.members | length) == 1 then "" else "s" end), grid \(.D)x\(.P)"' >&2
    # The log is in seconds of this run, in each of which $speedup of the trace pass.
    if spot-replay import --from spot-event --quiet "$out/live.jsonl" |
        awk -F, -v OFS=, -v s="$speedup" 'NR > 1 { $1 *= s } 1' |
        plan --quiet --current "$current" | spot-run replan --join "unix:$tmp/job" -; then
        taken=$((taken + 1))
    else
        refused=$((refused + 1))
    fi 2>>"$out/replan.log"
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
    --spot-price 0.918 --on-demand-price 3.06 --format table "$out/live.jsonl"
echo "picture: $out/demo.svg" >&2
