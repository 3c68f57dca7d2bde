#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/standstill.sh [ROUNDS [FIRST-SEED]]: workers are stopped and go on, coordinators are killed and started again, plans
# arrive meanwhile, all at random; whatever happens, the job tells the undisturbed story, and `report` takes its log. One line a
# round, with its seed: ROUNDS=1 and that seed draw the same disturbances again.
# shellcheck disable=SC2086,SC1091,SC2016,SC2046,SC2154,SC2181,SC2206  # options are words; the helpers are sourced
set -euo pipefail

unset SPOT_PACE # what comes at random comes in the midst of things
rounds=${1:-30} seed=${2:-$RANDOM}
here=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d)
export BATS_TEST_TMPDIR BATS_FILE_TMPDIR=$top BATS_TEST_COMPLETED
. "$here/cli/job.bash"
trap 'BATS_TEST_COMPLETED=yes; [ ! -e pids ] || job_teardown 2>/dev/null; cd /; rm -rf "$top"' EXIT

below() { # N: drawn below it
    drawn=$((RANDOM % $1))
}

start() {
    train log --steps 100000 --state st --lease ${lease}s --durable-every $durable ${grid:+--grid $grid} "$@"
}

# A worker stands still for a while, one in two times longer than a lease
stand_still() {
    local who=${ids[$((RANDOM % ${#ids[@]}))]} still
    below 2
    still=$(jq -n "($RANDOM / 32768 + $drawn) * $lease")
    kill -STOP $who
    (sleep $still && kill -CONT $who) 2>/dev/null 3>&- &
    echo $! >>pids
}

restart() {
    kill_job 2>/dev/null
    below 3
    sleep 0.$drawn
    start --resume
}

replan() {
    below 3
    printf '{"schema":"spot.plan/1","time_s":%d,"next":{"D":%d,"P":%d}}' $((++plans)) $((1 + RANDOM % 2)) $((1 + drawn % 2)) |
        spot-run replan --join unix:j - 2>/dev/null || true
}

round() {
    RANDOM=$(($1 * 7919)) plans=0 ids=() # neighbours would begin alike
    below 2 && lease=$((1 + drawn))
    below 2 && export SPOT_TEST_BUDDIES=$drawn
    below 2 && durable=$([ $drawn = 0 ] && echo 1h || echo 0.3s)
    below 4
    grid=$(echo "" 1x1 1x2 2x1 | cut -d' ' -f $((drawn + 1)))
    echo "lease ${lease}s, durable every $durable, buddies $SPOT_TEST_BUDDIES, grid ${grid:-free}" >setting
    start
    below 3
    for ((i = 0; i < drawn + 2; i++)); do worker w$i && ids+=($pid); done
    at_step log 5
    for ((k = 0; k < 6; k++)); do
        below 4
        case $drawn in
        0) stand_still ;;
        1) stand_still && restart ;;
        2) stand_still && stand_still && restart && replan ;;
        *) replan ;;
        esac
        sleep $((RANDOM % 2)).$((RANDOM % 10))
    done
    kill -CONT "${ids[@]}"
    more_steps log
    stops_right log
}

failed=0
for ((r = 0; r < rounds; r++)); do
    dir=$top/round-$((seed + r))
    BATS_TEST_TMPDIR=$dir BATS_TEST_COMPLETED=
    mkdir "$dir" && cd "$dir" && job_setup
    set +e # of a condition bash would not heed -e
    (
        set -e
        round $((seed + r))
    ) >said 2>&1
    [ $? = 0 ] && said=ok || said=FAILED
    set -e
    [ $said = ok ] || failed=$((failed + 1))
    train=$(tail -n 1 pids) BATS_TEST_COMPLETED=$said job_teardown 2>/dev/null || true
    printf 'seed %-6s %-6s %s restarts, %s lost, %s back, %s restored, %s steps; %s\n' $((seed + r)) $said $(for e in resumed lost \
        rolled_back restored committed; do events log $e; done) "$(cat setting)"
    [ $said = ok ] || { tail -n 5 said; [ -z "${KEEP:-}" ] || cp log "$KEEP.$((seed + r))"; }
done
[ $failed = 0 ]
