#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run serve --events: what a served run did can be told afterwards, from its log alone.

bats_require_minimum_version 1.5.0

load eventually

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 128 --steps 5 \
        --save model >train.log
    for i in $(seq 40); do
        printf '{"custom_id":"r%d","url":"/v1/completions","body":{"model":"model","prompt":"the %d. line of","max_tokens":%d,"temperature":0.9,"seed":%d,"n":%d}}\n' \
            "$i" "$i" $((30 + i)) "$i" $((1 + i % 3))
    done >in.jsonl
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    ln -s "$BATS_FILE_TMPDIR/model" "$BATS_FILE_TMPDIR/in.jsonl" .
    pids=
    set -o pipefail
    export BATS_TEST_TIMEOUT=300
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

worker() { # name: one that takes its time, where $SPOT_PACE is set; a batch has a middle on any machine then
    ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE" SPOT_PACE_SEND_MS=${send_ms-0}} \
        spot-run worker -q --join unix:j --name "$1" --join-timeout 60s 3>&- &
    newest=$!
    pids="$pids $newest"
}

serve() {
    spot-run serve -q --model model --listen unix:j --events log --grace 5s --lease 20s "$@" 3>&- &
    server=$!
    pids="$pids $server"
}

count() { # EVENT: lines of the log
    [ ! -e log ] && echo 0 || grep -c "\"event\":\"$1\"" log || true
}

until_count() { # EVENT N
    for _ in $(seq 2400); do
        [ "$(count "$1")" -lt "$2" ] || return 0
        sleep 0.05
    done
    return 1
}

until_status() { # FILTER
    for _ in $(seq 1200); do
        ! spot-run status --join unix:j --format json | jq -e "$1" || return 0
        sleep 0.05
    done
    return 1
}

answers() { # [OPTION]: somebody does
    for _ in $(seq 2400); do
        ! curl -s "$@" -o /dev/null --unix-socket h http://x/health || return 0
        kill -0 "$server"
        sleep 0.05
    done
    return 1
}

report() { # FILTER
    spot-run report --format json log | jq -e "$1"
}

@test "requests, tokens and preemptions are those that were, and no token has a line" {
    serve --batch in.jsonl -o out --max-batch 2
    send_ms=5
    worker a
    a=$newest
    worker b
    b=$newest
    until_count request 3
    kill -9 "$a"
    until_count lost 1
    worker c
    until_count joined 3
    kill -TERM "$b"
    wait "$server"
    tokens=$(jq -s 'map(.response.body.usage.completion_tokens) | add' out)
    report ".requests == 40 and .finished == 40 and .cancelled == 0 and .tokens >= $tokens"
    jq -se "map(select(.event == \"request\").output_tokens) | add == $tokens" log
    # their ids are those of the answers, each once
    jq -r 'select(.event == "request").id' log | sort >ids
    jq -r .response.body.id out | sort | cmp - ids
    report '.notices == 1 and .kills == 1 and .joins == 3 and .coordinator_restarts == 0'
    report '.ttft_p50_s <= .ttft_p99_s and .ttft_p99_s <= .e2e_p99_s and .queue_p50_s <= .ttft_p50_s'
    [ "$(wc -l <log)" -lt 100 ] # of 2,500 tokens
}

@test "another coordinator goes on in the log, and what it took over is told once" {
    mkdir st
    serve --http unix:h --state st
    worker a
    a=$newest
    answers -f
    curl -fs --unix-socket h http://x/v1/completions -d '{"model":"model","prompt":"a","max_tokens":9}' >/dev/null
    until_count request 1
    # one that cannot end: its worker stands still
    kill -STOP "$a"
    curl -sN --unix-socket h http://x/v1/completions -d '{"model":"model","prompt":"the 1","max_tokens":90,"stream":true}' >stream &
    pids="$pids $!"
    until_status '.running + .queued == 1'
    kill -9 "$server" "$a"
    wait "$server" || true
    serve --http unix:h --state st --resume
    worker b
    until_count request 2
    jq -se 'map(select(.event == "request")) | map(.resumed // false) == [false, true]' log
    curl -fs --unix-socket h http://x/v1/completions -d '{"model":"model","prompt":"b","max_tokens":9}' >/dev/null
    until_count request 3
    kill "$server"
    wait "$server"
    report '.requests == 3 and .finished == 3 and .coordinator_restarts == 1'
    [ "$(jq -r 'select(.event == "request").id' log | sort | uniq -d)" = "" ]
    jq -se 'map(select(.event == "quiesce").epoch) | . == (unique | sort)' log # none is used again
}

@test "who gave up and who was turned away is counted" {
    serve --http unix:h --queue 1
    answers
    curl -s --unix-socket h http://x/v1/completions -d '{"model":"model","prompt":"a","max_tokens":9}' >/dev/null &
    client=$!
    until_status '.queued == 1'
    [ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket h http://x/v1/completions -d '{"model":"model","prompt":"a","max_tokens":9}')" = 429 ]
    kill "$client"
    until_count request 1
    kill "$server"
    wait "$server"
    report '.requests == 1 and .cancelled == 1 and .refused == 1 and .tokens == 0 and (has("ttft_p50_s") | not)'
    # nothing of it can be replayed
    run -3 spot-replay import --from spot-serve log
    [[ "$output" == *"1 request without tokens"* ]]
}

@test "a served run is drawn, priced and replayed, and has no reference" {
    serve --batch in.jsonl -o out
    worker a
    wait "$server"
    spot-run report --plot run.gp -o report.json --usd-per-h 0.9:3 log
    grep -q "Choices in flight" run.gp
    jq -e '.machine_h > 0 and .spot_usd < .on_demand_usd' report.json
    run -2 spot-run report --reference log log
    [[ "$output" == *"is the log of a server"* ]]
    spot-replay import --from spot-serve log >load.csv
    [ "$(wc -l <load.csv)" = 81 ] # 13 of one choice, 14 of two, 13 of three
    spot-replay import --from spot-event log >trace.csv
    spot-replay describe --kind load --format json load.csv | jq -e '.requests == 80'
    spot-predict -q --interval 1s --horizon 2 --cap 2 --model last trace.csv >/dev/null
    # a line that is left out is missed
    for line in 2 3; do
        sed "${line}d" log >less
        run -3 spot-run report less
        [[ "$output" == *"less:"* ]]
    done
}
