#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# A notice reaches a script in the way it listens: SIGUSR1, SIGTERM, or not at all. What is told then is what will be done again.

# shellcheck disable=SC2016,SC2030,SC2031,SC2046,SC2086,SC2154,SC2164,SC2103,SC2034 # eventually evaluates; words; background sets $pid; cd

bats_require_minimum_version 1.5.0
load job
set -o pipefail

# A trainer of steps of 20 ms, on ranks in lockstep by nothing: rank 0 saves each tenth one, and $LISTEN says what it does when told.
setup() {
    job_setup
    export HERE=$PWD LISTEN=nothing
    cat >trainer <<'END2'
#!/bin/sh
n=0 told='' heard=''
[ ! -e ckpt.txt ] || n=$(cat ckpt.txt)
echo "$n" >"$HERE/began.$TORCHELASTIC_RESTART_COUNT.$RANK"
save() { [ "$RANK$heard" != 0 ] || { echo "$n" >ckpt.new && mv ckpt.new ckpt.txt; }; }
case $LISTEN in
USR1 | TERM) trap 'told=1' $LISTEN ;;
deaf) trap '[ -z "$heard" ] || exit 1; heard=1; : >"$HERE/heard.$RANK"' TERM ;; # the second one ends it
esac
while [ ! -e "$HERE/finish" ]; do
    n=$((n + 1))
    sleep 0.02
    echo "$n" >"$HERE/at.$$" && mv "$HERE/at.$$" "$HERE/at.$RANK" # a kill leaves the one before
    [ $((n % 10)) != 0 ] || save
    [ -z "$told" ] || { save; echo "$n" >"$HERE/left.$RANK"; exit 0; }
done
END2
    chmod +x trainer
}
teardown() { job_teardown; }

coordinator() { # ARGUMENTS...
    background timeout 120 spot-run exec --listen unix:j --lease 20s --nnodes 1:2 --checkpoint 'ckpt*' --events log "$@" -- "$HERE/trainer" >/dev/null 2>>job.err
    job=$pid
}

node() { # NAME ARGUMENTS...
    local name=$1
    shift
    mkdir -p $name
    cd $name
    background spot-run exec --join "unix:$HERE/j" --join-timeout 60s --name $name --checkpoint 'ckpt*' "$@" -- "$HERE/trainer" >>"../$name.out" 2>>"../$name.err"
    cd ..
    eval "id_$name=$pid"
}

# two nodes with a commit behind them, and a notice to the first one, or the one that is named
noticed() {
    node a
    node b
    eventually '[ "$(jq -s "map(select(.event == \"formed\"))[-1].D" log)" = 2 ]'
    last=$(jq -s 'map(select(.event == "formed"))[-1].restart' log)
    eventually '[ -e began.'$last'.0 ] && [ -e began.'$last'.1 ]'
    had=$(events log durable)
    eventually '[ "$(events log durable)" -gt $((had + 1)) ]'
    gone=$(jq -rs 'map(select(.event == "formed"))[-1].place[0]' log)
    eval "leaver=\$id_$gone"
    kill -TERM $leaver
    wait $leaver && status=0 || status=$?
    [ "$status" -eq 75 ]
    eventually '[ -e began.'$((last + 1))'.0 ]'
}

finishes() {
    : >finish
    wait "$job"
    [ "$(jq 'select(.event == "finished").failures' log)" -eq 0 ]
}

for_all_that_listen() {
    coordinator
    noticed
    [ "$(cat began.$((last + 1)).0)" -eq "$(cat left.0)" ] # nothing is done again
    grep "left after a notice: ckpt.txt .* is committed" $gone.err
    ! grep "is repeated" $gone.err job.err || false
    finishes
}

@test "notice: a script that saves on SIGUSR1 goes on with that step" {
    LISTEN=USR1
    for_all_that_listen
}

@test "notice: a script that saves on SIGTERM, as HF's and Lightning's own handlers do, goes on with that step" {
    LISTEN=TERM
    for_all_that_listen
}

@test "notice: a script that listens to nothing loses no time to it, and what is done again is told" {
    coordinator
    noticed
    grep -E "left after a notice: ckpt.txt .* is committed.* later work, at most [0-9.]+ s, is repeated" $gone.err
    [ "$(cat at.0)" -ge "$(cat began.$((last + 1)).0)" ]
    ! grep "did not save" job.err || false
    finishes
}

@test "notice: a script that hears it and does not end in time is told so, with the time there was" {
    LISTEN=deaf
    coordinator --grace 3s
    SPOT_TEST_STOP_TIME_S=0.2 noticed
    [ -e heard.0 ]
    grep -E "ranks on $gone did not save within 2\.[0-9] s of (3\.0|2\.9)" job.err
    grep "is repeated" $gone.err
    finishes
}

@test "notice: --save-time is less than the notice's, if it is given" {
    LISTEN=deaf
    coordinator --grace 60s --save-time 0.4s
    SPOT_TEST_STOP_TIME_S=0.2 noticed
    grep -E "ranks on $gone did not save within 0\.4 s of (60\.0|59\.9)" job.err
    finishes
}

@test "notice: to a script that never saves nothing is promised" {
    sed -i 's/^save() .*/save() { :; }/' trainer
    coordinator
    node a
    node b
    eventually '[ "$(jq -s "map(select(.event == \"formed\"))[-1].D" log)" = 2 ]'
    last=$(jq -s 'map(select(.event == "formed"))[-1].restart' log)
    eventually '[ -e began.'$last'.0 ] && [ -e began.'$last'.1 ]'
    kill -TERM $id_b
    wait $id_b && status=0 || status=$?
    [ "$status" -eq 75 ]
    grep "nothing was committed" b.err
    ! grep "nothing is lost" ./*.err || false
    finishes
}
