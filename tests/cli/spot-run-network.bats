#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-run on a bad network: one worker is behind tests/tool/proxy.c, all its traffic with it. Whatever is
# cut, held back, delayed or said twice, the job goes on and has the bits of the undisturbed one.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    tools=$(dirname "$(command -v spot-run)")/../tests
    mkfifo commands
    background "$tools/proxy" unix:p unix:j unix:q commands >said 2>proxy.err
    eventually '[ -S q ]'
}
teardown() { job_teardown; }

network() { # COMMAND: and it is done
    local before
    before=$(wc -l <said)
    echo "$*" >commands
    eventually "[ \$(wc -l <said) -gt $before ]"
}

# torn LOG ARGUMENTS...: a job of three workers; w1, the oldest, is behind the proxy
torn() {
    train "$@" --lease 2s
    background spot-run worker -q --join unix:p --join-timeout 60s --name w1 2>>workers.err
    eventually '[ "$(events '"$1"' joined)" = 1 ]'
    worker w2
    worker w3
    at_step "$1" 20
}

goes_on() { # [LOG]: more steps commit
    local log=${1:-log} at
    at=$(events "$log" committed)
    eventually "[ \"\$(events $log committed)\" -gt $((at + 20)) ]"
}

lost() { # WHY [NAME]: w1, or NAME, was given up for it
    gave_up log "${2:-w1}" "$1"
}

back() { # w1 has a place again, as w1.2 if it knocked before its old connection was known to be dead
    eventually 'grep \"formed\" log | tail -n 1 | grep -qE "\"w1(\.[0-9]+)?\""'
}

@test "connections cut again and again: the epoch ends at once, and another begins" {
    torn log --steps 100000
    for what in data control all data; do
        network cut $what
        goes_on
        back
    done
    stops_right log
}

@test "a half-open connection: silence is loss, and what comes late is of an epoch that is over" {
    torn log --steps 100000
    network hold all both
    lost "silent for longer than its lease"
    goes_on
    network release
    goes_on
    back
    stops_right log
}

@test "heartbeats that do not arrive are a lease that ends; orders that do not arrive are a stall" {
    SPOT_TEST_STALL_S=4 torn log --steps 100000
    network hold control out
    lost "lease"
    goes_on
    network release
    back
    network hold control in
    lost "no progress|lease"
    goes_on
    network release
    goes_on
    back
    stops_right log
}

@test "a peer that is alive for the coordinator and for no worker sits out, then comes back" {
    for direction in both in out; do
        network hold data $direction # from the start: no peer ever reaches w1, or never hears it
        train log.$direction --steps 100000 --lease 2s
        background spot-run worker -q --join unix:p --join-timeout 60s --name w1 2>>workers.err
        w1=$pid
        eventually '[ "$(events log.'$direction' joined)" = 1 ]'
        worker w2 && w2=$pid
        worker w3 && w3=$pid
        # without w1, the two others make a grid and commit in it
        eventually 'grep -q "\"formed\".*\"place\":\[\"w[23]\",\"w[23]\"\]" log.'$direction
        goes_on log.$direction
        network release
        stops_right log.$direction
        kill -9 $w1 $w2 $w3
        wait $w1 $w2 $w3 || true
    done
}

@test "a slow link makes steps slow, and nothing else" {
    train log --steps 25
    network delay 20
    background spot-run worker -q --join unix:p --join-timeout 60s --name w1 2>>workers.err
    worker w2
    worker w3
    wait $train
    [ "$(events log lost)" -eq 0 ]
    same_as log 25
}

@test "a join that is said twice: nobody is behind the second, its lease ends, the job goes on" {
    torn log --steps 100000
    network again
    eventually 'grep joined log | grep -q "\"w1.2\""' # for the log it is another one
    lost "lease" w1.2
    goes_on
    stops_right log
}

@test "a zombie that says all of older epochs again, to all: nobody listens" {
    torn log --steps 100000
    for i in 4 5 6; do # more epochs
        worker w$i
        goes_on
    done
    network zombie
    lost "lease" w1.2 # the new connection; the old ones live
    goes_on
    network zombie
    goes_on
    [ "$(events log rolled_back)" = 0 ]
    stops_right log
}

@test "clocks that are days apart and leap: nothing is lost, nothing waits" {
    ldd "$(command -v spot-run)" | grep -q san && skip "a sanitizer wants to be preloaded first"
    SPOT_SKEW_S=-86400 LD_PRELOAD=$tools/skew.so train log --steps 100000 --grid 1x2
    for i in 1 2 3; do
        SPOT_SKEW_S=$((i * 100000)) LD_PRELOAD=$tools/skew.so worker w$i
        w[$i]=$pid
    done
    [ "$(LD_PRELOAD=$tools/skew.so SPOT_SKEW_S=100000000 date +%s)" -gt $(($(date +%s) + 90000000)) ]
    at_step log 20
    kill -TERM ${w[1]}
    seen log left 1
    more_steps log
    [ "$(events log lost)" -eq 0 ]
    [ "$(events log rolled_back)" -eq 0 ]
    stops_right log
}

@test "a connection of the coordinator that is reset, at whichever receive, does not keep the job from its end" {
    local k
    for k in $(seq 1 "$(storm 1 7)" 90); do
        rm -rf log st
        background env SPOT_RESET_AT=$k LD_PRELOAD="$BATS_TEST_DIRNAME/../../build/release/tests/reset.so" timeout 60 \
            spot-run train -q --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s --events log --grid 2x1 --steps 12 \
            --state st --durable-every 0.05s 2>log.err
        train=$pid
        for name in a b c; do worker $name; done
        wait $train || { echo "reset at $k" >&2; false; }
        same_as log 12
    done
}
