#!/usr/bin/env bats
# tier: jobs, lane: clock
# spot-run serve and what others wrote to ask it, while workers are killed: the package `openai`, curl and
# llmeter, a load generator. Each is skipped where it is not installed.

load eventually

setup_file() {
    command -v python3 >/dev/null || { export MISSING="no python3 here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 256 --steps 20 --save model >train.log
    cat >model/tokenizer_config.json <<'J'
{"chat_template":"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}
J
    echo key-one >keys
    serve calm --workers 1 --max-batch 1
    serve storm --listen unix:j --max-batch 8 --lease 5s
}

serve() { # name options...
    spot-run serve --model model --http 127.0.0.1:0 "${@:2}" 2>"$1.err" 3>&- &
    echo $! >>"$BATS_FILE_TMPDIR/pids"
    eventually "grep -o 'https\{0,1\}://[0-9.:]*' '$1.err' >'$1.url'"
}

teardown_file() {
    # shellcheck disable=SC2046
    kill_own -TERM $(cat "$BATS_FILE_TMPDIR/pids")
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_FILE_TMPDIR" || return 1
    storm 2>/dev/null &
    storm=$!
    for _ in $(seq 1200); do
        python3 -c 'import sys; import urllib.request as u; [u.urlopen(x + "/health") for x in sys.argv[1:]]' "$(cat calm.url)" "$(cat storm.url)" 2>/dev/null && break
        sleep 0.1
    done
}

teardown() {
    touch "calm-$BATS_TEST_NUMBER"
    wait "$storm" 2>/dev/null || true
}

# Three workers, of which one is killed or given notice every now and then, until the test is over.
storm() {
    local -a worker=()
    local n=0 k
    exec 3>&-
    trap 'kill -9 "${worker[@]}" 2>/dev/null' EXIT
    while [ ! -e "calm-$BATS_TEST_NUMBER" ]; do
        for k in 0 1 2; do
            if ! kill -0 "${worker[$k]:-0}" 2>/dev/null || [ -z "${worker[$k]}" ]; then
                spot-run worker -q --join unix:j --name "w$((n += 1))" --join-timeout 30s &
                worker[k]=$!
            fi
        done
        sleep 0.$((2 + RANDOM % 6))
        k=$((RANDOM % 3))
        kill -"$([ $((RANDOM % 2)) = 0 ] && echo KILL || echo TERM)" "${worker[$k]}" && echo hit >>hits
    done
}

# tier: world
@test "openai: the same answers, streams, choices, schemas and errors through a storm" {
    has openai || skip "no package openai here"
    run timeout 250 python3 "$BATS_TEST_DIRNAME/../world/openai_client.py" "$(cat calm.url)" "$(cat storm.url)"
    echo "$output"
    [ "$status" = 0 ]
    [[ "$output" == *" 0 different"* ]]
    [ "$(grep -c hit hits)" -ge 3 ]
}

@test "openai: chats, tools, completions and responses return what their methods promise" {
    has openai || skip "no package openai here"
    run timeout 250 python3 "$BATS_TEST_DIRNAME/../world/openai_api.py" "$(cat calm.url)"
    echo "$output"
    [ "$status" = 0 ]
}

@test "curl -N: a stream through a storm is the answer of the calm server" {
    command -v curl >/dev/null || skip "no curl here"
    ask='{"model":"model","prompt":"the 7. line","max_tokens":200,"temperature":0.8,"seed":3'
    for _ in 1 2 3; do
        curl -sS --fail-with-body -H 'Content-Type: application/json' "$(cat calm.url)/v1/completions" -d "$ask}" >want
        curl -sSN --fail-with-body "$(cat storm.url)/v1/completions" -d "$ask,\"stream\":true}" >got
        [ "$(tail -n 2 got | head -n 1)" = 'data: [DONE]' ]
        [ "$(grep -c '^id: 0:' got)" = 200 ]
        [ "$(sed -n 's/^data: {/{/p' got | jq -sj '[.[].choices[0].text] | add')" = "$(jq -j '.choices[0].text' want)" ]
    done
}

@test "curl: keys and a certificate, and nothing in the clear" {
    command -v curl >/dev/null && command -v openssl >/dev/null || skip "no curl or openssl here"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 \
        -subj /CN=spot -addext subjectAltName=IP:127.0.0.1 2>/dev/null
    serve locked --workers 1 --tls-cert cert.pem --tls-key key.pem --api-key-file keys
    url=$(cat locked.url)
    for _ in $(seq 1200); do
        [ "$(curl -s --cacert cert.pem -o /dev/null -w '%{http_code}' "$url/health")" != 200 ] || break
        sleep 0.1
    done
    ask='{"model":"model","prompt":"the 7. line","max_tokens":50,"temperature":0,"stream":true}'
    [ "$(curl -s --cacert cert.pem -o /dev/null -w '%{http_code}' "$url/v1/models")" = 401 ]
    [ "$(curl -s --cacert cert.pem -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer key-two' "$url/v1/completions" -d "$ask")" = 401 ]
    [ "$(curl -sN --cacert cert.pem -H 'authorization: bearer key-one' "$url/v1/completions" -d "$ask" | grep -c '^id: 0:')" = 50 ]
    [ "$(curl -s --tls-max 1.1 --cacert cert.pem -o /dev/null -w '%{http_code}' "$url/health")" = 000 ]
    run curl -s "${url/https/http}/health"
    [ "$status" != 0 ]
    run curl -s "$url/health" # nobody vouches for it
    [ "$status" = 60 ]
}

# tier: world
@test "llmeter: a load generator counts no error through a storm" {
    has llmeter || skip "no package llmeter here"
    timeout 200 python3 - "$(cat storm.url)" <<'P'
import asyncio, os, sys
os.environ.setdefault('OPENAI_API_KEY', 'none')
from llmeter.endpoints import OpenAICompletionStreamEndpoint as Endpoint
from llmeter.runner import Runner
e = Endpoint(model_id='model', base_url=sys.argv[1] + '/v1', api_key='none')
run = asyncio.run(Runner(endpoint=e, output_path=None).run(
    payload=[e.create_payload('the %d. line of a text' % i, max_tokens=60) for i in range(8)], clients=6, n_requests=10))
s = run.stats
print({k: v for k, v in s.items() if not isinstance(v, dict)})
assert s['failed_requests'] == 0 and s['total_requests'] == 60, s
P
}
