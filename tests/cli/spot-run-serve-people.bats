#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run serve, as people see it: status, metrics and the page.

load eventually
set -o pipefail # what feeds jq -e must succeed, too

setup_file() {
    command -v curl >/dev/null || { export MISSING="no curl here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 384 --global-batch 2 --steps 10 --save model >train.log
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_TEST_TMPDIR" || return 1
    pids=
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

get() { # PATH [OPTION...]
    curl -s --max-time 60 --unix-socket s "http://x$1" "${@:2}"
}

worker() { # NAME
    spot-run worker -q --join unix:j --name "$1" --join-timeout 60s 3>&- 2>/dev/null &
    pids="$pids $!"
}

begin() {
    spot-run serve -q --model "$BATS_FILE_TMPDIR/model" --http "${1-unix:s}" --listen unix:j --lease 20s 2>serve.err 3>&- &
    pids="$!"
    worker w1
    first=${pids##* }
    worker w2
    eventually 'spot-run status --join unix:j --format json | jq -e ".replicas == 2"'
}

body='{"model":"model","prompt":"the 5. line","max_tokens":300,"stream":true,"ignore_eos":true}'

@test "status tells of replicas, load, tokens/s and times" {
    begin
    get /v1/completions -d "$body" >told
    # what is published is a little behind
    eventually 'spot-run status --join unix:j --format table | grep "1 requests, 300 tokens"'
    run spot-run status --join unix:j --format table
    [ "$status" = 0 ]
    [[ "$output" == *"2 replicas"*"tokens/s"*"cache"*"1 requests, 300 tokens"*"first token"*P99* ]]
    spot-run status --join unix:j --format json | jq -e '.ttft_p50_s > 0 and .between_p99_s > 0 and
        .whole_p50_s >= .ttft_p50_s and .kv_use >= 0 and (.members | all(has("name")))'
}

# Each family has its type before its samples; buckets grow, the last is the count; no name twice.
well_formed() {
    awk '/^# TYPE/ { if (type[$3]++) { print "twice: " $3; bad = 1 } kind[$3] = $4; next } /^#/ { next }
        { name = $1; sub(/\{.*/, "", name); family = name
          if (!(family in kind)) sub(/_(bucket|sum|count)$/, "", family)
          if (!(family in kind) || $2 !~ /^[0-9.e+-]+$/ || seen[$1]++) { print "wrong: " $0; bad = 1 }
          if (name ~ /_bucket$/) { if ($2 + 0 < last[family] + 0) { print "falls: " $0; bad = 1 } last[family] = $2 }
          if (name ~ /_count$/ && $2 != last[family]) { print "not the count: " $0; bad = 1 } }
        END { exit bad }' "$1"
    ! command -v promtool >/dev/null || promtool check metrics <"$1"
}

@test "metrics are what Prometheus reads, and count each token" {
    begin
    get /v1/completions -d "$body" >told
    kill -9 "$first"
    eventually 'get /metrics | grep "^spot_serve_preemptions_total 1"'
    get /metrics >metrics
    well_formed metrics
    for name in $(awk '/^# TYPE/ { print $3 }' metrics); do
        grep -q "^| .*\`$name\`.* |" "$BATS_TEST_DIRNAME"/../../docs/formats/{serve,metrics}.md || { echo "not told of: $name" && false; }
    done
    grep -q '^spot_serve_tokens_total 300' metrics
    grep -q '^spot_serve_first_token_seconds_count 1$' metrics
    grep -q '^spot_serve_between_tokens_seconds_count 299$' metrics
    grep -q '^spot_serve_request_seconds_count 1$' metrics
    grep -q '^spot_serve_queue_seconds_count 1$' metrics
}

@test "who computed a token is told to whom asks for it, and to nobody else" {
    begin
    get /v1/completions -d "$body" >told
    if grep -q '"spot":' told; then false; fi
    get /v1/completions -d "$body" -H 'X-Spot-Worker: 1' | grep '"spot":{"worker":"w[12]"'
}

@test "the page has all that it needs in itself, and a policy that lets nothing else in" {
    begin
    get / -i >page
    grep -q '^HTTP/1.1 200' page
    nonce=$(sed -nE "s/^Content-Security-Policy: default-src 'none'; script-src 'nonce-([0-9a-f]{32})';.*/\1/p" page)
    [ "$(grep -c "nonce=\"$nonce\"" page)" = 2 ]
    if grep -qE '@NONCE@|src=|href=|@import|url\(|https?://' page; then false; fi
    [ "$nonce" != "$(get / -i | sed -nE "s/.*script-src 'nonce-([0-9a-f]+)'.*/\1/p")" ]
    # what is published is a little behind
    eventually 'get /status | jq -e "[.workers[].name] | sort == [\"w1\", \"w2\"]"'
}
