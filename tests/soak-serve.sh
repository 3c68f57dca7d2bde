#!/bin/bash
# SPDX-License-Identifier: MIT
# Preempt one server thousands of times and prove that each stream has the tokens of the undisturbed,
# unbatched run: notices, kills, workers that stand still, joins, and in the first half coordinators
# that are killed and resumed from --state, whose clients come back with Last-Event-ID. In the second
# half the coordinator and one worker live on: what they hold must not grow. Every answer is compared,
# texts, log probabilities and finish reasons. One line at the end; exit 0 if all held.
#   tests/soak-serve.sh [PREEMPTIONS] [SEED]
set -eu
n=${1:-2000}
RANDOM=${2:-1}
tmp=$(mktemp -d)
server='' client='' hits=0 coordinators=0 run=1
declare -A pid stopped
cleanup() {
    # shellcheck disable=SC2086  # a word may be none
    kill -KILL $server $client "${pid[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"
seq -f "the %.0f. line of a text that a small model learns" 400 >text
spot-run train -q --data text --layers 4 --width 128 --heads 4 --seq 384 --steps 20 --save model >/dev/null
ask=(n=60 out=300 in=48)

serve() { # no function around it in the storm: $! must be the program itself
    spot-run serve -q --model model --http unix:s --listen unix:j --state st --events events --lease 1s --linger 3s "$@" &
    server=$!
}
ready() {
    until load unix:s n=1 out=1 in=1 plain=1 clients=1 >/dev/null 2>&1; do sleep 0.1; done
}
mkdir st
serve --workers 1 --max-batch 1
ready
load unix:s "${ask[@]}" clients=1 answers=calm
sort calm >want
kill -KILL $server
wait $server 2>/dev/null || true
sleep 1 # its worker sees that it is gone
rm -rf st events j s

start() { # SLOT
    spot-run worker -q --join unix:j --name "w$1" --join-timeout 60s 2>>workers &
    pid[$1]=$!
    stopped[$1]=
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
    for s in 0 1 2; do
        alive $s || start $s
        [ -z "${stopped[$s]}" ] || [ "$hits" -lt "${stopped[$s]}" ] || { kill -CONT "${pid[$s]}" 2>/dev/null || true; stopped[$s]=; }
    done
}
# 12 clients, again and again
clients() {
    local round=0
    while [ ! -e over ]; do
        load unix:s "${ask[@]}" clients=12 answers=got >>rounds 2>>rounds.err || echo "round $round: not whole" >>bad
        sort got | cmp -s - want || { echo "round $round: another answer" >>bad; sort got | diff - want | head -n 4 | cut -c1-300 >>bad; }
        echo $((round += 1)) >n_round
    done
}
rss() { # PID: kB
    awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}
held() { # by coordinator and survivor, with all others there
    fill
    sleep 2
    fd=$(find "/proc/$server/fd" -type l | wc -l) file=$(find . -maxdepth 2 ! -type s | wc -l)
    journal=$(stat -c %s st/tokens.log) server_kb=$(rss $server) survivor_kb=$(rss "${pid[6]}")
    echo "at preemption $hits, ${SECONDS} s: $fd descriptors, $file files, journal $journal bytes," \
        "coordinator $server_kb kB, survivor $survivor_kb kB, $(cat n_round 2>/dev/null || echo 0) rounds"
}

mkdir st
serve
fill
ready
clients &
client=$!
half='' begun=''
while [ $hits -lt "$n" ]; do
    if [ -z "$half" ] && [ $hits -ge $((n / 2)) ]; then
        half=$hits
        start 6
    fi
    if [ -z "$begun" ] && [ $hits -ge $((n * 5 / 8)) ]; then # all that they will need has been needed
        begun=$hits
        held
        fd0=$fd file0=$file server0_kb=$server_kb survivor0_kb=$survivor_kb
    fi
    case $((RANDOM % 20)) in
    0) if [ -z "$half" ]; then # workers wait and keep their memory
        while [ "$(cat "/proc/$server/comm" 2>/dev/null)" = soak-serve.sh ]; do sleep 0.01; done
        kill -KILL $server
        wait $server 2>/dev/null || true
        hits=$((hits + 1)) coordinators=$((coordinators + 1))
        sleep 0.0$((RANDOM % 10))
        serve --resume
    fi ;;
    1 | 2) # stands still until a few later
        s=$((RANDOM % 3))
        [ -n "${stopped[$s]}" ] || { strike STOP $s; stopped[$s]=$((hits + 2)); } ;;
    [3-9] | 10) strike TERM $((RANDOM % 3)) ;;
    *) strike KILL $((RANDOM % 3)) ;;
    esac
    sleep 0.$((RANDOM % 5))$((RANDOM % 10))
    fill
    kill -0 $server 2>/dev/null || { wait $server || echo "the coordinator died: status $?"; exit 1; }
done
held
# a journal is written anew at twice its needs and a megabyte
[ "$fd" -le $((fd0 + 13)) ] && [ "$file" -le $((file0 + 4)) ] && [ "$server_kb" -le $((server0_kb + 4096)) ] &&
    [ "$survivor_kb" -le $((survivor0_kb + 4096)) ] && [ "$journal" -le $((16 << 20)) ] || run=0
touch over
wait $client || true
client=''
kill -TERM $server
wait $server || true
server=''
[ ! -e bad ] || { cat bad rounds.err; run=0; }
rounds=$(cat n_round)
awk '{ for (i = 1; i <= NF; i++) { split($i, a, "="); sum[a[1]] += a[2] } }
    END { printf "%d streams, %d tokens, %d broken connections, ", sum["requests"], sum["tokens"], sum["broken"] }' rounds
echo "$hits preemptions, $coordinators coordinator kills, $rounds rounds of ${ask[0]#n=} requests in $SECONDS s:" \
    "$([ $run = 1 ] && echo no token lost, repeated or different || echo FAILED)"
[ $run = 1 ] && [ "$rounds" -gt 0 ]
