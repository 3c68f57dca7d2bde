#!/bin/bash
# SPDX-License-Identifier: MIT
# The fault matrix of serving: in each phase of a request each fault, with real processes and clients.
# Worker w1 is behind tests/tool/proxy.c, which stops its world at the frame that makes the phase; then
# the fault strikes. A cell passes if every stream has the texts, log probabilities and ends of the
# undisturbed, unbatched run, each token once. Time: from the fault to the next committed token.
#   tests/faults-serve.sh [few | PHASE FAULT ...]     few: one fault per phase, and each fault once
# shellcheck disable=SC2086,SC1091,SC2016,SC2046,SC2206,SC2034,SC2154  # words; eventually evaluates
set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/cli/job.bash
. "$here/cli/job.bash"
# shellcheck source=tests/cli/matrix.bash
. "$here/cli/matrix.bash"
tests=$(readlink -f "$(dirname "$(command -v spot-run)")/../tests")
phases="queued prefill first decode move last"
faults="kill notice stop two every coordinator vanish slow disk cache"
top=$(mktemp -d)
trap 'job_teardown 2>/dev/null; cd /; rm -rf "$top"' EXIT

# serve/serve_protocol.h: the message to or from w1 that makes a phase, and which of them
declare -A frame=([queued]="51 1" [prefill]="51 2" [first]="12 1" [decode]="12 9" [move]="53 1" [last]="12 24")
mixed="n=6 clients=6 in=150 out=220"
plain="n=3 clients=1 in=150 out=24 plain=1" # so many tokens each, in as many messages

coordinate() { # [OPTION...]
    SPOT_DISK_FULL=$PWD/full LD_PRELOAD="$tests/disk.so" spot-run serve -q --model "$top/model" --http unix:s --listen unix:j \
        --state st --lease 1s --linger 3s $room "$@" 2>>log.err &
    server=$!
    echo $server >>pids
}
start() { # NAME ADDRESS; a token takes milliseconds, on any machine, so that a phase can be met
    LD_PRELOAD="$tests/pace.so" SPOT_PACE_SEND_MS=2 spot-run worker -q --join "$2" --join-timeout 60s --name "$1" 2>>workers.err &
    w[$1]=$!
    echo $! >>pids
}
metric() { # NAME
    curl -s --max-time 20 --unix-socket s http://x/metrics | awk -v m="$1" '$1 == m { printf "%d\n", $2 }'
}
ask() {
    "$tests/load" unix:s $load answers=got >told 2>load.err &
    client=$!
    echo $client >>pids
}

# until the trap has sprung: bring about what the phase is a part of
provoke() { # PHASE
    network trap ${frame[$1]}
    eventually '[ -s said ]'
    ask
    if [ $1 = move ]; then
        eventually '[ "$(metric spot_serve_tokens_total)" -ge 20 ]'
        strike TERM w1
    fi
    eventually 'grep -q trapped said' || return 1
    if [ $1 = prefill ]; then network release; fi # it computes the prompt
}

inflict() { # FAULT
    local name status
    case $1 in
    kill | cache) strike KILL w1 ;;
    notice) strike TERM w1 ;;
    stop) strike STOP w1 ;;
    two) strike KILL w1 && strike KILL w2 ;;
    every) for name in w1 w2 w3; do strike KILL $name; done ;;
    coordinator) kill -KILL $server ;;
    vanish) kill -KILL $client ;;
    slow) kill -STOP $client ;;
    disk) : >full ;;
    esac
    struck=${EPOCHREALTIME/./} before=$(metric spot_serve_tokens_total)
    network release
    case $1 in
    coordinator)
        wait $server
        coordinate --resume
        before=0
        ;;
    two) start n1 unix:j ;;
    every) nobody ;;
    vanish) alone ;;
    slow) sleep 1 && kill -CONT $client ;;
    disk)
        wait $server
        status=$?
        [ $status = 4 ] || { echo "a full disk gave $status" && missed=yes; }
        rm full
        coordinate --resume
        before=0
        ;;
    esac
}

# Nobody is there: who comes waits, then hears 503 and when to come again. Then others join.
nobody() {
    local body='{"model":"model","prompt":"a","max_tokens":1}'
    eventually 'curl -s -i --max-time 1 --unix-socket s -d '"'$body'"' http://x/v1/completions >refused;
        grep -q "^HTTP/1.1 503" refused && grep -qi "^Retry-After: [1-9]" refused' || missed=yes
    start n1 unix:j
    start n2 unix:j
}

# Nobody waits for what is computed: it ends after --linger. Others get what they would have got.
alone() {
    eventually '[ "$(metric spot_serve_choices_running)" = 0 ] && [ "$(metric spot_serve_choices_queued)" = 0 ]' || missed=yes
    ask
}

cell() { # PHASE FAULT
    local dir="$top/$1-$2" ok=no missed=no ms='-' detail name struck before server client load=$mixed want=mixed room="--max-batch 2"
    [ $1 != last ] || { load=$plain want=plain; }
    [ $2 != cache ] || room="--max-batch 4 --kv-byte 200KiB" # 192 KiB are a whole context
    w=()
    mkdir "$dir" && cd "$dir" && : >pids && mkdir st && mkfifo commands
    "$tests/proxy" unix:p unix:j unix:q commands >said 2>proxy.err &
    echo $! >>pids
    eventually '[ -S q ]'
    coordinate
    start w1 unix:p
    eventually '[ "$(metric spot_serve_replicas)" = 1 ]'
    for name in w2 w3; do start $name unix:j; done
    eventually '[ "$(metric spot_serve_replicas)" = 3 ]'
    if provoke $1; then
        inflict $2
        eventually '[ "$(metric spot_serve_tokens_total)" -gt '$before' ] || ! kill -0 '$client &&
            ms=$(((${EPOCHREALTIME/./} - struck) / 1000))
        wait $client && [ $missed = no ] && sort got | cmp - "$top/$want" && ok=yes
    fi 2>>trouble
    detail=$(awk '{ for (i = 1; i <= NF; i++) { split($i, a, "="); v[a[1]] = a[2] } }
        END { printf "%d tokens, %d connections broken", v["tokens"], v["broken"] }' told)
    row "$1" "$2" "$([ $ok = yes ] && echo 'same tokens' || echo FAILED)" "$ms" "$detail"
    [ $ok = yes ] || tail -n 3 trouble said load.err log.err workers.err
    BATS_TEST_COMPLETED=${ok#no} job_teardown # of what failed it tells
    wait $(cat pids)
    cd "$top" && rm -rf "$dir"
} 2>/dev/null # the shell's own words on who was killed

# undisturbed, one by one, on one worker
calm() {
    local server kind
    mkdir calm && cd calm || exit 1
    spot-run serve -q --model ../model --http unix:s --max-batch 1 2>log.err &
    server=$!
    for kind in mixed plain; do
        eventually 'curl -s -f --unix-socket s http://x/health >/dev/null'
        "$tests/load" unix:s ${!kind} clients=1 answers=got >/dev/null && sort got >"../$kind"
    done
    kill $server
    wait $server
    cd ..
}

cd "$top" || exit 1
seq -f "the %.0f. line of a text that a small model learns" 400 >text
# pages so small that to move them is faster than to compute them again, on any machine
spot-run train -q --data text --arch llama --layers 2 --width 128 --heads 4 --kv-heads 1 --seq 384 --global-batch 2 --steps 10 --save model >train.log || exit 1
calm
if ! [ -s mixed ] || ! [ -s plain ]; then
    echo "no undisturbed run"
    exit 1
fi
if [ "${1-}" = few ]; then
    set -- queued every prefill kill first two decode stop move kill last notice decode coordinator decode disk \
        decode vanish first cache prefill slow
fi
each_cell "$@"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
