#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock, plain
# spot-run: whoever dies, stalls or leaves, the job ends with the bits of the undisturbed one. What a kill or a notice
# does to who holds what is in tests/unit/test_job_placed.c and test_job_watched.c.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

# tier: check
@test "a notice: the worker hands over and leaves with 75, nothing is recomputed" {
    train log --steps 100000 --grid 1x2
    worker w1 && w1=$pid
    worker w2
    at_step log 20
    worker w3 # a spare
    eventually '[ "$(events log joined)" = 3 ]'
    kill -TERM $w1
    wait $w1 && status=0 || status=$?
    [ "$status" -eq 75 ]
    more_steps log
    [ "$(events log rolled_back)" -eq 0 ]
    [ "$(events log lost)" -eq 0 ]
    jq -es 'map(select(.event == "notice" or .event == "left").name) == ["w1", "w1"]' log
    stops_right log
}

# tier: check
@test "all workers killed at once: new ones start from the disk, same final bits" {
    train log --steps 100000 --durable-every 0.05s --state st
    for i in 1 2 3; do worker w$i && w[$i]=$pid; done
    eventually '[ "$(events log durable)" -ge 2 ]'
    kill -9 ${w[@]}
    seen log lost 3
    for i in 4 5; do worker w$i; done
    more_steps log
    stops_right log
}

@test "kills and notices at random times, one after the other, same final bits" {
    RANDOM=7
    unset SPOT_PACE # kills come in the midst of things
    train log --steps 100000 --grid 2x2 --durable-every 0.1s
    local -A alive=()
    for i in 1 2 3 4 5; do worker n$i && alive[$pid]=1; done
    at_step log 5
    churn 6 $(size 35 20) 0.0 8
    more_steps log
    [ "$(events log lost)" -ge $(size 5 3) ]
    [ "$(events log left)" -ge $(size 3 2) ]
    stops_right log
}

@test "a worker that stalls without dying is given up within its lease, and comes back" {
    train log --steps 100000 --lease 2s
    worker w1
    worker w2 && w2=$pid
    eventually 'grep -q "\"D\":2" log'
    kill -STOP $w2
    gave_up log w2 lease
    more_steps log
    kill -CONT $w2
    eventually '[ "$(grep -c "\"joined\".*\"name\":\"w2\"" log)" = 2 ]'
    stops_right log
}

@test "a spare that idles for longer than the time of a stall is no stalled worker" {
    SPOT_TEST_STALL_S=4 train log --steps 100000 --grid 1x1
    worker w1 && w1=$pid
    at_step log 3
    worker w2
    seen log joined 2
    passes 5
    kill -TERM $w1
    wait $w1 || true
    more_steps log
    [ "$(events log lost)" -eq 0 ]
    [ "$(events log joined)" -eq 2 ]
}

@test "SIGTERM of the coordinator, even while it writes, is 75 and --resume gives the same bits" {
    local status done
    mkdir st
    for more in 1 20 35 50; do
        done=$(events log committed)
        train log --steps 1000000 --workers 2 --state st --durable-every 0.01s --resume
        eventually '[ "$(events log committed)" -ge $((${done:-0} + more)) ]'
        kill -TERM $train
        wait $train && status=0 || status=$?
        [ "$status" -eq 75 ]
    done
    local steps=$(($(events log committed) + 50))
    train log --steps $steps --workers 3 --state st --resume
    wait $train
    [ "$(events log rolled_back)" -eq 0 ] # a stop loses nothing
    same_as log $steps
}

@test "local workers are started anew though another program was installed in their place" {
    cp "$(command -v spot-run)" program
    background timeout 300 ./program train -q --data corpus $MODEL --global-batch 5 --steps 100000 --workers 2 \
        --events log 2>log.err
    train=$pid
    at_step log 20
    printf '#!/bin/sh\nexit 127\n' >other
    chmod +x other
    mv other program
    for k in 1 2 3 4; do
        n=$(events log joined)
        kill -9 $(pgrep -P $(pgrep -P $train) | head -n 1)
        eventually '[ "$(events log joined)" -gt '$n' ]'
        at_step log $(($(events log committed) + 3))
    done
    stops_right log
}

@test "a local worker that is killed soon after each start, beside one that works, does not end the job" {
    background timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 100000 --workers 2 \
        --events log 2>log.err
    train=$pid
    at_step log 20
    for k in 1 2 3; do
        n=$(events log joined)
        kill -9 "$(pgrep -n -P "$(pgrep -P $train)")" # the newest
        eventually '[ "$(events log joined)" -gt '"$n"' ]'
        at_step log $(($(events log committed) + 3))
    done
    stops_right log
}

# tier: check
@test "kill -9 of the coordinator: workers wait with their memory, --resume goes on from there" {
    train log --steps 100000 --state st --durable-every 1h
    worker w1
    worker w2
    for k in 1 2 3; do
        at_step log $((k * 60))
        kill_job
        train log --steps 100000 --state st --durable-every 1h --resume
    done
    more_steps log
    # the disk has nothing, the workers have it all; but for a step that was in the log and not yet told
    jq -es 'map(select(.event == "rolled_back") | .from - .to) | all(. <= 1)' log
    stops_right log
}

sockets() { # PID
    ls -l /proc/"$1"/fd | grep -o 'socket:.*' | sort
}

@test "a coordinator that stood still: workers come back, at the sockets that they had" {
    train log --steps 1000000 --grid 1x3 --lease 2s
    for i in 1 2 3; do worker w$i && w[$i]=$pid; done
    at_step log 5
    coordinator=$(pgrep -P $train)
    kill -STOP "$coordinator"
    for i in 1 2 3; do had[$i]=$(sockets ${w[$i]}); done
    for i in 1 2 3; do # they wait for five leases, then they hang up and ask again
        eventually '[ "$(sockets ${w[$i]})" != "${had[$i]}" ]'
    done
    kill -CONT "$coordinator"
    eventually '[ "$(events log joined)" -ge 6 ]'
    step=$(jq -s 'map(select(.event == "committed")) | length' log)
    at_step log $((step + 20))
    [ "$(ls j.* | wc -l)" -eq 3 ]
    [ "$(events log quiesce)" -le 20 ]
    stops_right log
}

@test "a local worker that crashes each time is started again ever more rarely, and the other one trains" {
    local k crashed
    SPOT_PACE_MS=20 VERBOSE='' train log --steps 1000000 --workers 2
    for k in 1 2; do
        seen log joined $((1 + k))
        MORE=60 more_steps log # it has lived for a second, and was of use
        crashed=$(pgrep -P "$(pgrep -P $train)" -f 'name local-1 ')
        kill -SEGV "$crashed"
    done
    eventually 'grep -q "local worker 1 died 2 times in a row at its start, the last time by signal 11: it is restarted in 1 s" log.err'
    seen log joined 4
    stops_right log
}

@test "local workers and their directory end with a coordinator that is killed" {
    mkdir tmp
    TMPDIR=$PWD/tmp background spot-run train -q --data corpus $MODEL --steps 1000000 --workers 2 --events log
    at_step log 5
    workers=$(pgrep -P $pid)
    [ "$(ls tmp/spot-run-*/job* | wc -l)" -eq 3 ]
    kill -9 $pid
    for worker in $workers; do eventually "! kill -0 $worker"; done
    [ -z "$(ls -d tmp/spot-run-* 2>/dev/null)" ]
}

@test "what a job left whose processes were all killed goes when the next one starts" {
    mkdir tmp
    TMPDIR=$PWD/tmp background spot-run train -q --data corpus $MODEL --steps 1000000 --workers 2 --events log
    at_step log 5
    kill -STOP $pid # before it can start another worker
    kill -9 $(pgrep -P $pid) $pid
    wait $pid || true
    left=$(ls -d tmp/spot-run-*)
    mkdir tmp/spot-run-abcdef tmp/spot-run-fedcba
    touch tmp/spot-run-fedcba/theirs
    touch -d '-2 minutes' tmp/spot-run-*
    TMPDIR=$PWD/tmp spot-run train -q --data corpus $MODEL --steps 1 --events next
    [ ! -e $left ]
    [ ! -e tmp/spot-run-abcdef ]
    [ -e tmp/spot-run-fedcba/theirs ]
}

@test "the socket of a worker that is killed goes, by whatever name it found the job" {
    train log --steps 100000 --grid 1x1
    worker w1
    at_step log 5
    for name in j ./j $PWD/j; do
        background spot-run worker -q --join unix:$name --name other
        eventually "[ -S j.$pid ]"
        eventually "spot-run status --join unix:j | grep -q '\"other\"'"
        kill -9 $pid
        eventually "[ ! -e j.$pid ]"
    done
    stops_right log
}

@test "sockets of workers that were killed while no coordinator was there go with the next one" {
    train log --steps 100000 --state st
    worker w1
    at_step log 5
    kill -STOP $pid
    kill -9 $(pgrep -P $train)
    kill -9 $pid
    touch -d '-11 seconds' j.$pid
    wait $train || true
    train log --steps 100000 --state st --resume
    eventually "[ ! -e j.$pid ]"
}

@test "coordinator and all workers killed: a cold start from the disk, same final bits" {
    mkdir st
    for k in 1 2 3; do
        train log --steps 100000 --workers 3 --grid 1x3 --state st --durable-every 0.02s --resume
        eventually '[ "$(events log durable)" -ge $((3 * k)) ]'
        kill_job
    done
    local steps=$(($(jq -s 'map(select(.event == "committed").step) | max' log) + 20))
    train log --steps $steps --workers 2 --state st --resume
    wait $train
    same_as log $steps
    [ -z "$(ls st | grep tmp || true)" ]
    [ "$(ls -d st/gen-* | wc -l)" -le 2 ]
}

flip() { # FILE OFFSET: every bit of one byte
    local byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %02x $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

@test "a cold start of four replicas does not take the memory of four states" {
    [[ "$(command -v spot-run)" == */release/* ]] || skip "a sanitizer keeps what was freed"
    local large="--data corpus --layers 2 --width 768 --heads 12 --seq 8 --global-batch 4 --state st"
    local state peak
    spot-run train -q $large --steps 1 --events one
    state=$(du -sk st | cut -f 1)
    background spot-run train -q $large --resume --steps 100000 --workers 4 --grid 4x1 --events log
    eventually '[ "$(events log formed)" = 1 ]'
    peak=$(awk '/^VmHWM/ { print $2 }' /proc/$pid/status)
    echo "state $state kB, peak $peak kB"
    [ "$peak" -gt 0 ] && [ "$peak" -lt $((2 * state)) ]
}

@test "a damaged newest generation is set aside, said so, and the one before goes on" {
    train log --steps 100000 --workers 1 --state st --durable-every 0.02s
    eventually '[ "$(events log durable)" -ge 3 ]'
    kill -TERM $train
    wait $train || true
    local newest=$(ls -d st/gen-* | tail -n 1)
    [ "$(ls -d st/gen-* | wc -l)" -eq 2 ]
    flip $newest/bundle-0001 1000
    local step=$(jq .step $newest/manifest.json)
    timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --steps $((step + 5)) --state st \
        --resume --events log 2>talk
    grep -q "is damaged" talk
    grep -q "set aside" talk
    [ -d $newest.bad ]
    same_as log $((step + 5))
}

@test "a generation that is damaged while the job runs is set aside when it is needed" {
    SPOT_TEST_BUDDIES=0 train log --steps 100000 --state st --durable-every 0.02s
    worker w1 && w1=$pid
    eventually '[ "$(events log durable)" -ge 3 ]'
    kill -STOP $w1 # no further generation begins
    settled 'ls st'
    local newest=$(ls -d st/gen-* | grep -v '\.tmp$' | tail -n 1) # the worker may have begun another one
    flip $newest/bundle-0002 5000
    kill -9 $w1
    worker w2
    eventually '[ "$(events log rolled_back)" = 1 ]'
    [ -d $newest.bad ]
    at_step log $(($(jq -s 'map(select(.event == "committed").step) | max' log) + 5))
    stops_right log
}

@test "the state of another job is refused, and kept; so is one that is in use" {
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 5 --state st --events log
    find st -type f -exec md5sum {} + | sort >before
    for other in "--seed 2" "--beta1 0.5" "--layers 3" "--global-batch 10" "--device portable"; do
        run --separate-stderr timeout 60 spot-run train --data corpus $MODEL --global-batch 5 $other \
            --steps 9 --state st --resume --events other
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"'st'"* ]]
    done
    run --separate-stderr timeout 60 spot-run train --data corpus $MODEL --global-batch 5 --steps 9 --state st
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--resume"* ]]
    find st -type f -exec md5sum {} + | sort >after
    cmp before after
    train busy --steps 100000 --workers 1 --state st --resume
    eventually '[ "$(events busy committed)" -ge 1 ]'
    run --separate-stderr timeout 60 spot-run train --data corpus $MODEL --global-batch 5 --steps 9 \
        --state st --resume
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"'st'"* ]]
}

@test "a worker that waits for its coordinator takes up another job with nothing of the old one" {
    train log --steps 100000
    worker w1
    at_step log 5
    kill_job
    train other --steps 30 --seed 9
    wait $train
    same_as other 30 --seed 9
}

plan() { # D P [MORE]: a plan on standard output
    local time=${3:-0}
    printf '{"schema":"spot.plan/1","kind":"train","job":"x","time_s":%s,"next":{"D":%s,"P":%s,"M":1,"B":1}%s}\n' \
        "$time" "$1" "$2" "${4:-}"
}

@test "replan changes the grid; stale plans are refused with 1, malformed ones with 3" {
    train log --steps 100000
    for i in 1 2 3 4; do worker w$i; done
    eventually 'grep -q "\"D\":4,\"P\":1" log'
    plan 2 2 100 | spot-run replan --join unix:j -
    eventually 'grep -q "\"D\":2,\"P\":2" log'
    run --separate-stderr sh -c "$(declare -f plan); plan 4 1 50 | spot-run replan --join unix:j -"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"--force"* ]]
    # made by hand, so of time 0: taken when it is forced, and lets nothing older in after it
    plan 4 1 | spot-run replan --join unix:j --force -
    eventually '[ "$(grep -c "\"D\":4,\"P\":1" log)" = 2 ]'
    run sh -c "$(declare -f plan); plan 2 2 99 | spot-run replan --join unix:j -"
    [ "$status" -eq 1 ]
    plan 2 2 100 | spot-run replan --join unix:j -
    eventually '[ "$(grep -c "\"D\":2,\"P\":2" log)" = 2 ]'
    plan 4 1 200 ',"epoch":0' >old.json
    run --separate-stderr spot-run replan --join unix:j old.json
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"for epoch 0"* ]]
    run spot-run replan --join unix:j --force old.json # the grid it was made for is gone all the same
    [ "$status" -eq 1 ]
    for bad in '' '{' '[]' '{"schema":"spot.plan/2"}' '{"schema":"spot.plan/1","next":{"D":"x"}}'; do
        printf '%s' "$bad" >bad.json
        run --separate-stderr spot-run replan --join unix:j bad.json
        [ "$status" -eq 3 ] || { echo "'$bad' gave $status $stderr" >&2; false; }
    done
    head -c 2000000 /dev/zero >bad.json
    run --separate-stderr spot-run replan --join unix:j bad.json
    [ "$status" -eq 3 ]
    [ "$(spot-run status --join unix:j | jq -c '[.D, .P]')" = '[2,2]' ]
    stops_right log
}

@test "a plan file is read again when it is replaced, and on SIGHUP; a bad one is warned of" {
    plan 1 2 >plan.json
    background timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j \
        --events log --steps 100000 --plan plan.json 2>log.err
    train=$pid
    for i in 1 2; do worker w$i; done
    eventually 'grep -q "\"D\":1,\"P\":2" log'
    plan 2 1 10 >next.json && mv next.json plan.json
    eventually 'grep -q "\"D\":2,\"P\":1" log'
    echo '{"schema":' >plan.json
    eventually 'grep -q "plan in force stays" log.err'
    plan 1 2 20 >plan.json
    kill -HUP $(pgrep -P $train)
    eventually '[ "$(grep -c "\"D\":1,\"P\":2" log)" = 2 ]'
    # the file's times are of a trace, those of replan of the job: one is not older than the other
    plan 2 1 3 | spot-run replan --join unix:j -
    eventually '[ "$(grep -c "\"D\":2,\"P\":1" log)" = 2 ]'
    stops_right log
}

@test "status tells members, pace and what happened lately, as JSON and as a table" {
    train log --steps 100000 --grid 1x2
    worker w1
    worker w2 && w2=$pid
    at_step log 20
    kill -9 $w2
    worker w3
    eventually '[ "$(events log formed)" -ge 2 ] && grep -q "\"joined\".*\"w3\"" log'
    at_step log $(($(events log committed) + 50))
    spot-run status --join unix:j --format json >status
    jq -r -L "$BATS_TEST_DIRNAME/../lint" --slurpfile schema "$BATS_TEST_DIRNAME/../../docs/schema/status.json" \
        'include "schema"; faults($schema[0]; "")' status >wrong
    [ ! -s wrong ] || { cat wrong >&2; false; }
    jq -e '.step > 20 and .tokens_per_s > 0 and .eta_s > 0 and (.members | map(.name) | sort) == ["w1", "w3"]
        and (.events | length) == 10 and all(.events[]; .event != "step" and .event != "committed")
        and any(.events[]; .event == "joined" and .name == "w3")' status
    spot-run status --join unix:j --format table >table
    grep -q "tokens/s  ETA" table
    grep -Eq "^ *[0-9.]+ +joined +[0-9]+ +[0-9]+ +w3" table
    stops_right log
}
