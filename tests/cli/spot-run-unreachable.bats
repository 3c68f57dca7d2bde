#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# A worker that the coordinator reaches and its peers do not: it is set aside by name, told why, and let
# go after a while (4). The others work on, with the bits of the undisturbed job, after three failed
# epochs at most.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() {
    job_setup
    export SPOT_PACE_MS=50 # who cannot be reached is let go after seconds
}
teardown() { job_teardown; }

# named NAME [ARGUMENTS]: background worker whose own words are kept
named() {
    local name=$1
    shift
    background spot-run worker -q --join unix:j --join-timeout 60s --name "$name" "$@" 2>"$name.err"
    eval "$name=$pid"
}

# Epochs that were formed and in which nothing was committed.
failed() { # LOG
    jq -s '[.[] | select(.event == "migrate").epoch] - [.[] | select(.event == "committed").epoch]
        | length' "$1"
}

aside() { # NAME: status tells that it is set aside, and why
    eventually "spot-run status --join unix:j | jq -e '.aside | any(.name == \"$1\" and (.why | length > 0))'"
}

in_grid() { # LOG NAME...: an epoch of exactly these
    local log=$1
    shift
    eventually "grep '\"formed\"' $log | tail -n 1 | jq -e --arg want '$*' '.place | sort | join(\" \") == \$want' >/dev/null"
}

grid_without() { # LOG NAME HOW-MANY: the newest epoch has so many places, and none for that one
    eventually "grep '\"formed\"' $1 | tail -n 1 | jq -e '.place | length == $3 and (index(\"$2\") | not)' >/dev/null"
}

# gone NAME TEXT: it ended with status 4, and a message that has TEXT
gone() {
    eventually "! kill -0 ${!1}"
    wait "${!1}" && status=0 || status=$?
    [ "$status" -eq 4 ]
    grep -q "set aside by the job: .*$2" "$1.err"
}

# The job stops when told to; its steps so far, or the first of them, are those of the undisturbed one.
ends_right() {
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    outcome log | grep -v null | sed -n 1,600p >got
    undisturbed 600 | sed -n "1,$(wc -l <got)p" >want
    cmp want got
}

@test "a socket whose path is relative to another folder is told as one that all can use" {
    mkdir elsewhere
    train log --steps 100000 --grid 3x1
    background env -C elsewhere spot-run worker -q --join unix:../j --join-timeout 60s --name w1 2>w1.err
    seen log joined 1
    named w2
    named w3
    in_grid log w1 w2 w3
    more_steps log
    [ "$(failed log)" -eq 0 ]
    ends_right
    run ! ls j.* elsewhere/* 2>/dev/null # they took their sockets along
}

@test "a worker whose socket was swept away goes, and others take its place" {
    train log --steps 100000 --grid 2x1
    named w1
    seen log joined 1
    named w2
    at_step log 10
    rm "j.$w1"
    named w3 # a spare cannot reach w1: it has to go, before anything breaks
    named w4
    aside w1
    grid_without log w1 2
    more_steps log
    gone w1 "j.$w1.*No such file"
    more_steps log
    spot-run status --join unix:j | jq -e '.aside | map(.name) == ["w1"]' # still told
    [ "$(failed log)" -le 3 ]
    [ "$(events log rolled_back)" -eq 0 ]
    ends_right
}

@test "one whose socket is gone and that holds all of the state hands it over by way of the disk" {
    train log --steps 100000 --durable-every 1000s
    named w1
    at_step log 10
    rm "j.$w1"
    named w2
    aside w1
    in_grid log w2
    more_steps log
    gone w1 "j.$w1.*No such file"
    [ "$(failed log)" -le 3 ]
    [ "$(events log rolled_back)" -eq 0 ]
    ends_right
}

# poor LOG: joins with a limit that leaves a descriptor or two for peers
poor() {
    background sh -c 'ulimit -n 9; exec spot-run worker -q --join unix:j --join-timeout 60s --name poor' 2>poor.err
    poor=$pid
    eventually "grep -q poor $1"
}

poor_goes() {
    aside poor
    in_grid log "$@"
    more_steps log
    gone poor "Too many open files\|no answer"
    [ "$(failed log)" -le 3 ]
    ends_right
}

# tier: long
@test "a worker without descriptors for its peers goes: the oldest, no spares" {
    train log --steps 100000 --grid 3x1 --lease 2s
    poor log
    for i in 1 2 3; do named w$i; done
    poor_goes w1 w2 w3
}

@test "a worker without descriptors for its peers goes: the youngest, where a place is free" {
    train log --steps 100000 --grid 4x1 --lease 2s
    for i in 1 2 3; do named w$i; done
    seen log joined 3
    poor log
    poor_goes w1 w2 w3
}

# lost_goes HOW-MANY-OTHERS: at an address at which nobody listens
lost_goes() {
    tools=$(dirname "$(command -v spot-run)")/../tests
    mkfifo commands
    background "$tools/proxy" unix:p unix:j "unix:$PWD/q" commands >said 2>proxy.err
    eventually '[ -S q ]'
    train log --steps 100000 --grid 2x1
    background spot-run worker -q --join unix:p --join-timeout 60s --name lost 2>lost.err
    lost=$pid
    seen log joined 1
    rm q
    for i in $(seq 1 "$1"); do named w$i; done
    aside lost
    grid_without log lost 2
    more_steps log
    gone lost "q: No such file"
    [ "$(failed log)" -le 3 ]
    ends_right
}

# tier: long
@test "a worker that tells an address at which nobody listens goes, with no spares" {
    lost_goes 2
}

@test "a worker that tells an address at which nobody listens goes, with spares" {
    lost_goes 4
}

@test "a path that falls silent: the others wait for a lease, not for ever, and the silent one goes" {
    tools=$(dirname "$(command -v spot-run)")/../tests
    mkfifo commands
    background "$tools/proxy" unix:p unix:j "unix:$PWD/q" commands >said 2>proxy.err
    eventually '[ -S q ]'
    train log --steps 100000 --lease 2s
    background spot-run worker -q --join unix:p --join-timeout 60s --name mute 2>mute.err
    mute=$pid
    seen log joined 1
    named w1
    named w2
    at_step log 10
    echo "hold data both" >commands
    aside mute
    in_grid log w1 w2
    more_steps log
    gone mute "does not answer\|no answer"
    [ "$(failed log)" -le 3 ]
    ends_right
}

@test "a worker that starts anew under the name of one that was set aside is tried at once" {
    train log --steps 100000 --grid 2x1
    named w1
    seen log joined 1
    named w2
    at_step log 10
    rm "j.$w1"
    named w3
    aside w1
    kill -9 "$w1"
    wait "$w1" || true
    kill -TERM "$w2"
    wait "$w2" || true
    named w1
    in_grid log w1 w3
    spot-run status --join unix:j | jq -e '.aside == []'
    [ "$(failed log)" -le 3 ]
    ends_right
}

@test "a coordinator takes the place of a dead one whose socket is from the future" {
    train log --steps 100000 --state d
    worker w1
    at_step log 10
    kill_job
    touch -h -d '+10 years' j
    train log --steps 100000 --state d --resume
    more_steps log
    ends_right
}
