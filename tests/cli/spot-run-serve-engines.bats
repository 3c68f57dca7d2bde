#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, plain
# spot-run serve --dtype engine: workers whose model is in another program, tests/tool/engine.c, which is as bad as it is told. No request
# fails, and none gets another token than undisturbed.

bats_require_minimum_version 1.5.0

load eventually

setup_file() {
    tests=$(dirname "$(command -v spot-run)")/../tests
    export tests
    [ -e "$tests/engine" ] || export MISSING="make check builds engine and load"
    ldconfig -p | grep -q libcurl.so.4 || export MISSING="no libcurl here"
    [ -z "${MISSING-}" ] || return 0
    cd "$BATS_FILE_TMPDIR" || return 1
    mkdir M
    echo '{"spot_tokens": "bytes", "vocab_size": 257, "eos_token_id": 256, "max_position_embeddings": 4096}' >M/config.json
    for i in $(seq 12); do
        jq -cn --arg i "$i" '{custom_id: $i, url: "/v1/completions", body: {model: "M", prompt: "line \($i)", n: (1 + ($i | tonumber) % 2),
            max_tokens: 60, temperature: ($i | tonumber % 3 / 2), stop: "zqx"}}'
    done >in.jsonl
    cd "$BATS_FILE_TMPDIR" && pids= && batch && one e && one f && ended && mv out want || return 1
    # shellcheck disable=SC2086 # or the output is theirs for half a minute
    kill_own -9 $pids
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_TEST_TMPDIR" || return 1
    cp -r "$BATS_FILE_TMPDIR"/{M,in.jsonl,want} .
    pids=
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

batch() {
    spot-run serve --dtype engine --model M --batch in.jsonl -o out --listen unix:j 2>>serve.err 3>&- &
    server=$!
    pids="$pids $!"
}

one() { # name, what its engine does; --engine-kind
    SPOT_TEST_ENGINE_SILENT_S=${silent:-1} spot-run worker --join unix:j --name "$1" ${machine:+--machine "$machine"} --engine "exec '$tests/engine' \$PORT log=$1.log ${*:2}" \
        --engine-kind "${kind:-llama-server}" 2>"$1.err" 3>&- &
    declare -g "pid_$1=$!"
    pids="$pids $!"
}

ends() { # pid, exit status
    local rc=0
    wait "$1" || rc=$?
    [ "$rc" = "$2" ]
}

ended() {
    wait "$server"
}

answers() {
    jq -r '[.custom_id, (.response.body.choices | map(.text, .finish_reason) | .[])] | @json' "$1" | sort
}

same() {
    [ "$(answers out)" = "$(answers want)" ]
    [ "$(wc -l <out)" = 12 ]
}

bad() { # fault, a word of what is said
    batch
    one e "fault=$1" at=2
    eventually '[ -s e.log ]'
    one f
    ended
    same
    [ -z "${2-}" ] || grep -q "continues elsewhere.*$2" serve.err
}

@test "an engine that answers 500" { bad error500 'HTTP 500'; }
@test "an engine that answers 200 with an error inside" { bad error200 'out of memory'; }
@test "an engine that stops in the middle of an answer" { bad stop stopped; }
@test "an engine that closes in the middle of an answer" { bad close 'broke off'; }
@test "an engine that sends half a character" { bad half UTF-8; }
@test "an engine that sends rubbish" { bad rubbish expected; }
@test "an engine that counts fewer tokens than it told" { bad miscount counts; }
@test "an engine that tells a token that no model has" { bad alien 'does not have'; }
@test "an engine that tells more tokens than it was asked for" { bad beyond; }
@test "an engine that tells tokens behind the end" { bad behind; }

@test "an engine that loses a request while others go on: it is asked for anew" {
    spot-run serve --dtype engine --model M --http unix:h --listen unix:j 2>>serve.err 3>&- &
    pids="$pids $!"
    silent=0.02 one e fault=stop at=2 after=0 once=lost ms=2
    eventually '[ "$(curl -s --unix-socket h http://x/health)" = "{\"status\":\"ok\"}" ]'
    ask() { curl -s --max-time 100 --unix-socket h http://x/v1/completions -d "{\"model\": \"M\", \"prompt\": \"$1\", \"ignore_eos\": true, \"max_tokens\": $2}"; }
    while :; do ask x 4000 >x || break; done 3>&- &
    pids="$pids $!"
    eventually 'grep -q "begin 1" e.log'
    ask y 60 >y
    [ "$(jq -r '.usage.completion_tokens' y)" = 60 ]
    grep -q 'not begin' serve.err
}

@test "an engine that freezes in the middle of an answer, as a whole" { bad freeze stopped; }

@test "an engine that does not hear that its answer is not wanted: nothing of it comes, and its place is free" {
    spot-run serve --dtype engine --model M --http unix:h --listen unix:j --max-batch 1 2>>serve.err 3>&- &
    pids="$pids $!"
    one e fault=deaf at=1 ms=5
    eventually '[ "$(curl -s --unix-socket h http://x/health)" = "{\"status\":\"ok\"}" ]'
    ask() { curl -s --unix-socket h http://x/v1/completions -d "{\"model\": \"M\", \"prompt\": \"line 1\", \"ignore_eos\": true, \"max_tokens\": $1}" "${@:2}"; }
    run ask 1000 --max-time 0.5
    eventually 'grep -q "gone 1" e.log'
    ask 60 >a
    run ! grep -q 'alone 1' e.log # still computed
    ask 60 >b
    [ "$(jq -r '.choices[0].text' a)" = "$(jq -r '.choices[0].text' b)" ]
    [ "$(jq -r '.usage.completion_tokens' a)" = 60 ]
    eventually 'grep -q "alone 1" e.log'
}

@test "an engine that comes back with another model: its worker ends, and the requests do not" {
    batch
    # shellcheck disable=SC2016 # the shell of the engine looks
    one e fault=die at=2 once=died 'model=$([ -e died ] && echo N || echo M)'
    ends "$pid_e" 3
    grep -q "'M'" e.err
    one f
    ended
    same
}

@test "an engine that leaks memory: its worker leaves before the system kills somebody, and begins another" {
    batch
    SPOT_TEST_ENGINE_ROOM=1e18 one e fault=leak at=2 once=leaked ms=30
    ended
    same
    grep -q 'memory is short' e.err
}

@test "an engine that dies: its last words, and another after a pause" {
    batch
    one e fault=die at=2 once=died
    ended
    same
    grep -q 'CUDA error: as told' e.err
    [ "$(grep -c 'begin 1$' e.log)" = 2 ]
}

@test "what one engine refuses, another would: the request ends, and says why" {
    batch
    one e fault=error400 at=2
    ended
    [ "$(jq -r 'select(.error or .response.status_code != 200) | .custom_id' out | wc -l)" = 1 ]
    grep -q 'ends: worker e reports: HTTP 400' serve.err
}

@test "an engine that fails each time: tries are bounded" {
    head -n 1 in.jsonl >in && mv in in.jsonl
    batch
    one e fault=error500
    ended
    [ "$(wc -l <e.log)" -le 12 ]
    grep -q 'engines failed it' serve.err
}

@test "an engine that tells no tokens, with ids and as text: tries are bounded" {
    head -n 1 in.jsonl | jq -c '.body.n = 1' >in && mv in in.jsonl
    batch
    one e fault=empty
    ended
    grep -q 'engines failed it.*tokens' serve.err
    [ "$(grep -c begin e.log)" = 12 ]
    rm out
    jq -c '.body.min_tokens = 1' in.jsonl >in && mv in in.jsonl
    spot-run serve --dtype engine --model M2 --served-model-name M --batch in.jsonl -o out --listen unix:j 2>text.err 3>&- &
    server=$!
    pids="$pids $!"
    kind=vllm one f fault=empty kind=vllm model=M2
    ended
    grep -q 'engines failed it.*tokens' text.err
    [ "$(grep -c begin f.log)" = 12 ]
}

@test "an engine that makes nothing of a grammar: no answer is out of form, and tries are bounded" {
    head -n 1 in.jsonl | jq -c '.body.response_format = {type: "json_schema", json_schema: {name: "x", schema: {type: "boolean"}}}' >in && mv in in.jsonl
    batch
    one e
    ended
    [ "$(jq -r '.response.body.choices // empty | .[].text' out)" = "" ]
    grep -q 'engines failed it.*form' serve.err
}

@test "an engine that ends at its start is started again" {
    batch
    one e start=exit once=began
    ended
    same
    grep -q 'no such model: as told' e.err
}

@test "another engine answers at the port of one that ended: nobody joins with it" {
    batch
    # shellcheck disable=SC2016 # the shell of the engine has it
    spot-run worker --join unix:j --name e --engine "'$tests/engine' \$PORT port=port start=orphan model=N &
        until [ -s port ]; do :; done; echo in use; exit 3" --engine-kind llama-server 2>e.err 3>&- &
    pids="$pids $!"
    eventually 'grep -q "before it was ready.*in use" e.err'
    one f
    ended
    same
}

@test "a worker that is killed while its engine has time to end: the engine ends" {
    batch
    spot-run worker --join unix:j --name e --engine "trap 'echo >told' TERM
        (trap '' TERM; exec '$tests/engine' \$PORT port=port log=e.log ms=20) & while :; do wait; done" --engine-kind llama-server 2>e.err 3>&- &
    worker=$!
    pids="$pids $!"
    eventually '[ -s e.log ]'
    kill -TERM "$worker"
    eventually '[ -e told ]'
    curl -s -o health "http://127.0.0.1:$(cat port)/health"
    kill -9 "$worker"
    eventually '! curl -s -o health "http://127.0.0.1:$(cat port)/health"'
}

@test "an engine that is never well" {
    SPOT_TEST_ENGINE_START_S=1 one e start=unwell
    eventually 'grep -q "not ready in time" e.err'
    kill -TERM "$pid_e"
    ends "$pid_e" 75
}

@test "an engine with another model is refused, as is one without tokens" {
    batch
    one e fault=stop
    eventually '[ -s e.log ]'
    one f model=N
    ends "$pid_f" 1
    grep -q "'N'" f.err
    kind=ollama one g kind=ollama
    ends "$pid_g" 1
    grep -q 'takes text' g.err
}

@test "an engine that runs: on this machine alone" {
    for url in http://169.254.169.254:80 'http://[fe80::1]:80' http://10.0.0.1:80 http://127.0.0.1 http://127.0.0.1:80/; do
        run -2 spot-run worker --join unix:j --engine-url "$url"
    done
    batch
    "$tests/engine" 0 log=e.log port=port 3>&- &
    pids="$pids $!"
    eventually '[ -s port ]'
    spot-run worker --join unix:j --engine-url "http://127.0.0.1:$(cat port)" 2>e.err 3>&- &
    pids="$pids $!"
    ended
    same
}

@test "an engine that runs, and restarts: its worker leaves meanwhile, and no request is lost" {
    batch
    "$tests/engine" 0 log=e.log port=port ms=20 3>&- &
    engine=$!
    pids="$pids $!"
    eventually '[ -s port ]'
    spot-run worker --join unix:j --name e --engine-url "http://127.0.0.1:$(cat port)" --engine-kind llama-server 2>e.err 3>&- &
    pids="$pids $!"
    eventually '[ -s e.log ]'
    kill -9 "$engine"
    eventually 'grep -q "connections.*starts again" e.err'
    "$tests/engine" "$(cat port)" 3>&- &
    pids="$pids $!"
    ended
    same
}

@test "workers of our own and engines do not mix" {
    batch
    run -1 --separate-stderr spot-run worker --join unix:j --join-timeout 5s
    [[ $stderr == *'serve engines'* ]]
    seq 400 >text
    spot-run train -q --data text --layers 2 --width 32 --heads 2 --seq 32 --global-batch 2 --steps 1 --save T >train.log
    spot-run serve --model T --http unix:h --listen unix:own 2>own.err 3>&- &
    pids="$pids $!"
    eventually '[ -S own ]'
    run -1 --separate-stderr spot-run worker --join unix:own --engine "exec '$tests/engine' \$PORT" --engine-kind llama-server
    [[ $stderr == *'--dtype engine'* ]]
}

@test "killed workers, a notice, and the server's own death: the same tokens" {
    spot-run serve --dtype engine --model M --served-model-name model --http unix:h --listen unix:j --state s 2>>serve.err 3>&- &
    server=$!
    pids="$pids $!"
    one e
    one f
    eventually '[ "$(curl -s --unix-socket h http://x/health)" = "{\"status\":\"ok\"}" ]'
    "$tests/load" unix:h n=60 clients=6 out=150 plain=1 answers=undisturbed
    "$tests/load" unix:h n=240 clients=6 out=150 plain=1 answers=disturbed >load.out 2>&1 3>&- &
    load=$!
    pids="$pids $load"
    n=$(wc -l <e.log)
    eventually '[ "$(wc -l <e.log)" -gt '$((n + 10))' ]'
    kill -9 "$pid_e"
    one g
    eventually '[ -s g.log ]'
    kill -TERM "$pid_f"
    ends "$pid_f" 75
    for news in 'e joined' 'e lost' 'f left'; do eventually "grep -q 'worker $news' serve.err"; done
    n=$(wc -l <g.log)
    eventually '[ "$(wc -l <g.log)" -gt '$((n + 10))' ]'
    kill -9 "$server"
    wait "$server" || :
    spot-run serve --dtype engine --model M --served-model-name model --http unix:h --listen unix:j --state s --resume 2>>serve.err 3>&- &
    pids="$pids $!"
    wait "$load"
    cat load.out
    grep -q 'refused=0 wrong=0' load.out
    [ "$(sort undisturbed | head -n 40)" = "$(sort disturbed | grep -Fxf undisturbed | sort | head -n 40)" ]
    [ "$(grep -Fxcf undisturbed disturbed)" = 60 ]
}

@test "engines that are not deterministic: no token twice, and none left out" {
    spot-run serve --dtype engine --model M --served-model-name model --http unix:h --listen unix:j 2>>serve.err 3>&- &
    pids="$pids $!"
    one e noise=1
    one f noise=1
    eventually '[ "$(curl -s --unix-socket h http://x/health)" = "{\"status\":\"ok\"}" ]'
    "$tests/load" unix:h n=80 clients=8 out=150 plain=1 >load.out 2>&1 3>&- &
    load=$!
    pids="$pids $load"
    eventually '[ "$(wc -l <e.log)" -gt 10 ]'
    kill -9 "$pid_e"
    one g noise=1
    eventually '[ -s g.log ]'
    kill -TERM "$pid_f"
    wait "$load"
    grep -q 'tokens=12000 .*broken=0 refused=0 wrong=0' load.out
}

@test "a client that has enough, and one that goes: the engine's answers are closed" {
    spot-run serve --dtype engine --model M --http unix:h --listen unix:j 2>>serve.err 3>&- &
    pids="$pids $!"
    one e ms=20
    eventually '[ "$(curl -s --unix-socket h http://x/health)" = "{\"status\":\"ok\"}" ]'
    curl -s --unix-socket h http://x/v1/completions -d '{"model": "M", "prompt": "x", "max_tokens": 4000, "stop": ["e", "a", "o"]}' >a
    [ "$(jq -r '.choices[0].finish_reason' a)" = stop ]
    eventually 'grep -q "gone 1" e.log'
    run curl -s --max-time 0.5 --unix-socket h http://x/v1/completions -d '{"model": "M", "prompt": "y", "max_tokens": 4000, "ignore_eos": true}'
    eventually 'grep -q "gone 2" e.log'
}

@test "kinds of engines, with tokens" {
    for kind in vllm sglang; do
        rm -f out
        batch
        one e kind=$kind
        ended
        same
    done
}

@test "kinds of engines, with pieces of text" {
    # shellcheck disable=SC2034 # one has it
    for kind in llama-server vllm tgi ollama; do
        rm -f out
        spot-run serve --dtype engine --model M2 --served-model-name M --batch in.jsonl -o out --listen unix:j 2>>serve.err 3>&- &
        server=$!
        pids="$pids $!"
        one e kind="${kind%-server}" model=M2
        ended
        same
    done
}

@test "a piece of text is one event, and who comes back goes on behind it" {
    spot-run serve --dtype engine --model M2 --served-model-name M --http unix:h --listen unix:j 2>>serve.err 3>&- &
    pids="$pids $!"
    kind=vllm one e kind=vllm model=M2 stamp=1
    eventually '[ "$(curl -s --unix-socket h http://x/health)" = "{\"status\":\"ok\"}" ]'
    curl -sN --unix-socket h http://x/v1/completions -d '{"model": "M", "prompt": "x", "max_tokens": 5, "ignore_eos": true, "stream": true}' >a
    [ "$(grep '^id' a)" = "$(printf 'id: 0:%d\n' 6 13 20 27 34)" ]
    [ "$(sed -n 's/^data: {/{/p' a | jq -r '.choices[0].text | length' | tr '\n' ' ')" = '7 7 7 7 7 ' ]
    id=$(sed -n 's/^data: {/{/p' a | jq -r .id | head -n 1)
    curl -sN --unix-socket h -H 'Last-Event-ID: 0:13' "http://x/v1/streams/$id" >b
    [ "$(grep '^id' b)" = "$(printf 'id: 0:%d\n' 20 27 34)" ]
    # engines promise no bits, so nobody could compute the answer again
    [ "$(curl -s --unix-socket h "http://x/v1/streams/$id/proof" | jq -r .error.code)" = proof_unavailable ]
}

@test "a plan's weights hold for engines" {
    echo '{"schema": "spot.plan/1", "kind": "serve", "next": {"D": 8, "P": 1, "M": 1}, "weights": [{"node": "e", "weight": 3}]}' >plan
    spot-run serve --dtype engine --model M --served-model-name model --http unix:h --listen unix:j --max-batch 64 --plan plan 2>>serve.err 3>&- &
    pids="$pids $!"
    one e ms=20
    one f ms=20
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 2 ]'
    "$tests/load" unix:h n=40 clients=40 out=60 plain=1
    [ "$(grep -c begin e.log)" -gt 25 ]
    [ "$(grep -c begin f.log)" -ge 5 ]
}

@test "keys get their shares, and priorities come first; a full queue is full for who fills it" {
    printf 'kl\nka\nkb share=3\nkv priority=5\n' >keys
    spot-run serve --dtype engine --model M --served-model-name M --http unix:h --listen unix:j --max-batch 1 --queue 17 --api-key-file keys 2>>serve.err 3>&- &
    pids="$pids $!"
    one e ms=20 whose=order
    ask() { # its key, first letter, tokens
        curl -s -o "$2" -D "$2.head" -w '%{http_code}' --unix-socket h -H "Authorization: Bearer k$1" http://x/v1/completions \
            -d "{\"model\": \"M\", \"prompt\": \"$2\", \"max_tokens\": $3, \"ignore_eos\": true}" 3>&-
    }
    queued() { [ "$(spot-run status --join unix:j | jq .queued)" = "$1" ]; }
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 1 ]'
    curl -s --unix-socket h -H 'Authorization: Bearer kl' http://x/v1/completions -o long 3>&- \
        -d '{"model": "M", "prompt": "l", "max_tokens": 4000, "ignore_eos": true}' &
    long=$!
    pids="$pids $long"
    eventually '[ "$(cat order)" = l ]'
    n=0
    others=
    for who in a a a a a a a a b b b b b b b b v; do
        ask $who $who 10 >/dev/null &
        others="$others $!"
        n=$((n + 1))
        eventually "queued $n"
    done
    [ "$(ask a x 10)" = 429 ]
    [ "$(sed -n 's/^[Rr]etry-[Aa]fter: \([0-9]*\).*/\1/p' x.head)" -ge 1 ]
    ask b b 10 >/dev/null & # has its part still
    others="$others $!"
    eventually 'queued 18'
    kill_own -9 $long
    for p in $others; do wait "$p"; done
    [ "$(cut -c 1-2 order)" = lv ]
    first=$(cut -c 3-10 order | tr -d a)
    [ ${#first} -ge 5 ] && [ ${#first} -le 7 ]
    [ "$(wc -c <order)" = 19 ]
}

routed() { # bucket, type
    curl -s --unix-socket h http://x/metrics | sed -n "s/^spot_serve_routed_total{bucket=\"$1\",instance_type=\"$2\".* //p"
}

@test "the route of a fleet's plan holds for engines: sizes by type, as long as there are such machines" {
    printf 'instance_type,spot_usd_per_h\nA,1\nB,4\n' >catalogue
    echo '{"schema": "spot.demand/1", "buckets": [
        {"name": "short", "rate_per_s": 3, "per_s": {"A": 4}, "prompt_tokens": 8, "output_tokens": 8},
        {"name": "long", "rate_per_s": 3, "per_s": {"B": 4}, "prompt_tokens": 400, "output_tokens": 8}]}' >demand
    spot-plan fleet -q --kind serve --market spot --catalogue catalogue --load demand -o plan
    [ "$(jq -c '.route | map([.bucket, .instance_type, .share])' plan)" = '[["short","A",1],["long","B",1]]' ]
    spot-run serve --dtype engine --model M --served-model-name model --http unix:h --listen unix:j --max-batch 64 --plan plan 2>>serve.err 3>&- &
    pids="$pids $!"
    silent=30 machine=A/spot one e
    silent=30 machine=B/spot one f
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 2 ]'
    "$tests/load" unix:h n=12 clients=12 in=6 out=8 plain=1
    "$tests/load" unix:h n=7 clients=7 in=300 out=8 plain=1
    [ "$(routed short A) $(routed long B)" = '12 7' ]
    [ "$(grep -c begin e.log) $(grep -c begin f.log)" = '12 7' ]

    jq '.route |= [.[] | select(.bucket == "short")] + [{bucket: "long", instance_type: "A", market: "spot", share: 0.75,
        prompt_tokens: 400, output_tokens: 8}, {bucket: "long", instance_type: "B", market: "spot", share: 0.25,
        prompt_tokens: 400, output_tokens: 8}]' plan >next
    mv next plan
    eventually '[ "$(routed long A)" = 0 ]'
    "$tests/load" unix:h n=8 clients=8 in=300 out=8 plain=1
    [ "$(routed long A) $(routed long B)" = '6 9' ]
    # shellcheck disable=SC2154
    kill_own -9 $pid_f
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 1 ]'
    "$tests/load" unix:h n=8 clients=8 in=300 out=8 plain=1
    [ "$(routed long B)" = 9 ]
    echo '{"schema": "spot.plan/1", "kind": "fleet", "route": [{"bucket": "a", "instance_type": "A", "market": "spot", "share": 1},
        {"bucket": "b", "instance_type": "A", "market": "spot", "share": 1}]}' >next
    mv next plan
    eventually 'grep -q "prompt_tokens.*in force stays" serve.err'
    [ "$(routed long B)" = 9 ]
}

@test "what would begin too late where the route sends it goes to a machine that is in time, if there is one" {
    printf 'instance_type,spot_usd_per_h\nA,1\n' >catalogue
    echo '{"schema": "spot.demand/1", "buckets": [{"name": "x", "rate_per_s": 3, "per_s": {"A": 4}, "ttft_s": 2}]}' >demand
    spot-plan fleet -q --kind serve --market spot --catalogue catalogue --load demand -o plan
    jq -e '.route | map([.instance_type, .ttft_s]) == [["A", 2]]' plan
    spot-run serve --dtype engine --model M --served-model-name model --http unix:h --listen unix:j --max-batch 64 --plan plan 2>>serve.err 3>&- &
    pids="$pids $!"
    silent=30 machine=A/spot one e ms=4000
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 1 ]'
    "$tests/load" unix:h n=1 clients=1 in=6 out=1 plain=1 # how long A takes is not known before
    silent=30 machine=B/spot one f
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 2 ]'
    "$tests/load" unix:h n=9 clients=3 in=6 out=8 plain=1
    [ "$(grep -c begin e.log) $(grep -c begin f.log)" = '1 9' ]
    [ "$(routed x A)" = 1 ]
    curl -s --unix-socket h http://x/metrics | grep -qx 'spot_serve_spilled_total 9'
    # shellcheck disable=SC2154
    kill_own -9 $pid_f
    eventually '[ "$(spot-run status --join unix:j | jq .replicas)" = 1 ]'
    "$tests/load" unix:h n=1 clients=1 in=6 out=1 plain=1 # late is better than never
    [ "$(routed x A)" = 2 ]
}

# tier: world
@test "llama-server: chats, tools, schemas and choices through kills, notices and deaths of the server" {
    command -v llama-server >/dev/null || skip "no llama-server here"
    command -v python3 >/dev/null || skip "no python3 here"
    run timeout 280 python3 "$BATS_TEST_DIRNAME/../world/engine_storm.py" kills=6 notices=4 fronts=2
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *" 0 failed"* ]]
}
