#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock
# spot-replay live: copies follow the trace, leave as told, and never outlive the replay.

bats_require_minimum_version 1.5.0
load eventually

setup() {
    cd "$BATS_TEST_TMPDIR"
    printf '%s\n' time_s,available,zone 0,4,a 60,2,a 120,5,a 180,1,a 240,1,a >trace.csv
    printf '%s\n' time_s,available 0,2 1000000,2 >steady.csv
    # Polite: leaves on the notice. Deaf: ignores it, its child too.
    printf '%s\n' 'trap "exit 0" TERM' 'echo "hello $SPOT_NODE $SPOT_ZONE $1"' \
        'while :; do sleep 0.05; done' >polite.sh
    printf '%s\n' 'trap "" TERM' 'sleep 1000 & echo $! >>children' 'wait' \
        'while :; do sleep 1; done' >deaf.sh
}

live() { spot-replay live --speedup 240 --grace 5s "$@"; }

# No process of the log or of the file `children` is alive.
nothing_left() {
    for pid in $(jq -r 'select(.event == "start") | .pid' log.jsonl) $(cat children 2>/dev/null); do
        eventually "! kill -0 $pid 2>/dev/null" || return 1
    done
}

# tier: check
@test "live keeps as many copies as the trace offers" {
    live --trace trace.csv --events log.jsonl -- sh polite.sh 2>talk
    # members after each change of the trace, from starts and leaves alone
    run jq -rs 'map(select(.event == "start" or (.event == "notice" and .why == "trace")
        or .why == "no_notice")) | group_by(.time_s)
        | map([.[0].time_s, (map(if .event == "start" then 1 else -1 end) | add)] | join(" "))[]' log.jsonl
    [ "$output" = "0 4
60 -2
120 3
180 -4" ]
    # left on the notice: by the trap, or before the shell had set it
    [ "$(jq -s '[.[] | select(.event == "exit" and (.status == 0 or .signal == 15))] | length' log.jsonl)" -eq 7 ]
    [ "$(jq -s 'last | .starts == 7 and .notices == 7 and .kills == 0 and .exits == 7' log.jsonl)" = true ]
    nothing_left
}

@test "live divides by --scale and stays below --max" {
    live --trace trace.csv --scale 2 --events log.jsonl -- sh polite.sh 2>/dev/null
    [ "$(jq -s 'last.starts' log.jsonl)" -eq 3 ]
    live --trace trace.csv --max 2 --events log.jsonl -- sh polite.sh 2>talk
    [ "$(jq -s 'last.starts' log.jsonl)" -eq 2 ]
    grep -q 'offers more than --max 2 copies' talk
}

@test "live plays the part from --from to --to" {
    live --trace trace.csv --from 100 --to 130 --events log.jsonl -- sh polite.sh 2>/dev/null
    [ "$(jq -c -s 'map(select(.event == "start").time_s)' log.jsonl)" = '[100,100,120,120,120]' ]
}

@test "live keeps stdout for events and hands names to the copies" {
    live --trace trace.csv --speedup 15 --to 30 --scale 4 -- sh polite.sh 'a{node}b{zone}{x}' >log.jsonl 2>talk
    jq -es 'all(.event != null) and (first.schema == "spot.event/1")' log.jsonl
    grep -qx 'hello node1 a anode1ba{x}' talk
}

@test "a copy that ignores the notice is killed after the grace, with its children" {
    live --trace trace.csv --to 61 --speedup 50 --grace 0.3s --events log.jsonl -- sh deaf.sh
    [ "$(jq -s 'map(select(.event == "kill" and .why == "grace_over")) | length' log.jsonl)" -eq 4 ]
    [ "$(jq -s 'all(.event != "exit" or .signal == 9)' log.jsonl)" = true ]
    [ "$(wc -l <children)" -eq 4 ]
    nothing_left
}

@test "--no-notice 1 kills at once whoever the trace takes" {
    live --trace trace.csv --no-notice 1 --events log.jsonl -- sh polite.sh 2>/dev/null
    [ "$(jq -s 'map(select(.event == "notice" and .why == "trace")) | length' log.jsonl)" -eq 0 ]
    [ "$(jq -s 'map(select(.why == "no_notice")) | length' log.jsonl)" -eq 6 ]
}

@test "who leaves, and how, is a function of the seed" {
    for seed in 1 1 2 3 4; do
        live --trace trace.csv --no-notice 0.5 --seed $seed --speedup 2400 --events log.jsonl -- \
            sh polite.sh 2>/dev/null
        jq -c 'select(.why == "trace" or .why == "no_notice") | [.event, .node, .time_s]' \
            log.jsonl | md5sum >>sums
    done
    [ "$(sed -n 1p sums)" = "$(sed -n 2p sums)" ]
    [ "$(sort -u sums | wc -l)" -gt 1 ]
}

@test "an event trace takes away the very nodes it names" {
    printf '%s\n' time_s,event,node 0,add,x 0,add,y 60,notice,y 70,remove,y 80,add,z 90,remove,x \
        120,remove,z >events.csv
    live --trace events.csv --events log.jsonl -- sh polite.sh 2>/dev/null
    [ "$(jq -c -s 'map(select(.why == "trace") | [.node, .time_s])' log.jsonl)" = \
        '[["y",60],["x",90],["z",120]]' ]
    [ "$(jq -c -s 'map(select(.event == "start").node)' log.jsonl)" = '["x","y","z"]' ]
}

@test "a copy that crashes is started again, ever more slowly" {
    live --trace steady.csv --to 480 --events log.jsonl -- sh -c 'exit 3'
    [ "$(jq -s 'map(select(.event == "exit" and .status == 3)) | length > 3' log.jsonl)" = true ]
    # pauses of 0.1, 0.2, 0.4, 0.8 s fit into 2 s: at most 5 starts of each of the two
    [ "$(jq -s 'last.starts <= 10' log.jsonl)" = true ]
    [ "$(jq -c -s 'map(select(.node == "node1" and .event == "start").attempt)[:3]' log.jsonl)" = '[1,2,3]' ]
}

@test "SIGTERM ends the replay cleanly" {
    run timeout --preserve-status 1 spot-replay live --trace steady.csv --events log.jsonl -- sh polite.sh
    [ "$status" -eq 0 ]
    [ "$(jq -s 'last.why' log.jsonl)" = '"signal"' ]
    [ "$(jq -s 'map(select(.event == "notice" and .why == "signal")) | length' log.jsonl)" -eq 2 ]
    nothing_left
}

@test "SIGINT ends it too, with the status of an interrupted program" {
    run timeout --preserve-status -s INT 1 spot-replay live --trace steady.csv --events log.jsonl -- sh polite.sh
    [ "$status" -eq 130 ]
    nothing_left
}

@test "a second signal does not wait for the grace" {
    spot-replay live --trace steady.csv --grace 1h --events log.jsonl -- sh deaf.sh 3>&- &
    pid=$!
    eventually '[ "$(wc -l <children 2>/dev/null)" = 2 ]'
    kill $pid
    eventually 'grep -q "\"why\":\"signal\"" log.jsonl'
    kill $pid
    wait $pid
    nothing_left
}

@test "a trace comes from stdin, copies do not" {
    live --trace - --to 30 --speedup 15 -- sh -c 'cat; echo "end of input"' <trace.csv 2>talk >log.jsonl
    grep -qx 'end of input' talk
    run ! grep -q time_s talk
}

@test "kill -9 of the replay leaves no process behind" {
    spot-replay live --trace steady.csv --events log.jsonl -- sh deaf.sh 3>&- &
    pid=$!
    eventually '[ "$(wc -l <children 2>/dev/null)" = 2 ]'
    kill -9 $pid
    wait $pid || true
    nothing_left
}

@test "a descendant in a session of its own is found at the end" {
    printf '%s\n' 'setsid sh -c "trap \"\" TERM; echo \$\$ >>children; exec sleep 1000" &' \
        'trap "exit 0" TERM' 'while :; do sleep 0.05; done' >escape.sh
    live --trace steady.csv --to 480 --events log.jsonl -- sh escape.sh
    [ "$(wc -l <children)" -eq 2 ]
    nothing_left
}

@test "children that somebody else left us stay alive" {
    sh -c 'sleep 1000 3>&- & echo $! >pid; exec spot-replay live --trace steady.csv --to 60 -- sleep 9' >log.jsonl
    kill -0 "$(cat pid)"
    kill "$(cat pid)"
    nothing_left
}

@test "a log that cannot be written stops everything with status 4" {
    run --separate-stderr live --trace steady.csv --events /dev/full -- sh polite.sh
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"cannot write output: No space left on device"* ]]
    run --separate-stderr live --trace steady.csv --events no/such/file -- sh polite.sh
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"'no/such/file'"* ]]
    run sh -c 'spot-replay live --trace steady.csv -- sh polite.sh >&-'
    [ "$status" -eq 4 ]
}

@test "a reader that goes away ends the replay and its copies" {
    printf '%s\n' time_s,available 0,1 60,2 120,3 10000,3 >rising.csv
    spot-replay live --trace rising.csv --speedup 240 -- sh deaf.sh | head -n 2 >log.jsonl
    nothing_left
}

@test "a command that is not there is named, status 4" {
    run --separate-stderr live --trace steady.csv -- ./no-such-program
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"'./no-such-program'"* ]]
}

@test "live refuses wrong usage, wrong traces and empty windows" {
    run live -- true
    [ "$status" -eq 2 ]
    run live --trace steady.csv
    [ "$status" -eq 2 ]
    run live --trace steady.csv --no-notice 2 -- true
    [ "$status" -eq 2 ]
    printf 'time_s,available\n0,x\n' >bad.csv
    run --separate-stderr live --trace bad.csv -- true
    [ "$status" -eq 3 ]
    [[ "$stderr" == *"bad.csv:2:3:"* ]]
    run live --trace trace.csv --from 9999 -- true
    [ "$status" -eq 1 ]
    run live --trace none.csv -- true
    [ "$status" -eq 4 ]
}
