#!/usr/bin/env bats
# tier: jobs, lane: wait
# spot-run serve over HTTP: what OpenAI's clients send and get, and clients that are rude.
load eventually

load eventually

setup_file() {
    command -v python3 >/dev/null || { export MISSING="no python3 here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 128 --steps 20 --save model >train.log
    echo key-one >keys
    spot-run serve -q --model model --http unix:open --workers 2 --queue 8 2>open.err 3>&- &
    echo $! >pids
    spot-run serve -q --model model --http unix:locked --api-key-file keys 2>locked.err 3>&- &
    echo $! >>pids
    spot-run serve -q --model model --http unix:lonely --listen unix:nobody 2>lonely.err 3>&- &
    echo $! >>pids
    for s in open locked; do
        eventually "[ \"\$(ask $s GET /health | head -n 1)\" = 200 ]"
    done
}

teardown_file() {
    # shellcheck disable=SC2046
    kill_own -TERM $(cat "$BATS_FILE_TMPDIR/pids")
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_FILE_TMPDIR" || return 1
}

# socket method path [body [header: value]...]: the status, the headers that matter, the body
ask() {
    python3 - "$@" <<'P'
import http.client, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(60); self.sock.connect(self.host)
where, method, path, body = (sys.argv[1:] + [None])[:4]
c = Unix(where)
try:
    c.request(method, path, body, dict(h.split(': ', 1) for h in sys.argv[5:]))
    r = c.getresponse()
except OSError as e:
    sys.exit(print(0, e))
print(r.status)
for h in ('Allow', 'Retry-After', 'WWW-Authenticate', 'Content-Type'):
    if r.getheader(h): print(h + ': ' + r.getheader(h))
print(r.read().decode())
P
}

@test "health, models and metrics" {
    ask open GET /health | grep -q '"status":"ok"'
    ask open GET /v1/models | grep -q '"id":"model"'
    ask open GET /v1/models/model | grep -q '"object":"model"'
    [ "$(ask open GET /v1/models/other | head -n 1)" = 404 ]
    ask open GET /metrics | grep -q '^spot_'
}

@test "another path, method or length is answered as such" {
    [ "$(ask open GET /nothing | head -n 1)" = 404 ]
    run ask open DELETE /v1/completions
    [ "${lines[0]}" = 405 ] && [ "${lines[1]}" = "Allow: POST" ]
    run ask open POST /v1/completions '' 'Content-Length: 100000000'
    [ "${lines[0]}" = 413 ]
    run ask open POST /v1/completions '{"model":'
    [ "${lines[0]}" = 400 ]
    [[ "$output" == *"could not parse the JSON body"* ]]
    run ask open POST /v1/chat/completions '{"model":"model","messages":[{"role":"user","content":"a"}]}'
    [ "${lines[0]}" = 400 ]
    [[ "$output" == *"no chat template"*": tokenizer_config.json: no chat_template"* ]] # and not where the model lies
}

@test "a stream says what the whole answer says, and goes on where a client left it" {
    python3 - <<'P'
import http.client, json, socket
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(60); self.sock.connect('open')
def call(method, path, body=None, **h):
    c = Unix('x'); c.request(method, path, body and json.dumps(body), h); return c, c.getresponse()
ask = {'model': 'model', 'prompt': 'the 7. line', 'max_tokens': 40, 'temperature': .8, 'seed': 3, 'n': 2, 'logprobs': 2, 'stop': ['9']}
_, r = call('POST', '/v1/completions', ask)
whole = json.loads(r.read())
def read(r, most=None):
    out, last, rid, done, n = {}, {}, None, False, 0
    for line in r:
        line = line.decode().strip()
        if line.startswith('id:'): c, p = map(int, line[3:].split(':')); assert p > last.get(c, -1); last[c] = p
        if line == 'data: [DONE]': done = True; break
        if line.startswith('data:'):
            d = json.loads(line[5:]); rid = d['id']
            for ch in d['choices']:
                o = out.setdefault(ch['index'], ['', [], None])
                o[0] += ch['text']; o[1] += ch['logprobs']['token_logprobs']; o[2] = ch['finish_reason'] or o[2]
                n += 1
            if not d['choices']: assert d['usage'] == whole['usage'], d
        if most and n >= most: break
    return out, last, rid, done
want = {c['index']: [c['text'], c['logprobs']['token_logprobs'], c['finish_reason']] for c in whole['choices']}
_, r = call('POST', '/v1/completions', dict(ask, stream=True, stream_options={'include_usage': True}))
assert r.getheader('Content-Type') == 'text/event-stream'
got, _, _, done = read(r)
assert done and got == want, (got, want)
c, r = call('POST', '/v1/completions', dict(ask, stream=True))
got, last, rid, done = read(r, 3)
assert not done; r.close(); c.close()  # it hangs up after three tokens, and comes back
_, r = call('GET', '/v1/streams/' + rid, None, **{'Last-Event-ID': ','.join('%d:%d' % x for x in last.items())})
rest, _, _, done = read(r)
assert done
for i, o in rest.items():
    g = got.setdefault(i, ['', [], None]); g[0] += o[0]; g[1] += o[1]; g[2] = o[2] or g[2]
assert got == want, (got, want)
for bad in ('9:1', '0:x', '0:99999'):
    assert call('GET', '/v1/streams/' + rid, None, **{'Last-Event-ID': bad})[1].status == 400, bad
assert call('GET', '/v1/streams/cmpl-none')[1].status == 404
P
}

@test "choices told at once reach their stream at once" {
    # 3,200 tokens in few messages; one a tick would take minutes
    timeout 100 python3 - <<'P'
import http.client, json, socket
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(60); self.sock.connect('open')
def post(**more):
    c = Unix('x')
    c.request('POST', '/v1/completions', json.dumps(dict(model='model', prompt='the', max_tokens=100, seed=1, **more)))
    return c.getresponse()
whole = {c['index']: c['text'] for c in json.loads(post(n=8).read())['choices']}
for _ in range(4):
    text = dict.fromkeys(range(8), '')
    for line in post(n=8, stream=True):
        if line.startswith(b'data: {'):
            for c in json.loads(line[6:])['choices']: text[c['index']] += c['text']
    assert text == whole
P
}

@test "a key is asked for, and the right one is taken" {
    run ask locked GET /v1/models
    [ "${lines[0]}" = 401 ] && [ "${lines[1]}" = "WWW-Authenticate: Bearer" ]
    [ "$(ask locked GET /v1/models '' 'Authorization: Bearer key-on' | head -n 1)" = 401 ]
    [ "$(ask locked GET /v1/models '' 'Authorization: Bearer key-one' | head -n 1)" = 200 ]
    [ "$(ask locked GET /health | head -n 1)" = 200 ]
}

@test "without a worker there is no health" {
    run ask lonely GET /health
    [ "${lines[0]}" = 503 ]
    [[ "$output" == *Retry-After* ]]
}

@test "what others could reach needs keys and a certificate" {
    run spot-run serve --model model --http 0.0.0.0:0
    [ "$status" -eq 2 ]
    [[ "$output" == *"--tls-cert"* ]]
    run spot-run serve --model model --http 127.0.0.1:0 --tls-cert model/config.json
    [ "$status" -eq 2 ]
    run spot-run serve --model model --http 127.0.0.1:0 --tls-cert model/config.json --tls-key model/config.json
    [ "$status" -eq 3 ]
    [[ "$output" == *"not a PEM file"* ]]
}

@test "what it listens at is told as it is, and only TLS 1.2 and 1.3 are spoken" {
    command -v openssl >/dev/null || skip "no openssl here"
    openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 2 -subj /CN=localhost 2>/dev/null
    echo told-key >told
    for at in 127.0.0.1 '[::1]' 0.0.0.0; do
        spot-run serve --model model --http "$at:0" --tls-cert c.pem --tls-key k.pem --api-key-file told 2>told.err 3>&- &
        server=$!
        echo $server >>"$BATS_FILE_TMPDIR/pids"
        eventually 'grep -q "https://" told.err'
        grep -qF "https://$at:" told.err
        port=$(sed -n 's/.*https:.*:\([0-9]*\)$/\1/p' told.err)
        for version in tls1 tls1_1 tls1_2 tls1_3; do
            if openssl s_client -connect "${at/0.0.0.0/127.0.0.1}:$port" -$version -cipher ALL:@SECLEVEL=0 </dev/null 2>/dev/null | grep -q 'Cipher is [A-Z]'; then echo $version; fi
        done >spoken
        kill $server
        wait $server || true
        [ "$(xargs <spoken)" = "tls1_2 tls1_3" ]
    done
}

@test "rude clients take nothing from the others" {
    python3 - <<'P'
import http.client, json, random, socket
rng = random.Random(1)
def raw(data):
    s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect('open'); s.sendall(data); return s
slow = [raw(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le') for _ in range(200)]
for _ in range(100): raw(bytes(rng.randrange(256) for _ in range(300))).close()
body = json.dumps({'model': 'model', 'prompt': 'the', 'max_tokens': 100, 'temperature': 0}).encode()
head = b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n' % len(body)
for _ in range(20): raw(head + body).close()  # nobody waits for these
for _ in range(1200):  # once those are given up there is room in the queue
    s = raw(head + body); r = http.client.HTTPResponse(s); r.begin(); status = r.status; text = r.read(); s.close()
    if status == 200: break
    assert status == 429 and int(r.getheader('Retry-After')) >= 1, status
    import time; time.sleep(.1)
assert status == 200 and json.loads(text)['choices'][0]['finish_reason'] == 'length'
for s in slow: s.close()
P
}

@test "an outside client sees the same tokens through a storm" {
    [ -f "$BATS_TEST_DIRNAME/../../../shared/checks/serve.py" ] || skip "no shared checks here"
    cd "$BATS_TEST_TMPDIR"
    run timeout 200 python3 "$BATS_TEST_DIRNAME/../../../shared/checks/serve.py" 5 3
    echo "$output"
    [ "$status" = 0 ]
    [[ "$output" == *" 0 different"* ]]
}
