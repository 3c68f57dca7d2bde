#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a training job tells who looks on: over HTTP, on a page in a browser.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

ask() { # PATH: what the job answers at unix:m
    curl -s --max-time 20 --unix-socket m "http://localhost/$1"
}

value() { # SAMPLE: its value in the file `metrics`, as /metrics has it
    awk -v sample="$1" '$1 == sample { print $2 }' metrics
}

fetch() { # of one moment
    ask metrics >metrics
}

# The metrics of a job that was preempted both ways, as /metrics told them and as its log counts them.
@test "metrics are those that the log and the status tell, and are named in the documentation" {
    train log --steps 100000 --grid 2x1 --metrics unix:m --state state
    worker amber
    amber=$pid
    worker blue
    blue=$pid
    worker coral
    coral=$pid
    at_step log 5
    kill -9 "$(pgrep -P "$blue" || echo "$blue")"
    eventually 'fetch && [ "$(value "spot_preemptions_total{kind=\"kill\"}")" = 1 ]'
    kill -TERM "$coral"
    worker dune
    dune=$pid
    eventually 'fetch && [ "$(value "spot_preemptions_total{kind=\"notice\"}")" = 1 ] && [ "$(value "spot_joins_total")" = 4 ]'
    eventually 'fetch && [ "$(value "spot_members{role=\"active\"}")" = 2 ] && [ "$(value "spot_train_grid{axis=\"D\"}")" = 2 ]'
    at=$(grep -c '"event":"committed"' log)
    eventually 'fetch && [ "$(value spot_train_step)" -gt '"$at"' ] && [ "$(value spot_train_durable_step)" -ge 1 ]'

    # the very document that the command prints, at another moment
    ask status.json >page.json
    spot-run status --join unix:j --format json >cli.json
    diff <(jq -c 'paths(scalars) | map(numbers |= 0)' page.json | grep -v events | sort -u) \
        <(jq -c 'paths(scalars) | map(numbers |= 0)' cli.json | grep -v events | sort -u)
    # nobody has looked at it: the first one may be some seconds old
    eventually 'ask history.json >past.json && jq -e "(.points | length) > 5 and (.pauses | map(.[3]) | index(\"kill\"))" past.json'
    jq -e '.points | map(.[1]) | . == sort' past.json

    # whoever reads the log comes to the same numbers: while the workers stand still
    kill -STOP $amber $dune
    same_step() {
        fetch && spot-run report --format json log >report.json && [ "$(value spot_train_step)" = "$(jq .steps report.json)" ]
    }
    eventually same_step
    kill -CONT $amber $dune
    same() { # METRIC KEY; a pause that there was none of has no key
        [ "$(value "$1")" = "$(jq ".$2 // 0" report.json)" ] || {
            echo "$1 is $(value "$1"), the log says $(jq ".$2 // 0" report.json)"
            return 1
        }
    }
    same 'spot_preemptions_total{kind="notice"}' notices
    same 'spot_preemptions_total{kind="kill"}' kills
    same spot_joins_total joins
    same spot_train_step steps
    same 'spot_train_pause_seconds_count{cause="notice"}' pause_notice_count
    same 'spot_train_pause_seconds_count{cause="kill"}' pause_kill_count
    same 'spot_train_pause_seconds_count{cause="join"}' pause_join_count
    moved=$(jq -s 'map(select(.event == "migrate").moved_byte) | add' log)
    [ "$(value 'spot_train_moved_bytes_total{from="member"}')" -ge "$moved" ]

    # each metric is in the documentation, and nothing else is
    diff <(sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' metrics | sort) \
        <(grep -oE '`spot_(train_)?[a-z_]+`' "$BATS_TEST_DIRNAME/../../docs/formats/metrics.md" | tr -d '`' | sort -u |
            grep -vx spot_train_validation_loss) # there are no such data here
    kill -TERM $train
    wait $train || true
}

@test "promtool finds no fault with the metrics of a job that trains" {
    command -v promtool >/dev/null || skip "no promtool here (Debian: prometheus)"
    train log --steps 100000 --metrics unix:m
    worker amber
    eventually 'fetch && [ "$(value spot_train_step)" -ge 3 ]'
    run -0 promtool check metrics <metrics
    [ -z "$output" ]
    kill -TERM $train
    wait $train || true
}

@test "promtool finds no fault with the metrics of a server, which tell of its group, too" {
    spot-run train -q --data corpus $MODEL --steps 2 --save model >train.log
    background spot-run serve -q --model model --http unix:m --listen unix:j
    server=$pid
    worker amber
    eventually 'fetch && [ "$(value "spot_members{role=\"active\"}")" = 1 ]'
    [ "$(value spot_joins_total)" = 1 ]
    [ "$(value spot_serve_replicas)" = 1 ]
    kill -TERM $server
    wait $server || true
    command -v promtool >/dev/null || skip "no promtool here (Debian: prometheus)"
    run -0 promtool check metrics <metrics
    [ -z "$output" ]
}

@test "a page in chromium draws the grid, follows a kill, and loads nothing else" {
    command -v chromium >/dev/null || skip "no chromium here"
    command -v python3 >/dev/null || skip "no python3 here"
    background spot-run train --data corpus --layers 4 --width 128 --steps 100000 --listen unix:j --lease 20s --grid 2x1 \
        --metrics 127.0.0.1:0 --events log 2>err
    train=$pid
    worker amber
    amber=$pid
    worker blue
    eventually 'grep -o "http://[0-9.:]*/" err >url'
    at_step log 5
    mkfifo question
    python3 "$BATS_TEST_DIRNAME/../world/browse.py" "$(cat url)" page.png <question >told 3>&- &
    browser=$!
    echo $browser >>pids
    exec 4>question
    said() { # EXPRESSION: its value
        local n
        n=$(wc -l <told)
        echo "$1" >&4
        eventually "[ \$(wc -l <told) -gt $n ]"
        tail -n 1 told
    }
    cells='[...document.querySelectorAll("#grid [data-member]")].map(e => e.dataset.member).sort().join(" ")'
    eventually '[ "$(said "$cells")" = "\"amber blue\"" ]'
    eventually '[ "$(said "document.querySelectorAll(\"svg path.curve\").length")" = 3 ]' # members, steps, loss
    [ "$(said 'document.querySelectorAll("#pauses .dot.kill").length')" = 0 ]
    kill -9 "$(pgrep -P "$amber" || echo "$amber")"
    eventually '[ "$(said "$cells")" = "\"blue\"" ]'
    eventually '[ "$(said "document.querySelectorAll(\"#pauses .dot.kill\").length")" = 1 ]'
    [ "$(said 'document.getElementById("events").innerText.includes("lost amber")')" = true ]
    [ "$(said 'document.getElementById("tiles").innerText.includes("1 kill")')" = true ]
    [ "$(said 'performance.getEntriesByType("resource").every(r => r.name.startsWith(location.origin))')" = true ]
    before=$(said 'document.getElementById("step").textContent')
    eventually '[ "$(said "document.getElementById(\"step\").textContent")" != '"'$before'"' ]'
    exec 4>&-
    wait $browser
    cp page.png "${SPOT_PICTURE:-/dev/null}"
    [ -s page.png ]
    kill -TERM $train
    wait $train || true
}

@test "a job goes on while its metrics are asked for by many at once, and by some who say nothing" {
    command -v python3 >/dev/null || skip "no python3 here"
    train log --steps 100000 --metrics unix:m
    worker amber
    at_step log 2
    background python3 -c '
import socket, time
kept = []
for i in range(300):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(1)
    try:
        s.connect("m")
        s.send([b"", b"GET /status.json HTTP/1.1\r\nHost: x\r\n\r\n", b"GET " + b"x" * 100000][i % 3])
    except OSError:
        pass
    kept.append(s)
time.sleep(60)'
    crowd=$pid
    at=$(grep -c '"event":"committed"' log)
    eventually '[ "$(grep -c "\"event\":\"committed\"" log)" -gt '$((at + 20))' ]'
    kill $crowd
    wait $crowd || true
    eventually 'fetch && [ "$(value spot_train_step)" -gt '$((at + 20))' ]'
    kill -TERM $train
    wait $train || true
    jq -se 'map(select(.event == "lost")) | length == 0' log
}

@test "an address that others reach and a taken one are refused before the job begins" {
    refuses 2 "a reverse proxy" \
        train --data corpus --steps 3 --metrics 0.0.0.0:9100
    refuses 2 "expected a port" train --data corpus --steps 3 --metrics 127.0.0.1:http
    train log --steps 100000 --metrics unix:m
    eventually 'ask metrics | grep -q spot_members'
    refuses 4 "unix:m: Address already in use" train --data corpus --steps 3 --metrics unix:m
    kill -TERM $train
    wait $train || true
    [ ! -e m ]
}
