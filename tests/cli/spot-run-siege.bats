#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, first
# spot-run under siege: peers that misbehave, plans and questions amid kills, a coordinator that stands
# still, disks that are slow or full. The job goes on and has the bits of the undisturbed one.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    tools=$(dirname "$(command -v spot-run)")/../tests
    head -c 32 /dev/urandom >key
    chmod 600 key
}
teardown() { job_teardown; }

keyed() { # NAME
    background spot-run worker -q --join unix:j --key-file key --join-timeout 60s --name "$1" 2>>workers.err
}

rude() { # ADDRESS HOW N: that many connections misbehave from now on
    : >"rude.$2"
    background "$tools/rude" "$1" key "$2" "$3" >"rude.$2" 2>&1
    eventually "[ -s rude.$2 ]"
    [ "$(cat "rude.$2")" = held ] || { cat "rude.$2" >&2; return 1; }
}

@test "TLS peers that stall, talk nonsense, do not listen or say nothing, a hundred of them: the job goes on" {
    train log --steps 100000 --key-file key
    keyed w1
    keyed w2
    seen log joined 2
    at_step log 5
    for how in garbage raw deaf; do rude unix:j $how 5; done
    "$tools/rude" unix:j key drip 1 >dripped # slow, and in order
    jq -e '.schema == "spot.status/1" and .step >= 5' dripped
    for how in silent half stalled; do rude unix:j $how 34; done
    more_steps log
    # places for strangers are free again when those who said nothing are sent away
    eventually 'timeout 120 spot-run status --join unix:j --key-file key >status 2>/dev/null'
    for at in j.*; do # where the workers listen
        for how in garbage raw silent half stalled; do rude "unix:$at" $how 20; done
    done
    keyed w3
    seen log joined 3
    eventually 'grep -q "\"formed\".*\"w3\"" log'
    more_steps log
    [ "$(events log lost)" -eq 0 ]
    stops_right log
}

@test "clocks that are days apart and leap are nothing to a job with a key either" {
    ldd "$(command -v spot-run)" | grep -q san && skip "a sanitizer wants to be preloaded first"
    SPOT_SKEW_S=-86400 LD_PRELOAD=$tools/skew.so train log --steps 100000 --grid 1x2 --key-file key
    for i in 1 2 3; do
        SPOT_SKEW_S=$((i * 100000)) LD_PRELOAD=$tools/skew.so keyed w$i && w[$i]=$pid
    done
    at_step log 20
    kill -TERM ${w[1]}
    seen log left 1
    kill -9 ${w[2]}
    seen log lost 1
    more_steps log
    SPOT_SKEW_S=9999999 LD_PRELOAD=$tools/skew.so spot-run status --join unix:j --key-file key
    [ "$(events log lost)" -eq 1 ]
    [ "$(events log rolled_back)" -eq 0 ]
    stops_right log
}

@test "plans and questions amid kills, notices and joins: every question is answered, no step is lost" {
    RANDOM=11
    local grids=(1x1 2x1 1x2 2x2 1x3 3x1 4x1) i name grid
    local -A alive=()
    train log --steps 100000 --state st --durable-every 0.1s
    for i in 1 2 3 4; do worker n$i && alive[$pid]=1; done
    at_step log 5
    background bash -c 'for i in $(seq 40); do
        spot-run status --join unix:j --format json >status.$0 2>status.err.$0 || { touch unanswered; exit; }
        done; touch answered.$0' 1
    background bash -c 'for i in $(seq 40); do
        spot-run status --join unix:j --format table >status.$0 2>status.err.$0 || { touch unanswered; exit; }
        done; touch answered.$0' 2
    for i in $(seq 5 34); do
        grid=${grids[$((RANDOM % ${#grids[@]}))]}
        printf '{"schema":"spot.plan/1","kind":"train","job":"x","time_s":%s,"next":{"D":%s,"P":%s,"M":1,"B":1}}\n' \
            $i ${grid%x*} ${grid#*x} >plan.$i
        background spot-run replan --join unix:j plan.$i 2>>replan.err
        local ids=(${!alive[@]})
        local victim=${ids[$((RANDOM % ${#ids[@]}))]}
        kill -$([ $((RANDOM % 2)) = 0 ] && echo TERM || echo KILL) $victim 2>/dev/null || true
        unset "alive[$victim]"
        worker n$i && alive[$pid]=1
        sleep 0.0$((RANDOM % 10))
    done
    eventually '[ -e answered.1 ] && [ -e answered.2 ] || [ -e unanswered ]'
    [ ! -e unanswered ] || { cat status.err.*; false; }
    # plans that overtook one another; the shell may tell of those that were killed
    run -1 bash -c 'grep "^spot-run" replan.err | grep -v "older than the previous plan"'
    more_steps log
    stops_right log
}

@test "a coordinator that stands still again and again, for less and for more than leases last" {
    train log --steps 100000 --grid 1x2 --lease 0.5s --state st --durable-every 0.2s
    for i in 1 2 3; do worker w$i && w[$i]=$pid; done
    seen log joined 3
    at_step log 5
    coordinator=$(pgrep -P $train)
    for pause in 0.7 3 1.2; do # workers wait for five leases
        kill -STOP "$coordinator"
        sleep $pause
        if [ $pause = 3 ]; then kill -9 ${w[1]}; fi # and nobody hears of it
        kill -CONT "$coordinator"
        more_steps log
    done
    eventually 'grep -q "\"lost\".*\"w1\"" log'
    stops_right log
}

# preload: a disk as tests/preload/disk.c makes it, for the coordinator
disk() { # VARIABLE=VALUE LOG ARGUMENTS...
    ldd "$(command -v spot-run)" | grep -q san && skip "a sanitizer wants to be preloaded first"
    local log=$2
    background env "$1" LD_PRELOAD="$tools/disk.so${SPOT_PACE:+:$SPOT_PACE}" timeout 300 spot-run train --data corpus $MODEL \
        --global-batch 5 --listen unix:j --events "$log" --steps 100000 --state st "${@:3}" 2>>"$log.err"
    train=$pid
}

@test "a disk that is full for a while: training continues, then it is durable again, and good to start from" {
    disk SPOT_DISK_FULL=$PWD/full log --durable-every 0.02s
    for i in 1 2; do SPOT_DISK_FULL=$PWD/full LD_PRELOAD=$tools/disk.so worker w$i && w[i]=$pid; done
    seen log durable 2
    : >full
    eventually 'spot-run status --join unix:j --format json | grep -q "\"durable_error\": \".*No space left on device"'
    spot-run status --join unix:j --format table | grep -q "state is not written: .*No space left on device"
    local before=$(events log durable)
    more_steps log
    [ "$(events log durable)" = "$before" ]
    [ "$(ls st | grep -c "^gen-[0-9]*$")" -ge 1 ] # the one before is kept
    rm full
    seen log durable $((before + 2))
    [ "$(grep -c "No space left on device; training continues without a durable copy" log.err)" -eq 1 ] # of all that failed
    spot-run status --join unix:j --format json | jq -e 'has("durable_error") | not'
    kill -9 ${w[1]} ${w[2]}
    kill_job
    disk SPOT_DISK_FULL=$PWD/full log --durable-every 0.02s --resume
    worker w3
    seen log resumed 1
    eventually "[ \"\$(sed '1,/\"resumed\"/d' log | grep -c '\"committed\"')\" -gt 5 ]"
    [ -z "$(ls st | grep bad || true)" ]
    stops_right log
}

@test "a slow disk: who waits for a state that is being written takes nobody for lost" {
    # a generation takes 4 * 2 * 1.6 s; workers wait for 5 * 2 s
    SPOT_TEST_BUDDIES=0 disk SPOT_DISK_MS=1600 log --grid 1x2 --lease 2s --durable-every 0.05s
    # who cannot write sends
    for i in 1 2; do SPOT_DISK_FULL=/ LD_PRELOAD=$tools/disk.so worker w$i && w2=$pid; done
    seen log durable 1
    eventually '[ -d st/gen-*.tmp ]'
    kill -9 $w2 # the last copy of its stage
    worker w3
    seen log joined 3
    eventually "[ \"\$(sed '1,/\"lost\"/d' log | grep -c '\"committed\"')\" -gt 5 ]"
    [ "$(events log lost)" -eq 1 ]
    [ "$(events log joined)" -eq 3 ]
    jq -es 'map(select(.event == "migrate" and .restored_byte > 0)) | length >= 1' log
    stops_right log
}
