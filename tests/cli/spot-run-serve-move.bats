#!/usr/bin/env bats
# tier: jobs, lane: clock
# spot-run serve: after a notice pages of the cache go to the next holder, and no token changes.

load eventually

setup_file() {
    command -v python3 >/dev/null || { export MISSING="no python3 here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    # pages so small that to move them is faster than to compute them again, on any machine
    spot-run train -q --data text --arch llama --layers 4 --width 64 --heads 4 --kv-heads 2 --shards 2 --ffn 1024 \
        --seq 1024 --global-batch 2 --steps 4 --save model >train.log
    for i in $(seq 8); do
        printf '{"custom_id":"r%d","url":"/v1/completions","body":{"model":"model","prompt":"%s","max_tokens":800,"temperature":0.8,"seed":%d}}\n' \
            "$i" "$(head -c 150 text | tr '\n' ' ')" "$i"
    done >in.jsonl
    spot-run serve -q --model model --batch in.jsonl -o raw.jsonl --max-batch 1
    python3 - >want <<'P'
import json
said = {d['custom_id']: d['response']['body']['choices'][0]['text'] for d in map(json.loads, open('raw.jsonl'))}
for line in open('in.jsonl'): print(json.dumps(said[json.loads(line)['custom_id']]))
P
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_TEST_TMPDIR" || return 1
    ln -s "$BATS_FILE_TMPDIR/model" "$BATS_FILE_TMPDIR/in.jsonl" "$BATS_FILE_TMPDIR/want" .
    pids=
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

# metric NAME [LEAST]: its value, once that is LEAST or more. One process asks: to start one for each question takes
# the processor from those who are asked.
metric() {
    python3 - "$@" <<'P'
import http.client, socket, sys, time
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(60); self.sock.connect('h')
def value():
    c = Unix('x')
    try:
        c.request('GET', '/metrics')
        for line in c.getresponse().read().decode().splitlines():
            if line.startswith(sys.argv[1] + ' '): return int(float(line.split()[1]))
    except OSError: pass
    return 0
least = int(sys.argv[2]) if len(sys.argv) > 2 else 0
end = time.monotonic() + 60
while (now := value()) < least:
    if time.monotonic() > end: sys.exit('%s: never %d' % (sys.argv[1], least))
    time.sleep(0.01)
print(now)
P
}

# All requests at once; their texts, in order.
texts() {
    python3 - <<'P'
import http.client, json, socket, threading
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(60); self.sock.connect('h')
asked = [json.loads(line) for line in open('in.jsonl')]
got = [None] * len(asked)
def ask(i):
    c = Unix('x')
    c.request('POST', '/v1/completions', json.dumps(asked[i]['body']))
    got[i] = json.loads(c.getresponse().read())['choices'][0]['text']
threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(asked))]
for t in threads: t.start()
for t in threads: t.join()
for text in got: print(json.dumps(text))
P
}

# grid, members of a replica, options: two replicas
start_two() {
    local grid=$1 n=$2
    shift 2
    spot-run serve -q --model model --http unix:h --listen unix:j --grid "$grid" "$@" 2>serve.err 3>&- &
    server=$!
    pids=$server
    for i in $(seq $((2 * n))); do
        ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE" SPOT_PACE_SEND_MS=1} \
            spot-run worker -q --join unix:j --name "w$i" --join-timeout 60s 3>&- & # so that there is a middle
        declare -g "pid_$i=$!"
        pids="$pids $!"
        eventually "spot-run status --join unix:j --format json | grep -q '\"name\": \"w$i\"'" # one after the other
    done
    metric spot_serve_replicas 2
}

# in the middle of all requests the first worker gets this signal
strike_in_the_middle() { # signal
    texts >got 3>&- &
    client=$!
    metric spot_serve_tokens_total 400
    kill "-$1" "$pid_1"
    wait "$client"
    cmp got want
}

leave_in_the_middle() { # grid, members
    # pages go where that is faster than to compute them again, by the rates that were measured: not always so
    # on a machine that is busy
    for _ in 1 2 3 4 5; do
        start_two "$@"
        strike_in_the_middle TERM
        [ "$(metric spot_serve_moves_with_pages_total)" -lt 1 ] || break
        kill "$server"
        wait "$server"
    done
    [ "$(metric spot_serve_moves_with_pages_total)" -ge 1 ]
    [ "$(metric spot_serve_page_bytes_per_second)" -gt 0 ]
    [ "$(metric spot_serve_tokens_from_pages_total)" -gt 16 ]
}

die_in_the_middle() { # grid, members
    start_two "$@" --kv-buddies
    strike_in_the_middle KILL
    [ "$(metric spot_serve_moves_with_pages_total)" = 0 ]
    [ "$(metric spot_serve_tokens_from_pages_total)" -gt 16 ]
}

@test "pages of a worker that leaves go to the one that goes on" {
    leave_in_the_middle 1x1 1
}

@test "a buddy has copies of the pages of a worker that is killed" {
    die_in_the_middle 1x1 1
}
