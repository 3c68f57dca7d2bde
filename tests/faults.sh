#!/bin/bash
# SPDX-License-Identifier: MIT
# The fault matrix: in each phase of a job's life each fault, with real processes, and what came of it.
# One worker is behind tests/tool/proxy.c, which stops the world at the frame that makes the phase; then
# the fault strikes. Some steps after the next commit the job is stopped, and resumed to its last step. A
# cell passes if it ends with the losses and weights of the undisturbed one, bit for bit, and no sample
# lost or repeated. Time: from the fault to the next commit.
#   tests/faults.sh [few | PHASE FAULT ...]     few: one fault per phase
# GRID: another grid of four than 2x2, say 1x2x2; phase tensor: in the midst of a tensor group's exchange
# shellcheck disable=SC2086,SC1091,SC2016,SC2046,SC2206,SC2034,SC2154  # the model is words; eventually evaluates
set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/cli/job.bash
. "$here/cli/job.bash"
# shellcheck source=tests/cli/matrix.bash
. "$here/cli/matrix.bash"
proxy=$(dirname "$(command -v spot-run)")/../tests/proxy
phases="join form migrate forward backward reduce vote commit quiesce recover"
top=$(mktemp -d)
trap 'job_teardown 2>/dev/null; cd /; rm -rf "$top"' EXIT

# the message that makes a phase, cluster/protocol.h, train/train_protocol.h
declare -A type=([join]=1 [form]=35 [migrate]=70 [forward]=65 [backward]=66 [reduce]=67 [vote]=6
    [commit]=38 [quiesce]=34 [recover]=35 [tensor]=76)
grid=${GRID:-2x2}

coordinate() { # STEPS
    ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE"} spot-run train -q --data corpus $MODEL --global-batch 5 --listen unix:j --events log --grid $grid \
        --steps $1 --state st --durable-every 0.05s --lease 2s --resume 2>>log.err &
    train=$!
    echo $train >>pids
}
start() { # NAME ADDRESS
    spot-run worker -q --join "$2" --join-timeout 60s --name "$1" 2>>workers.err &
    w[$1]=$!
    echo $! >>pids
}

# until the trap has sprung: bring about what the phase is a part of
provoke() { # PHASE
    local t=${type[$1]}
    case $1 in
    join)
        network trap $t 1
        start w1 unix:p
        ;;
    migrate) # another grid: state moves
        network trap $t 1
        eventually "grep -qx 'trap $t 1' said"
        echo '{"schema":"spot.plan/1","kind":"train","job":"x","time_s":1,"next":{"D":4,"P":1,"M":1,"B":1}}' |
            spot-run replan --join unix:j -
        ;;
    form | quiesce | recover)
        network trap $t 1
        eventually "grep -qx 'trap $t 1' said"
        strike "$([ $1 = recover ] && echo KILL || echo TERM)" "$(other)"
        ;;
    *) network trap $t 9 ;;
    esac
    eventually 'grep -q trapped said' || return 1
}

# members of the stage that w1 has, or of the first one if it has none
replicas() {
    grep '"formed"' log | tail -n 1 | jq -r '. as $e |
        ((.place | index("w1") // 0) / $e.M | floor % $e.P) as $p |
        range($e.D) as $d | range($e.M) as $m | $e.place[($d * $e.P + $p) * $e.M + $m]'
}

# the grid that is wanted runs; asked again and again, which jq is too slow for
is_formed() {
    local axis=(${grid//x/ } 1)
    grep '"formed"' log | tail -n 1 | grep -q "\"D\":${axis[0]},\"P\":${axis[1]},\"M\":${axis[2]}[,}]"
}

# somebody alive with a place who is not w1
other() {
    local name
    for name in $(grep '"formed"' log | tail -n 1 | sed 's/.*"place":\[\([^]]*\)\].*/\1/; s/[",]/ /g'); do
        [ "$name" != w1 ] && kill -0 "${w[$name]}" 2>/dev/null && echo "$name" && return
    done
}

inflict() { # FAULT
    local name
    case $1 in
    notice) strike TERM w1 ;;
    kill) strike KILL w1 ;;
    stall) strike STOP w1 ;;
    cut) network cut all ;;
    duplicate) network again && network zombie ;;
    coordinator) kill -KILL $train ;;
    two) strike KILL w1 && strike KILL "$(other)" ;;
    replicas) for name in $(replicas); do strike KILL "$name"; done ;;
    everything) kill -KILL $train "${w[@]}" ;;
    esac
    struck=${EPOCHREALTIME/./}
    before=$(events log committed)
    network release
    case $1 in
    coordinator | everything)
        wait $train
        coordinate 100000
        ;;
    esac 2>/dev/null
    case $1 in
    coordinator | duplicate | cut) ;;
    *) for name in n1 n2 n3 n4; do start $name unix:j; done ;;
    esac
}

# stop the job, let it go on to a step that others end at too, and compare
finish() {
    local steps
    kill -TERM $train
    wait $train
    [ $? = 75 ] || return 1
    steps=$(grep '"committed"' log | tail -n 1 | sed 's/.*"step":\([0-9]*\),.*/\1/')
    steps=$(((steps / 100 + 1) * 100))
    coordinate $steps
    wait $train && calm $steps && outcome log >got && cmp -s got "$top/want.$steps"
}

# the undisturbed job of so many steps
calm() {
    [ -e "$top/want.$1" ] && return
    rm -f "$top/calm"
    timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps $1 --events "$top/calm"
    outcome "$top/calm" >"$top/want.$1"
}

cell() { # PHASE FAULT
    local dir="$top/$1-$2" ok=no missed=no ms='-' detail
    w=()
    local struck before train
    mkdir "$dir" && cd "$dir" && cp "$top/corpus" . && : >pids && mkdir st && mkfifo commands
    "$proxy" unix:p unix:j unix:q commands >said 2>proxy.err &
    echo $! >>pids
    eventually '[ -S q ]'
    coordinate 100000
    [ $1 = join ] || { start w1 unix:p && eventually '[ "$(events log joined)" -ge 1 ]'; }
    for name in w2 w3 w4 w5; do start $name unix:j; done
    eventually '[ "$(events log joined)" -ge '$([ $1 = join ] && echo 4 || echo 5)' ] && is_formed'
    if provoke $1; then
        inflict $2
        eventually '[ "$(events log committed)" -gt '$before' ]' && ms=$(((${EPOCHREALTIME/./} - struck) / 1000))
        [ $2 != stall ] || { eventually 'grep -q "\"lost\"" log' && strike CONT w1; }
        more_steps log && finish && [ $missed = no ] && ok=yes
    fi 2>>trouble
    detail="$(events log formed) epochs, $(awk -F'"(from|to)":' '/"rolled_back"/ { n += $2 - $3 } END { print n + 0 }' log) steps again"
    row "$1" "$2" "$([ $ok = yes ] && echo 'same bits' || echo FAILED)" "$ms" "$detail"
    [ $ok = yes ] || tail -n 3 trouble log.err workers.err
    BATS_TEST_COMPLETED=${ok#no} job_teardown # of what failed it tells
    wait $(cat pids)
    cd "$top" && rm -rf "$dir"
} 2>/dev/null # the shell's own words on who was killed

cd "$top" || exit 1
seq 1 3000 >corpus
each_cell "$@"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
