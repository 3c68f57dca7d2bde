#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run off loopback: with the key a job is the job it always was, without it there is no job.
# 127.0.0.2 is an address like any other to the program, and reaches nobody else.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    head -c 32 /dev/urandom >key
    head -c 32 /dev/urandom >other-key
    chmod 600 key other-key
}
teardown() { job_teardown; }

# secure LOG ADDRESS ARGUMENTS...: a coordinator with the key; its address in $at
secure() {
    local log=$1 port
    for port in $(shuf -i 20000-60000 -n 20); do
        at=$2:$port
        background timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --listen $at \
            --key-file key --events "$log" "${@:3}" 2>"$log.err"
        train=$pid
        eventually 'spot-run status --join $at --key-file key >/dev/null 2>&1 || ! kill -0 $train'
        kill -0 $train 2>/dev/null && return 0
        grep -q "in use" "$log.err" || { cat "$log.err" >&2; return 1; }
    done
}

@test "off loopback: refused without the key, for all who listen and all who join" {
    for address in 127.0.0.2:4000 0.0.0.0:4000 10.0.0.1:4000 [fd00::1]:4000 example.org:4000; do
        refuses 2 "needs --key-file" train --data corpus --steps 1 --listen $address
        refuses 2 "needs --key-file" worker --join $address --join-timeout 1s
        refuses 2 "needs --key-file" status --join $address
        echo '{}' >plan
        refuses 2 "needs --key-file" replan --join $address plan
    done
}

@test "a key that others may read, or that is none, is refused by name" {
    for mode in 640 604 660 777; do
        chmod $mode key
        refuses 2 "key file 'key': others may read it" train --data corpus --steps 1 --key-file key
        refuses 2 "key file 'key': others may read it" worker --join unix:j --key-file key
        refuses 2 "key file 'key': others may read it" status --join unix:j --key-file key
    done
    printf short >short && chmod 600 short
    refuses 2 "expected 32 bytes" train --data corpus --steps 1 --key-file short
    refuses 4 "cannot open the key file 'absent'" worker --join unix:j --key-file absent
    chmod 600 key
    refuses 2 "must be one address" train --data corpus --steps 1 --workers 1 --key-file key --listen 0.0.0.0:0
}

@test "with the key a job off loopback ends with the bits of the quiet one, through kills" {
    secure log 127.0.0.2 --steps 100000 --grid 2x2 --durable-every 0.1s
    for i in 1 2 3 4 5; do
        background spot-run worker -q --join $at --key-file key --name w$i --join-timeout 60s 2>>workers.err
        w[$i]=$pid
    done
    seen log joined 5
    at_step log 20
    kill -9 ${w[1]}
    seen log lost 1
    more_steps log
    kill -TERM ${w[2]}
    seen log left 1
    more_steps log
    [ "$(events log lost)" -eq 1 ]
    stops_right log
}

@test "Unix sockets and loopback speak TLS too when there is a key; replan works over it" {
    train log --steps 100000 --key-file key --workers 2
    eventually '[ "$(spot-run status --join unix:j --key-file key | jq .D)" = 2 ]'
    echo '{"schema":"spot.plan/1","kind":"train","job":"x","time_s":1,"next":{"D":1,"P":2,"M":1,"B":1}}' |
        spot-run replan --join unix:j --key-file key -
    eventually 'grep -q "\"D\":1,\"P\":2" log'
    at_step log 1
    stops_right log
}

@test "without the key, or with another, everyone is told so at once, and the job goes on" {
    secure log 127.0.0.1 --steps 100000 --workers 1
    refuses 1 "another key" status --join $at --key-file other-key
    refuses 1 "another key" worker --join $at --key-file other-key
    refuses 1 "requires a key" status --join $at
    refuses 1 "requires a key" worker --join $at
    at_step log 1
    stops_right log
}

@test "a keyed worker does not speak to a job without a key" {
    train log --steps 100000 --workers 1
    at_step log 1
    refuses 4 "does it have a key?" worker --join unix:j --key-file key --join-timeout 0s
    refuses 4 "does it have a key?" status --join unix:j --key-file key
}

# All bytes that come back to a question asked in the clear, of every kind a stranger may ask.
@test "a keyless connection learns nothing: one TLS alert comes back, whatever is asked" {
    secure log 127.0.0.1 --steps 100000 --workers 1
    zeros() { printf '\0%.0s' $(seq "$1"); }
    { printf 'POT1\141' && zeros 27; } >status
    { printf 'POT1\140' && zeros 27; } >replan
    { printf 'POT1\1' && zeros 19 && printf '\50' && zeros 47; } >hello
    { printf 'GET / HTTP/1.0\r\n\r\n'; } >http
    head -c 4000 /dev/urandom >noise
    for question in status replan hello http noise; do
        exec 7<>/dev/tcp/${at%:*}/${at#*:}
        cat $question >&7 || true
        timeout 120 cat <&7 >answer 2>/dev/null || [ $? -ne 124 ] # the job hangs up
        exec 7>&-
        [ "$(wc -c <answer)" -le 7 ] || { echo "$question got $(od -c answer)" >&2; false; }
        if [ -s answer ]; then [ "$(od -An -tx1 -N2 answer)" = ' 15 03' ]; fi
    done
    at_step log 1
    stops_right log
}
