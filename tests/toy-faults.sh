#!/bin/bash
# SPDX-License-Identifier: MIT
# The fault matrix of a group whatever it computes: tests/toy counts, in one view in lockstep, in a view
# per replica, in announced rounds. One member is behind tests/tool/proxy.c, which stops the world at the
# frame that makes the phase; then the fault strikes. A cell passes if each round of each view committed
# once and in order, and the members end with the counter of a group that nobody disturbed.
# Time: from the fault to the next commit of that member's view.
#   tests/toy-faults.sh [WAY [few | PHASE FAULT ...]]     few: one fault per phase
# shellcheck disable=SC2086,SC1091,SC2016,SC2046,SC2154  # eventually evaluates; matrix.bash sets
set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/cli/job.bash
. "$here/cli/job.bash"
# shellcheck source=tests/cli/matrix.bash
. "$here/cli/matrix.bash"
tests=$(dirname "$(command -v spot-run)")/../tests
if [ $# -eq 0 ]; then
    for way in lockstep replicas announced; do "$0" $way || exit; done
    exit
fi
way=$1
shift
# shellcheck disable=SC2034  # read by matrix.bash
phases="join form round vote commit quiesce recover"
rounds=400
top=$(mktemp -d)
trap 'job_teardown 2>/dev/null; cd /; rm -rf "$top"' EXIT

# the message that makes a phase, cluster/protocol.h
declare -A type=([join]=1 [form]=35 [round]=37 [vote]=6 [commit]=38 [quiesce]=34 [recover]=35)

coordinate() {
    "$tests/toy-run" coordinate $way unix:j commits log $rounds 0.5 4 2>>log.err &
    coordinator=$!
    echo $coordinator >>pids
}
start() { # NAME ADDRESS
    "$tests/toy-run" member "$2" "$1" >>ends 2>>workers.err &
    w[$1]=$!
    echo $! >>pids
}
commits() { # VIEW: how many
    grep -c "^$1 " commits
}

# somebody alive in the view of r1.a who is not r1.a
other() {
    local name
    for name in r1.b r1.c; do
        kill -0 "${w[$name]}" 2>/dev/null && echo $name && return
    done
}

# the epoch of the last join runs: a trap would spring in it
settled() {
    local n
    n=$(commits 0)
    eventually '[ "$(commits 0)" -gt '$((n + 10))' ]'
}

# until the trap has sprung: bring about what the phase is a part of
provoke() { # PHASE
    local t=${type[$1]} again='form quiesce recover'
    [ $way != announced ] || again+=' round' # which begins once in an epoch
    if [ $1 = join ]; then
        network trap $t 1
        start r1.a unix:p
    elif [[ " $again " == *" $1 "* ]]; then
        network trap $t 1
        eventually "grep -qx 'trap $t 1' said"
        strike "$([ $1 = recover ] && echo KILL || echo TERM)" "$(other)"
    else
        network trap $t 9
    fi
    eventually 'grep -q trapped said'
}

inflict() { # FAULT
    local name
    case $1 in
    notice) strike TERM r1.a ;;
    kill) strike KILL r1.a ;;
    stall) strike STOP r1.a ;;
    cut) network cut all ;;
    duplicate) network again && network zombie ;;
    coordinator) kill -KILL $coordinator ;;
    two) strike KILL r1.a && strike KILL "$(other)" ;;
    replicas) for name in r1.a r1.b r1.c; do kill -KILL "${w[$name]}"; done ;;
    everything) kill -KILL $coordinator "${w[@]}" ;;
    esac
    struck=${EPOCHREALTIME/./}
    before=$(commits 0)
    network release
    case $1 in
    coordinator | everything)
        wait $coordinator
        coordinate
        ;;
    esac 2>/dev/null
    case $1 in
    coordinator | duplicate | cut) ;;
    *) for name in r1.m r1.n r2.m r2.n; do start $name unix:j; done ;;
    esac
}

# members have told their counters; one that came back too late would wait for a coordinator
told_all() {
    local end=$((SECONDS + 5)) id
    for id in "${w[@]}"; do
        while kill -0 $id && [ $SECONDS -lt $end ]; do sleep 0.025; done
    done
    true
}

# the undisturbed group
calm() {
    [ -e "$top/want" ] && return
    mkdir "$top/calm"
    (
        cd "$top/calm" || exit
        "$tests/toy-run" coordinate lockstep unix:j commits log $rounds 20 0 &
        "$tests/toy-run" member unix:j r1.a >ends
        wait
    )
    cut -d ' ' -f 3 "$top/calm/ends" >"$top/want"
}

# all rounds of the views, once and in order; the last value is that of everybody who is there
is_right() {
    calm
    awk -v rounds=$rounds -v views=$([ $way = replicas ] && echo 2 || echo 1) -v want="$(cat "$top/want")" '
        NR == FNR && ($2 != at[$1] + 0 || $3 <= $2) { exit bad = 1 }
        NR == FNR { at[$1] = $3; value[$1] = $4 }
        NR > FNR { n++; bad = bad || $2 != rounds || $3 != want }
        END {
            for (v = 0; v < views; v++) bad = bad || at[v] != rounds || value[v] != want
            exit bad || !n || want == ""
        }' commits ends
}

cell() { # PHASE FAULT
    local dir="$top/$1-$2" ok=no missed=no ms='-' name
    local struck before coordinator
    w=()
    mkdir "$dir" && cd "$dir" && : >pids && : >ends && : >commits && mkfifo commands
    "$tests/proxy" unix:p unix:j unix:q commands >said 2>proxy.err &
    echo $! >>pids
    eventually '[ -S q ]'
    coordinate
    [ $1 = join ] || { start r1.a unix:p && eventually '[ "$(events log joined)" -ge 1 ]'; }
    for name in r1.b r1.c r2.a r2.b; do start $name unix:j; done
    eventually '[ "$(events log joined)" -ge '$([ $1 = join ] && echo 4 || echo 5)' ]'
    # shellcheck disable=SC2119 # of its own number
    settled
    if provoke $1; then
        inflict $2
        eventually '[ "$(commits 0)" -gt '$before' ]' && ms=$(((${EPOCHREALTIME/./} - struck) / 1000))
        [ $2 != stall ] || { eventually 'grep -q "\"lost\"" log' && strike CONT r1.a; }
        eventually '! kill -0 '$coordinator && wait $coordinator && [ $missed = no ] && told_all && is_right && ok=yes
    fi 2>>trouble
    row "$1" "$2" "$([ $ok = yes ] && echo 'each once' || echo FAILED)" "$ms" "$(wc -l <ends) members at the end"
    [ $ok = yes ] || tail -n 3 trouble log.err workers.err commits
    BATS_TEST_COMPLETED=${ok#no} job_teardown # of what failed it tells
    wait $(cat pids)
    cd "$top" && rm -rf "$dir"
} 2>/dev/null # the shell's own words on who was killed

cd "$top" || exit 1
each_cell "$@"
echo "$way: $passed passed, $failed failed"
[ $failed = 0 ]
