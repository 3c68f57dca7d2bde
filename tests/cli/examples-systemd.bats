#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: the units of examples/systemd pass systemd-analyze, and what they start trains, leaves,
# resumes and replans, with a status that they take for success, and the bits of an undisturbed run.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    examples=$BATS_TEST_DIRNAME/../../examples
}

teardown() { job_teardown; }

@test "the units and the timer are valid (systemd-analyze)" {
    command -v systemd-analyze >/dev/null || skip "no systemd-analyze (Debian systemd)"
    mkdir units
    for unit in "$examples"/systemd/spot-*; do # what they start, where it is here
        sed "s|/usr/bin/spot-run|$(command -v spot-run)|; s|/usr/share/doc/spot/examples|$(cd "$examples" && pwd)|" \
            "$unit" >"units/$(basename "$unit")"
    done
    cp 'units/spot-worker@.service' 'units/spot-worker@0.service'
    run timeout 60 systemd-analyze verify --man=no units/spot-coordinator.service units/spot-worker@0.service \
        units/spot-replan.service units/spot-replan.timer units/spot-exec.service units/spot-serve.service
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    ! grep -E 'spot-(coordinator|worker|replan|exec|serve)' <<<"$output" || false
    timeout 60 systemd-analyze calendar "$(sed -n 's/^OnCalendar=//p' units/spot-replan.timer)"
    # which could fail
    sed -i 's/^Restart=.*/Restart=perhaps/' units/spot-coordinator.service
    run timeout 60 systemd-analyze verify --man=no units/spot-coordinator.service
    [[ "$output" == *perhaps* ]]
}

# command_of UNIT INSTANCE: what it starts, its specifiers and variables replaced as systemd does
command_of() {
    sed -n 's/^ExecStart=//p' "$examples/systemd/$1" |
        sed "s|/usr/bin/||; s|/usr/share/doc/spot/examples|$examples|; s|/etc/spot|$PWD/etc|; s|/var/lib/spot|$PWD/lib|
            s|%d|$PWD/etc|g; s|%H|host|g; s|%i|$2|g; s|\${\([A-Z]*\)}|\"\$\1\"|g"
}

@test "what the units start trains, leaves, resumes and replans" {
    mkdir -p etc lib/state
    (umask 077 && head -c 32 /dev/urandom >etc/key)
    cp "$examples/jobs/demo.json" etc/job.json
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 10000))
        (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
    export JOIN=127.0.0.1:$port LISTEN=127.0.0.1:$port WORKER='--threads 1 -q' SPOT_KEY_FILE=$PWD/etc/key
    export TRAIN="-q --data $PWD/corpus $MODEL --global-batch 5 --steps 100000 --lease 20s"
    pace=("LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}${SPOT_PACE-}")
    start() { # UNIT INSTANCE
        background env "${pace[@]}" sh -c "cd lib; exec $(command_of "$1" "$2")" 2>>units.err
    }
    start spot-coordinator.service
    c=$pid
    start spot-worker@.service 0
    first=$pid
    start spot-worker@.service 1
    second=$pid
    at_step lib/events.jsonl 5
    kill -TERM $first # systemctl stop
    wait $first && status=0 || status=$?
    grep -qx "SuccessExitStatus=$status" "$examples/systemd/spot-worker@.service"
    kill -TERM $c
    wait $c && status=0 || status=$?
    grep -qx "SuccessExitStatus=$status" "$examples/systemd/spot-coordinator.service"
    start spot-coordinator.service
    train=$pid
    start spot-worker@.service 2
    eventually 'grep "\"formed\"" lib/events.jsonl | tail -n 1 | grep -q "\"D\":2,\"P\":1,"'
    # the demo's job wants stages on two workers
    timeout 60 sh -c "$(command_of spot-replan.service)" 2>>units.err
    eventually 'grep "\"formed\"" lib/events.jsonl | tail -n 1 | grep -q "\"D\":1,\"P\":2,"'
    more_steps lib/events.jsonl
    kill -0 $second
    stops_right lib/events.jsonl
}
