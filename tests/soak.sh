#!/bin/bash
# SPDX-License-Identifier: MIT
# Preempt one job thousands of times and prove that it is the job of a quiet machine: notices,
# kills, joins, whole zones at once, coordinator kills in the first half. In the second half the
# coordinator and one worker live on: what they hold must not grow. One line at the end; exit 0 if
# all held.
#   tests/soak.sh [PREEMPTIONS] [SEED]
# shellcheck disable=SC2086,SC2012  # a word may be none; names here are ours
set -eu
n=${1:-2000}
RANDOM=${2:-1}
tmp=$(mktemp -d)
job='' hits=0 zones_lost=0 coordinators=0 run=1
declare -A pid zone
cleanup() {
    kill -KILL $job "${pid[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cat /usr/share/common-licenses/* LICENSE >"$tmp/text" 2>/dev/null || cp LICENSE "$tmp/text"

model=(--quiet --data "$tmp/text" --layers 3 --width 32 --heads 4 --seq 16 --shards 4
    --global-batch 12 --lr 1e-3 --seed 9)
mkdir "$tmp/state"
coordinator() { # no function around it: $! must be the program itself
    spot-run train "${model[@]}" --steps 1000000000 --events "$tmp/events" --listen "unix:$tmp/job" \
        --state "$tmp/state" --grid 2x2 --resume &
    job=$!
}
start() { # SLOT
    zone[$1]=$(($1 % 3))
    spot-run worker --quiet --join "unix:$tmp/job" --name "w$1" --domain "zone${zone[$1]}" \
        --join-timeout 60s 2>>"$tmp/workers" &
    pid[$1]=$!
    disown $! # no word when it is killed
}
alive() {
    [ -n "${pid[$1]-}" ] && kill -0 "${pid[$1]}" 2>/dev/null
}
strike() { # SIGNAL SLOT; a child that is not yet a worker would run this shell's own traps
    alive "$2" && [ "$(cat "/proc/${pid[$2]}/comm" 2>/dev/null)" = spot-run ] || return 0
    kill "-$1" "${pid[$2]}" 2>/dev/null || return 0
    hits=$((hits + 1))
}
fill() {
    for s in 0 1 2 3 4 5; do
        alive $s || start $s
    done
}
rss() { # PID: kB
    awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}
fewest() { # COMMAND: the least of some counts, for what a generation on its way adds
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        "$@" | wc -l
        sleep 0.1
    done | sort -g | head -n 1
}
held() { # by coordinator and survivor, with all others there
    fill
    sleep 3
    fd=$(fewest ls /proc/$job/fd) file=$(fewest find "$tmp" -maxdepth 2 ! -type s)
    socket=$(find "$tmp" -type s ! -newermt '-90 seconds' | wc -l) # dead workers' go after a while
    coordinator_kb=$(rss $job) survivor_kb=$(rss "${pid[6]}")
    echo "at preemption $hits: $fd descriptors, $file files, $socket old sockets," \
        "coordinator $coordinator_kb kB, survivor $survivor_kb kB"
}

coordinator
fill
half='' begun=''
while [ $hits -lt "$n" ]; do
    if [ -z "$half" ] && [ $hits -ge $((n / 2)) ]; then
        half=$hits
        start 6
    fi
    if [ -z "$begun" ] && [ $hits -ge $((n * 5 / 8)) ]; then # all that they will need has been needed
        begun=$hits
        held
        fd0=$fd file0=$file coordinator0_kb=$coordinator_kb survivor0_kb=$survivor_kb
    fi
    case $((RANDOM % 20)) in
    0) # a whole zone, unannounced
        z=$((RANDOM % 3))
        for s in 0 1 2 3 4 5; do [ "${zone[$s]}" = $z ] && strike KILL $s; done
        zones_lost=$((zones_lost + 1))
        ;;
    1) if [ -z "$half" ] && [ $((RANDOM % 4)) = 0 ]; then # the coordinator; workers wait and keep their memory
        while [ "$(cat /proc/$job/comm 2>/dev/null)" = soak.sh ]; do sleep 0.01; done
        kill -KILL $job
        wait "$job" 2>/dev/null || true
        hits=$((hits + 1)) coordinators=$((coordinators + 1))
        sleep 0.0$((RANDOM % 10))
        coordinator
    fi ;;
    [2-9] | 10) strike TERM $((RANDOM % 6)) ;;
    *) strike KILL $((RANDOM % 6)) ;;
    esac
    sleep 0.$((RANDOM % 2))$((RANDOM % 10))
    fill
    kill -0 $job 2>/dev/null || { wait $job || echo "the coordinator died: status $?"; exit 1; }
done
echo "the storm is over after $SECONDS s" >&2
held
[ "$fd" -le "$fd0" ] && [ "$file" -le "$file0" ] && [ "$socket" -le 8 ] && [ "$coordinator_kb" -le $((coordinator0_kb + 1024)) ] &&
    [ "$survivor_kb" -le $((survivor0_kb + 4096)) ] || run=0
before=$(grep -c '"committed"' "$tmp/events")
sleep 3
after=$(grep -c '"committed"' "$tmp/events")
kill -TERM $job
wait $job || true
job=''
sleep 1 # the others see that it is gone, and stop listening
kill -KILL "${pid[@]}" 2>/dev/null || true
wait 2>/dev/null || true
# the same number of steps, undisturbed, and the storm's state beside it
step=$(grep '"durable"' "$tmp/events" | tail -n 1 | jq .step)
spot-run train "${model[@]}" --steps "$step" --events "$tmp/events" --state "$tmp/state" --resume
spot-run train "${model[@]}" --steps "$step" --events "$tmp/calm"
spot-run report --reference "$tmp/calm" --format table "$tmp/events" || run=0
left=$(find "$tmp" -name 'job*' | wc -l)
echo "sockets left behind: $left"
[ "$left" = 0 ] || run=0
echo "$hits preemptions, $zones_lost zones lost, $coordinators coordinator kills; $((after - before)) steps in the last 3 s;" \
    "$([ $run = 1 ] && echo all held || echo FAILED)"
[ $run = 1 ] && [ "$after" -gt "$before" ]
