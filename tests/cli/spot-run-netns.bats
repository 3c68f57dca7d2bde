#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock, plain
# spot-run across machines: each worker in a network namespace of its own, with its own address, in a
# zone, behind a link of limited rate. Off loopback, hence with a key. Needs root and network namespaces.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    lab=s$((BASHPID % 100000)) # names of ours alone, at most 15 bytes with a suffix
    net=10.$((RANDOM % 200 + 20)).$((RANDOM % 250))
    [ "$(id -u)" = 0 ] && command -v ip >/dev/null || skip "needs root and ip"
    ip netns add $lab-0 2>/dev/null || skip "no network namespaces here"
    ip -n $lab-0 link add hub type bridge 2>/dev/null || skip "no bridges here"
    ip -n $lab-0 addr add $net.1/24 dev hub
    ip -n $lab-0 link set hub up
    ip -n $lab-0 link set lo up
    head -c 32 /dev/urandom >key
    chmod 600 key
}

teardown() {
    job_teardown
    for i in 0 1 2 3 4 5; do ip netns del $lab-$i 2>/dev/null || true; done
}

machine() { # N [RATE]: a namespace with the address N + 1, plugged into the bridge
    ip netns add $lab-$1
    ip -n $lab-0 link add $lab$1 type veth peer name eth0 netns $lab-$1
    ip -n $lab-0 link set $lab$1 master hub up
    ip -n $lab-$1 addr add $net.$(($1 + 1))/24 dev eth0
    ip -n $lab-$1 link set eth0 up
    ip -n $lab-$1 link set lo up
    if [ "${2-}" ]; then
        ip netns exec $lab-$1 tc qdisc add dev eth0 root tbf rate $2 burst 32kbit latency 400ms 2>/dev/null || true
    fi
}

on() { # N COMMAND...: on that machine, in the background
    local n=$1
    shift
    background ip netns exec $lab-$n "$@"
}

@test "a worker that joined over loopback is told to the others under an address that leads to it" {
    on 0 timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --listen 0.0.0.0:4711 --key-file key \
        --events log --steps 100000 --grid 3x1 2>log.err
    train=$pid
    on 0 spot-run worker -q --join 127.0.0.1:4711 --key-file key --name near --join-timeout 60s 2>>workers.err
    seen log joined 1 # the eldest: the others connect to it
    for i in 1 2; do
        machine $i
        on $i spot-run worker -q --join $net.1:4711 --key-file key --name w$i --join-timeout 60s 2>>workers.err
    done
    eventually 'grep "\"formed\"" log | tail -n 1 | grep -q "\"D\":3"'
    more_steps log
    [ "$(jq -s '[.[] | select(.event == "migrate").epoch] - [.[] | select(.event == "committed").epoch] | length' log)" -eq 0 ]
    kill -TERM $(pgrep -P $train)
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    outcome log | grep -v null >got
    undisturbed "$(wc -l <got)" | sed '$d' >want
    cmp want got
}

@test "workers on machines of their own: notice, kill, a pulled cable, a whole zone; same bits" {
    on 0 timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --listen $net.1:4711 --key-file key \
        --events log --steps 100000 --grid 2x2 --lease 2s --durable-every 0.2s 2>log.err
    train=$pid
    for i in 1 2 3 4 5; do
        machine $i $([ $i = 5 ] && echo 20mbit || true)
        on $i spot-run worker -q --join $net.1:4711 --key-file key --name w$i --domain zone$((i % 2)) \
            --join-timeout 60s 2>>workers.err
        w[$i]=$pid
    done
    eventually 'grep -q "\"D\":2,\"P\":2" log'
    at_step log 30
    kill -TERM ${w[1]}
    wait ${w[1]} && status=0 || status=$?
    [ "$status" -eq 75 ]
    seen log left 1 # its connection ends with it

    ip -n $lab-0 link set ${lab}2 down # the cable of w2: no word, no reset, only silence
    gave_up log w2 lease
    ip -n $lab-0 link set ${lab}2 up
    eventually '[ "$(grep -c "\"joined\".*\"name\":\"w2\"" log)" = 2 ]'

    kill -9 ${w[3]} ${w[5]} # all of zone 1 that is left
    seen log lost 3
    local at
    at=$(events log committed)
    eventually "[ \"\$(events log committed)\" -gt $((at + 20)) ]"
    run ip netns exec $lab-4 timeout 60 spot-run status --join $net.1:4711
    [ "$status" -eq 2 ] # off loopback, without the key
    run ip netns exec $lab-4 timeout 60 spot-run status --join $net.1:4711 --key-file key
    [ "$status" -eq 0 ]
    jq -e '.members | map(.name) | all(. == "w2" or . == "w4")' <<<"$output"
    kill -TERM $(pgrep -P $train)
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    outcome log | grep -v null >got
    undisturbed "$(wc -l <got)" | sed '$d' >want
    cmp want got
}
