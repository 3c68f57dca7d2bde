#!/usr/bin/env bats
# tier: jobs, lane: wait
# spot-run serve: input of strangers, a test for each kind, and faults that are no kill.

load eventually

setup_file() {
    command -v python3 >/dev/null || { export MISSING="no python3 here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 128 --steps 20 --save model >train.log
    cat >client.py <<'P'
import http.client, json, socket, time
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(120); self.sock.connect(self.host)
def call(method, path, body=None, where='s', **h):
    c = Unix(where); c.request(method, path, body if body is None or isinstance(body, (bytes, str)) else json.dumps(body), h)
    return c.getresponse()
def ask(where='s', **more):
    r = call('POST', '/v1/completions', dict({'model': 'model', 'prompt': 'the 7. line', 'max_tokens': 8, 'temperature': 0}, **more), where)
    return r.status, json.loads(r.read())
def fine(**more):
    status, d = ask(**more)
    assert status == 200, (status, d)
    return d['choices']
def refused(status, says, **more):
    got, d = ask(**more)
    assert got == status and says in d['error']['message'], (got, d)
def raw(data, where='s'):
    s = socket.socket(socket.AF_UNIX); s.settimeout(120); s.connect(where); s.sendall(data); return s
P
    serve s --workers 2 --queue 64
}

serve() { # socket options...
    local s=$1
    shift
    ${preload:+env LD_PRELOAD="$preload"} spot-run serve "${loud:---quiet}" --model model --http "unix:$s" "$@" 2>"$s.err" 3>&- &
    echo $! >>"$BATS_FILE_TMPDIR/pids"
    eval "pid_$s=$!"
    for _ in $(seq 1200); do
        [ "$(python3 -c 'from client import *; import sys; print(call("GET", "/health", where=sys.argv[1]).status)' "$s" 2>/dev/null)" != 200 ] || break
        sleep 0.1
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

@test "malformed HTTP is answered 400 or not at all, and harms nobody" {
    python3 - <<'P'
from client import *
for bad in (b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc', b'GET / HTTP/1.1\r\nHost', b'\0' * 5000, b'GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
            b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999999999999\r\n\r\n',
            b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 20\r\n\r\n{}',
            b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n',
            b'GET /' + b'a' * 100000 + b' HTTP/1.1\r\nHost: x\r\n\r\n', b'GET / HTTP/1.1\r\n' + b'X: y\r\n' * 20000):
    s = raw(b''); s.settimeout(20)
    try: s.sendall(bad); s.shutdown(socket.SHUT_WR); said = s.recv(1000)
    except (ConnectionError, TimeoutError): said = b''
    assert not said or int(said.split()[1]) >= 400, (bad[:60], said)
    s.close()
fine()
P
}

@test "malformed JSON is told where" {
    python3 - <<'P'
from client import *
for bad in ('', '{', '[]', '{"model":"model","prompt":"a",}', '{"model":"model" "prompt":"a"}', '{"a":' * 5000, '[' * 100000, '{"model":"model","prompt":"\\ud800"}', '{"model":NaN}', '\x00', '"a"', '{"model":"model","model":"model","prompt":"a"}'):
    r = call('POST', '/v1/completions', bad); d = json.loads(r.read())
    assert r.status == 400 and d['error']['message'] and d['error']['type'] == 'invalid_request_error', (bad[:40], r.status, d)
fine()
P
}

@test "a body of 100 MB is refused, with or without its length, and no memory is kept" {
    python3 - <<'P'
from client import *
import os
pid = open('pids').read().split()[0]
def rss(): return next(int(l.split()[1]) for l in open('/proc/%s/status' % pid) if l.startswith('VmRSS'))
fine(); before = rss()
for head in (b'Content-Length: 104857600\r\n\r\n', b'Transfer-Encoding: chunked\r\n\r\n'):
    s, n, said = raw(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\n' + head), 0, b''
    block = b'a' * 65536 if b'Length' in head else b'10000\r\n' + b'a' * 65536 + b'\r\n'
    try:
        while n < 100 << 20: s.sendall(block); n += 65536
    except OSError: pass
    try: said = s.recv(1000)
    except OSError: pass
    assert n < 100 << 20 and (not said or b' 413 ' in said), (n, said)
    s.close()
fine(); assert rss() < before + (24 << 10), (before, rss())
P
}

@test "a prompt beyond the context is refused with both lengths" {
    python3 - <<'P'
from client import *
refused(400, "maximum context length is 128", prompt='a' * 200)
refused(400, "maximum context length is 128", prompt='a' * 121)
refused(400, "maximum context length is 128", prompt=['a', 'b' * 121])
assert ask(prompt='a' * 200)[1]['error']['code'] == 'context_length_exceeded'
assert fine(prompt='a' * 120)[0]['finish_reason'] == 'length'  # 120 and 8 are the whole context
assert fine(prompt='a' * 127, max_tokens=1)[0]['finish_reason'] == 'length'
P
}

@test "invalid UTF-8 is refused in a body, and told as U+FFFD where a model says it" {
    python3 - <<'P'
from client import *
for bad in (b'\xff', b'\xc3', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xc0\x80'):
    r = call('POST', '/v1/completions', b'{"model":"model","prompt":"' + bad + b'"}'); assert r.status == 400, bad
r = call('POST', '/v1/completions', b'{"model":"model","prompt":"a","stop":"\xff"}'); assert r.status == 400
c = fine(prompt=[0xC3, 0x28, 0xFF], echo=True, max_tokens=1)[0]  # tokens may be any bytes
assert c['text'].startswith('\ufffd(\ufffd'), c
r = call('POST', '/v1/completions', json.dumps({'model': 'model', 'prompt': 'a', 'max_tokens': 60, 'temperature': 2, 'seed': 5, 'stream': True}))
''.join(ch['text'] for l in r if l.startswith(b'data: {') for ch in json.loads(l[6:].decode())['choices'])  # each event is UTF-8
P
}

@test "a stop text is found across tokens, and nothing behind it is told" {
    python3 - <<'P'
from client import *
whole = fine(prompt='the 9', max_tokens=40)[0]['text']
for n in (1, 2, 3, 7):  # a token is a byte
    for at in (0, 5, 20):
        stop = whole[at:at + n]; want = whole[:whole.index(stop)]
        c = fine(prompt='the 9', max_tokens=40, stop=stop)[0]
        assert c['text'] == want and c['finish_reason'] == 'stop', (stop, c)
        r = call('POST', '/v1/completions', {'model': 'model', 'prompt': 'the 9', 'max_tokens': 40, 'temperature': 0, 'stop': ['\u20ac', stop], 'stream': True})
        got = ''.join(ch['text'] for l in r if l.startswith(b'data: {') for ch in json.loads(l[6:])['choices'])
        assert got == want, (stop, got, want)
refused(400, "'stop' must be", stop=''); refused(400, "'stop' must be", stop=['a'] * 17)
P
}

@test "logit_bias forbids tokens and forces one, and log probabilities are those after it" {
    python3 - <<'P'
from client import *
import math
plain = fine(prompt='the 9', max_tokens=40, logprobs=5)[0]
first = plain['text'][0]; second = [t for t in plain['logprobs']['top_logprobs'][0] if t != first][0]
assert fine(prompt='the 9', max_tokens=40, logit_bias={str(ord('Q')): 100})[0]['text'] == 'Q' * 40
c = fine(prompt='the 9', max_tokens=1, logprobs=5, logit_bias={str(ord(first)): -100})[0]
assert c['text'] == max((t for t in plain['logprobs']['top_logprobs'][0] if t != first), key=plain['logprobs']['top_logprobs'][0].get)
for t in range(256):
    assert first not in fine(prompt='the 9', max_tokens=20, temperature=1.5, seed=t, logit_bias={str(ord(first)): -100})[0]['text']
    if t == 20: break
# a small bias moves one logit against all others: p becomes p e^b / (1 - p + p e^b)
p = math.exp(plain['logprobs']['token_logprobs'][0]); b = .75
c = fine(prompt='the 9', max_tokens=1, logprobs=1, logit_bias={str(ord(first)): b})[0]
assert abs(math.exp(c['logprobs']['token_logprobs'][0]) - p * math.exp(b) / (1 - p + p * math.exp(b))) < 1e-5
assert fine(prompt='the 9', max_tokens=40, logprobs=5, logit_bias={})[0] == plain
P
}

@test "several prompts of one request are answered as if each were alone" {
    python3 - <<'P'
from client import *
prompts = ['the 1. line', 'a', 'the 22']
for more in (dict(temperature=0), dict(temperature=1, seed=3), dict(temperature=1, seed=3, n=2, logprobs=2, echo=True)):
    alone = [c for p in prompts for c in fine(prompt=p, **more)]
    for i, c in enumerate(alone): c['index'] = i
    assert fine(prompt=prompts, **more) == alone
    assert fine(prompt=[[ord(x) for x in p] for p in prompts], **more) == alone
r = call('POST', '/v1/completions', {'model': 'model', 'prompt': prompts, 'max_tokens': 8, 'temperature': 0, 'stream': True})
text = {}
for l in r:
    if l.startswith(b'data: {'):
        for ch in json.loads(l[6:])['choices']: text[ch['index']] = text.get(ch['index'], '') + ch['text']
assert text == {c['index']: c['text'] for c in fine(prompt=prompts)}
two = fine(prompt=['the', 'the'], temperature=1.5, max_tokens=40)
assert two[0]['text'] != two[1]['text']  # without a seed each draws on its own
P
}

@test "a full disk of the journal ends the server by name, and --resume has the stream to its end" {
    disk=$(dirname "$(command -v spot-run)")/../tests/disk.so
    [ -e "$disk" ] || skip "no disk.so: make check builds it"
    rm -rf st full && mkdir st
    export SPOT_DISK_FULL=$PWD/full
    # slow enough for a client that gets no processor for a while: the disk is to be full before the end
    SPOT_PACE_SEND_MS=20 preload=$disk${SPOT_PACE:+:$SPOT_PACE} serve f --workers 1 --state st
    python3 - <<'P'
from client import *
body = dict(prompt='the 5. line', max_tokens=100, temperature=1, seed=2, n=2)
want = {c['index']: c['text'] for c in fine(**body)}
r = call('POST', '/v1/completions', dict(body, model='model', stream=True), where='f')
text, last, rid, error = {0: '', 1: ''}, {}, None, None
try:
    for l in r:
        if l.startswith(b'id: '): c, p = map(int, l[4:].split(b':')); last[c] = p
        assert l != b'data: [DONE]\n', 'it is not done'
        if l.startswith(b'data: {"error'):
            error = json.loads(l[6:])['error']
        elif l.startswith(b'data: {'):
            d = json.loads(l[6:]); rid = d['id']
            for ch in d['choices']: text[ch['index']] += ch['text']
        if sum(last.values()) >= 6: open('full', 'w').close()
except (http.client.IncompleteRead, OSError): pass
assert error['code'] == 'server_stopped' and '/v1/streams/' in error['message'], error
json.dump([text, last, rid, want], open('left', 'w'))
assert rid and len(last), 'nothing was told before'
P
    run timeout 60 tail --pid="$pid_f" -f /dev/null
    [ "$status" = 0 ]
    [[ "$(cat f.err)" == *tokens.log*"No space left"* ]]
    rm full
    serve f --workers 1 --state st --resume --linger 60s
    python3 - <<'P'
from client import *
text, last, rid, want = json.load(open('left'))
r = call('GET', '/v1/streams/' + rid, where='f', **{'Last-Event-ID': ','.join('%s:%d' % x for x in last.items())})
assert r.status == 200, r.read()
for l in r:
    if l.startswith(b'data: {'):
        for ch in json.loads(l[6:])['choices']: text[str(ch['index'])] += ch['text']
assert text == want, (text, want)
P
}

@test "a server that is to end waits no longer than --linger for a client that does not read" {
    serve drained --workers 1 --linger 1s
    python3 - <<'P' 3>&- &
from client import *
body = json.dumps(dict(model='model', prompt='the 9. line', max_tokens=100, n=16, logprobs=5, stream=True)).encode()
s = raw(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n' % len(body) + body, 'drained')
time.sleep(300)
P
    client=$!
    python3 - <<'P'
from client import *
for _ in range(600):
    told = [l.split()[1] for l in call('GET', '/metrics', where='drained').read().decode().splitlines() if l.startswith('spot_serve_tokens_total')]
    if float(told[0]) > 800: break
    time.sleep(.1)
else: raise SystemExit('nothing was computed')
P
    kill "$pid_drained"
    run timeout 120 tail --pid="$pid_drained" -f /dev/null
    kill $client
    [ "$status" = 0 ]
}

@test "a cache for a few sequences serves many, with the same tokens" {
    serve k --workers 1 --max-batch 16 --kv-byte 160KiB
    python3 - <<'P'
from client import *
import threading
bodies = [dict(prompt='the %d. line' % i, max_tokens=60, seed=i, temperature=i % 2, logprobs=1, n=1 + i % 2) for i in range(24)]
want = [fine(**b) for b in bodies]; got = [None] * 24
def one(i): got[i] = ask(where='k', **bodies[i])[1].get('choices')
t = [threading.Thread(target=one, args=(i,)) for i in range(24)]
for x in t: x.start()
for x in t: x.join()
assert got == want, [i for i in range(24) if got[i] != want[i]]
P
}

@test "a second server in the directory of one that runs is refused, and takes nothing from it" {
    rm -rf st1
    serve holder --workers 1 --state st1 --linger 60s # it makes the directory
    python3 - <<'P'
from client import *
body = dict(prompt='the 6. line', max_tokens=100, temperature=1, seed=3)
want = fine(**body)[0]['text']
r = call('POST', '/v1/completions', dict(body, model='model', stream=True), where='holder')
rid = json.loads(next(l for l in r if l.startswith(b'data: {'))[6:])['id']
r.close()
json.dump([rid, want], open('left', 'w'))
P
    for more in --resume ""; do
        run timeout 60 spot-run serve -q --model model --http unix:other --workers 1 --state st1 $more
        [ "$status" = 4 ]
        [[ "$output" == *"'st1'"* ]]
    done
    kill -9 "$pid_holder"
    run timeout 60 tail --pid="$pid_holder" -f /dev/null
    serve holder --workers 1 --state st1 --resume --linger 60s
    python3 - <<'P'
from client import *
rid, want = json.load(open('left'))
r = call('GET', '/v1/streams/' + rid, where='holder')
assert r.status == 200, r.read()
got = ''.join(json.loads(l[6:])['choices'][0]['text'] for l in r if l.startswith(b'data: {'))
assert got == want, (got, want)
P
}

@test "a directory without a name is refused, and nothing is written in the root" {
    run timeout 60 spot-run serve -q --model model --http unix:e --workers 1 --state ""
    [ "$status" = 2 ]
    [[ "$output" == *"--state"* ]]
    [ ! -e /tokens.log ]
    run timeout 60 spot-run serve -q --model model --http unix:e --workers 1 --state none/deeper
    [ "$status" = 4 ]
    [[ "$output" == *"'none/deeper'"* ]]
}
