#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""engine_storm.py [KEY=VALUE...] - engines behind spot-run serve, while they are killed, noticed, and the server dies.

  gguf=FILE     the model for llama-server; without one, a small one with random weights is written
  kills=30 notices=20 fronts=3 seed=1 clients=6 workers=3 unique=40 out=48
  args='...'    of llama-server, beside model and port; batch=N choices at once of an engine (what --parallel says)
  engine=COMMAND kind=KIND model=DIR   another engine, for which $PORT is there; model=NAME: it takes text
  dir=DIR       where to work and leave what was said; KEEP is then the caller's affair

First what the engine does alone: a prompt asked 50 times, one after the other and four at a time, and asked in its middle. Then `unique`
requests undisturbed; then the same again and again through the storm: chats and completions, streamed and not, greedy and sampled, with
stop texts, log probabilities, several choices, schemas and tools. A stream whose server died is read on with Last-Event-ID; what is not
streamed ends with its server, as its connection does, and is asked anew. One line at the end, exit 1 if a request failed, a token
came twice or was left out, or a form or count was wrong; with strict=1 also if a greedy answer was another."""
import collections, http.client, json, os, random, shlex, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor

o = dict(gguf='', kills=30, notices=20, fronts=3, seed=1, clients=6, workers=3, unique=40, out=48, dir='', engine='', kind='llama-server', model='M', strict=0, batch=4, times=50,
         args='--parallel 4 -c 8192 -t 1 --no-warmup')
for word in sys.argv[1:]:
    k, v = word.split('=', 1)
    o[k] = type(o[k])(v)
ENGINE = os.environ.get('LLAMA_SERVER') or shutil.which('llama-server')
if not ENGINE and not o['engine']:
    print('engine_storm: no llama-server here: skipped')
    sys.exit(77)
rng = random.Random(o['seed'])
top = o['dir'] or tempfile.mkdtemp()
os.makedirs(top, exist_ok=True)
o['model'] = os.path.abspath(o['model']) if o['engine'] and os.path.isdir(o['model']) else o['model']
IS_TEXT = o['engine'] and not os.path.isdir(o['model'])
os.chdir(top)
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
            "{% if tools %}{{ 'tools: ' + (tools | tojson) + '\\n' }}{% endif %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
SCHEMA = {'type': 'object', 'properties': {'yes': {'type': 'boolean'}, 'kind': {'enum': ['red', 'green', 'grün']},
                                           's': {'type': 'string', 'maxLength': 6}},
          'required': ['yes', 'kind', 's'], 'additionalProperties': False}


# --- a small model ----------------------------------------------------------------

def put_gguf(path):
    """A Llama of random weights with bytes and a few merges as tokens: its text is rubbish that often ends within a character."""
    r = random.Random(7)
    visible = [c for c in range(256) if 33 <= c < 127 or 161 <= c < 173 or c >= 174]
    letter = {c: chr(c) for c in visible}
    letter.update({c: chr(256 + i) for i, c in enumerate(c for c in range(256) if c not in visible)})
    token, merge = [letter[c] for c in range(256)], []
    for a, b in [('t', 'h'), ('th', 'e'), ('i', 'n'), ('e', 'r'), ('a', 'n'), ('l', 'i'), ('li', 'n'), ('o', 'n')]:
        merge.append(a + ' ' + b)
        token.append(a + b)
    token += ['<s>', '</s>']
    width, ffn, n_head, n_layer, n = 64, 128, 4, 2, len(token)

    def text(s):
        s = s.encode()
        return struct.pack('<Q', len(s)) + s

    def array(kind, entries):
        return struct.pack('<IIQ', 9, kind, len(entries)) + b''.join(entries)
    u32, f32 = (lambda v: struct.pack('<II', 4, v)), (lambda v: struct.pack('<If', 6, v))
    meta = {'general.architecture': struct.pack('<I', 8) + text('llama'), 'llama.context_length': u32(4096),
            'llama.embedding_length': u32(width), 'llama.block_count': u32(n_layer), 'llama.feed_forward_length': u32(ffn),
            'llama.attention.head_count': u32(n_head), 'llama.attention.head_count_kv': u32(n_head), 'llama.vocab_size': u32(n),
            'llama.attention.layer_norm_rms_epsilon': f32(1e-5), 'llama.rope.dimension_count': u32(width // n_head),
            'llama.rope.freq_base': f32(1e4), 'tokenizer.ggml.model': struct.pack('<I', 8) + text('gpt2'),
            'tokenizer.ggml.pre': struct.pack('<I', 8) + text('gpt-2'), 'tokenizer.ggml.tokens': array(8, [text(t) for t in token]),
            'tokenizer.ggml.token_type': array(5, [struct.pack('<i', 3 if t in ('<s>', '</s>') else 1) for t in token]),
            'tokenizer.ggml.merges': array(8, [text(m) for m in merge]), 'tokenizer.ggml.bos_token_id': u32(n - 2),
            'tokenizer.ggml.eos_token_id': u32(n - 1), 'tokenizer.ggml.add_bos_token': struct.pack('<IB', 7, 0)}
    shape = {'token_embd.weight': (width, n), 'output.weight': (width, n), 'output_norm.weight': (width,)}
    for i in range(n_layer):
        shape.update({'blk.%d.%s.weight' % (i, k): s for k, s in [
            ('attn_norm', (width,)), ('attn_q', (width, width)), ('attn_k', (width, width)), ('attn_v', (width, width)),
            ('attn_output', (width, width)), ('ffn_norm', (width,)), ('ffn_gate', (width, ffn)), ('ffn_up', (width, ffn)),
            ('ffn_down', (ffn, width))]})
    head = b'GGUF' + struct.pack('<IQQ', 3, len(shape), len(meta))
    head += b''.join(text(k) + v for k, v in meta.items())
    body = b''
    for name, s in shape.items():
        head += text(name) + struct.pack('<I', len(s)) + b''.join(struct.pack('<Q', x) for x in s) + struct.pack('<IQ', 0, len(body))
        count = s[0] * (s[1] if len(s) > 1 else 1)
        body += struct.pack('<%df' % count, *([1] * count if len(s) == 1 else [r.gauss(0, .35) for _ in range(count)]))
        body += b'\0' * (-len(body) % 32)
    with open(path, 'wb') as f:
        f.write(head + b'\0' * (-len(head) % 32) + body)


# --- questions ---------------------------------------------------------------------

class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect('h')


def question(i):
    """(path, body, is greedy) of request i, whoever asks, whenever."""
    r = random.Random(1000 + i)
    greedy = i % 2 == 0
    kind = ('plain', 'stop', 'logprobs', 'choices', 'schema', 'tools', 'plain', 'ids')[i // 2 % 8]
    if IS_TEXT and kind not in ('stop', 'choices'):
        kind = 'plain'
    b = {'model': 'M', 'max_tokens': r.randrange(o['out'] // 2, o['out']), 'seed': i, 'temperature': 0 if greedy else .9}
    chats = i // 3 % 2 == 1
    if kind == 'stop':
        b['stop'] = ['\n\n', 'e a', 'qu', '. T']
    if kind == 'logprobs':
        b.update({'logprobs': True, 'top_logprobs': 2} if chats else {'logprobs': 2})
    if kind == 'choices':
        b['n'] = 3
    if kind == 'schema':
        b['response_format'] = {'type': 'json_schema', 'json_schema': {'name': 'a', 'schema': SCHEMA, 'strict': True}}
        b['max_tokens'] = 120
        chats = True
    if kind == 'tools':
        b.update({'tools': [{'type': 'function', 'function': {'name': 'note', 'parameters': SCHEMA}}], 'tool_choice': 'required',
                  'max_tokens': 160})
        chats = True
    if kind == 'ids':
        b['ignore_eos'] = True
    if i // 5 % 2 == 0:
        b.update({'stream': True, 'stream_options': {'include_usage': True}})
    words = ' '.join(r.choice('the weather in Paris tells a story of seven small ships'.split()) for _ in range(r.randrange(6, 40)))
    if chats:
        b['messages'] = [{'role': 'user', 'content': '%d: %s' % (i, words)}]
    else:
        b['prompt'] = '%d: %s' % (i, words)
    return ('/v1/chat/completions' if chats else '/v1/completions'), b, greedy, kind


class Wrong(Exception):
    pass


count = collections.Counter()
times = []


def events(answer):
    """(id, document) of each event; breaks off with the connection."""
    at = None
    while True:
        line = answer.readline()
        if not line:
            raise ConnectionError('broke off')
        line = line.decode().rstrip('\n').rstrip('\r')
        if line.startswith('id: '):
            at = tuple(int(x) for x in line[4:].split(':'))
        elif line == 'data: [DONE]':
            return
        elif line.startswith('data: '):
            yield at, json.loads(line[6:])
            at = None


def merged(calls, delta):
    for d in delta.get('tool_calls') or []:
        c = calls.setdefault(d['index'], ['', ''])
        c[0] += d['function'].get('name') or ''
        c[1] += d['function'].get('arguments') or ''


def hear(answer, s):
    for at, d in events(answer):
        if 'error' in d:
            if d['error'].get('code') == 'server_stopped':
                continue
            raise Wrong('an error in a stream: %s' % d['error'])
        s['id'] = d['id']
        s['usage'] = d.get('usage') or s['usage']
        for h in d['choices']:
            c = s['choice'][h['index']]
            if at and at[1] != c['n']:
                raise Wrong('%s: choice %d: position %d came behind %d' % (d['id'], at[0], at[1], c['n'] - 1))
            c['n'] += at is not None
            delta = h.get('delta', {})
            c['text'] += h.get('text') or delta.get('content') or ''
            merged(c['calls'], delta)
            c['finish'] = h.get('finish_reason') or c['finish']
            l = h.get('logprobs') or {}
            c['n_logprob'] += len(l.get('token_logprobs') or l.get('content') or [])


def ask_stream(path, body):
    s = {'id': None, 'usage': None, 'choice': collections.defaultdict(
        lambda: dict(n=0, text='', calls={}, finish=None, n_logprob=0))}
    until = time.time() + 240
    while time.time() < until:
        c = Unix('localhost')
        try:
            if s['id']:
                last = ','.join('%d:%d' % (i, h['n'] - 1) for i, h in s['choice'].items() if h['n'])
                c.request('GET', '/v1/streams/' + s['id'], headers={'Last-Event-ID': last} if last else {})
            else:
                c.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
            a = c.getresponse()
            if a.status in (429, 503):
                count['later'] += 1
                time.sleep(.1)
                continue
            if a.status != 200:
                raise Wrong('%s: status %d: %s' % (s['id'], a.status, a.read()[:300]))
            hear(a, s)
            return s['usage'], s['choice']
        except (OSError, http.client.HTTPException):
            count['broken'] += 1
            time.sleep(.05)
        finally:
            c.close()
    raise Wrong('no answer in 240 s')


def ask_whole(path, body):
    until = time.time() + 240
    while time.time() < until:
        c = Unix('localhost')
        try:
            c.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
            a = c.getresponse()
            text = a.read()
        except (OSError, http.client.HTTPException):
            count['anew'] += 1
            time.sleep(.05)
            continue
        finally:
            c.close()
        if a.status in (429, 503):
            count['later'] += 1
            time.sleep(.1)
            continue
        if a.status != 200:
            raise Wrong('status %d: %s' % (a.status, text[:300]))
        d = json.loads(text)
        out = {}
        for h in d['choices']:
            m, l, calls = h.get('message', {}), h.get('logprobs') or {}, {}
            for i, t in enumerate(m.get('tool_calls') or []):
                calls[i] = [t['function']['name'], t['function']['arguments']]
            out[h['index']] = dict(text=h.get('text') or m.get('content') or '', calls=calls, finish=h['finish_reason'],
                                   n_logprob=len(l.get('token_logprobs') or l.get('content') or []), n=None)
        return d['usage'], out
    raise Wrong('no answer in 240 s')


def check(i, usage, choice):
    path, body, greedy, kind = question(i)
    n = body.get('n', 1)
    if sorted(choice) != list(range(n)):
        raise Wrong('choices %s' % sorted(choice))
    told = [h['n'] for h in choice.values()]
    if not usage or (not IS_TEXT and None not in told and sum(told) != usage['completion_tokens']):
        raise Wrong('usage %s, %s tokens told' % (usage, told))
    for h in choice.values():
        if h['finish'] not in ('stop', 'length', 'tool_calls'):
            raise Wrong('it ended with %s' % h['finish'])
        if not IS_TEXT and h['finish'] == 'length' and n == 1 and usage['completion_tokens'] != body['max_tokens']:
            raise Wrong('%d tokens of %d, and length' % (usage['completion_tokens'], body['max_tokens']))
        if any(x in h['text'] for x in body.get('stop', [])):
            raise Wrong('a stop text in %r' % h['text'])
        form = h['text'] if kind == 'schema' else h['calls'][0][1] if kind == 'tools' and h['calls'] else None
        if kind == 'tools' and not h['calls'] and h['finish'] != 'length':
            raise Wrong('no call of a tool: %r' % h['text'])
        if form is not None and h['finish'] != 'length':
            v = json.loads(form)
            if set(v) != {'yes', 'kind', 's'} or not isinstance(v['yes'], bool) or len(v['s']) > 6:
                raise Wrong('out of form: %r' % v)
        if kind == 'logprobs' and not h['n_logprob']:
            raise Wrong('no log probabilities')
    if kind == 'logprobs' and n == 1 and choice[0]['n_logprob'] != usage['completion_tokens'] - (choice[0]['finish'] == 'stop') \
            and choice[0]['n_logprob'] != usage['completion_tokens']:
        raise Wrong('%d log probabilities of %d tokens' % (choice[0]['n_logprob'], usage['completion_tokens']))


def ask(i):
    path, body, greedy, kind = question(i)
    began = time.time()
    usage, choice = (ask_stream if body.get('stream') else ask_whole)(path, body)
    times.append(time.time() - began)
    check(i, usage, choice)
    count['tokens'] += usage['completion_tokens']
    return [(choice[k]['text'], sorted(choice[k]['calls'].items()), choice[k]['finish']) for k in sorted(choice)]


# --- processes -----------------------------------------------------------------------

procs = []


def begin(words, err, **k):
    p = subprocess.Popen(words, stdout=open(err, 'a'), stderr=subprocess.STDOUT, **k)
    procs.append(p)
    return p


def command():
    return o['engine'] or 'exec %s -m %s --host 127.0.0.1 --port $PORT %s' % (shlex.quote(ENGINE), shlex.quote(gguf), o['args'])


def worker(name):
    return begin(['spot-run', 'worker', '--join', 'unix:j', '--name', name, '--engine', command(), '--engine-kind', o['kind']], 'workers.err')


def front(*more):
    return begin(['spot-run', 'serve', '--dtype', 'engine', '--model', o['model'], '--served-model-name', 'M', '--chat-template', 'chat.jinja', '--tool-format', 'hermes',
                  '--http', 'unix:h', '--listen', 'unix:j', '--state', 'st', '--linger', '60s', '--lease', '5s', '--max-batch',
                  str(o['batch']), *more], 'serve.err')


def metric(name):
    c = Unix('localhost')
    try:
        c.request('GET', '/metrics')
        for line in c.getresponse().read().decode().splitlines():
            if line.startswith(name + ' '):
                return float(line.split()[1])
    except (OSError, http.client.HTTPException):
        pass
    finally:
        c.close()
    return 0


def until(what, limit=300):
    end = time.time() + limit
    while not what():
        if time.time() > end:
            raise SystemExit('engine_storm: waited in vain; see %s' % top)
        time.sleep(.05)


def engine_of(p):
    """The program that the worker started, which is not its watcher."""
    for k in os.listdir('/proc'):
        try:
            if int(open('/proc/%s/stat' % k).read().rsplit(')', 1)[1].split()[1]) == p.pid and \
                    b'kill -KILL 0' not in open('/proc/%s/cmdline' % k, 'rb').read():
                return int(k)
        except (ValueError, OSError):
            pass
    return None


def end_all():
    for p in procs:
        if p.poll() is None:
            p.kill()
    for p in procs:
        p.wait()


# --- what an engine does alone ---------------------------------------------------------

def alone():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    p = begin(['sh', '-c', command()], 'engine.err', env={**os.environ, 'PORT': str(port)}, start_new_session=True)
    llama = o['kind'] == 'llama-server'

    def post(prompt, n):
        c = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
        b = {'prompt': ''.join(map(chr, prompt)) if IS_TEXT else prompt, 'temperature': 0}
        b.update({'n_predict': n, 'return_tokens': True, 'ignore_eos': True} if llama else {'max_tokens': n, 'model': o['named']})
        if not llama and not IS_TEXT:
            b.update({'return_token_ids': True, 'ignore_eos': True})
        c.request('POST', '/completion' if llama else '/v1/completions', json.dumps(b), {'Content-Type': 'application/json'})
        a = c.getresponse()
        d = json.loads(a.read())
        c.close()
        return d['tokens'] if llama else [ord(x) for x in d['choices'][0]['text']] if IS_TEXT else d['choices'][0]['token_ids']

    def well():
        try:
            post([40, 41], 1)
            return True
        except (OSError, http.client.HTTPException, KeyError, ValueError):
            return False
    until(well)
    post([97, 98], 2)
    prompts = [[random.Random(k).randrange(97, 122) for _ in range(40 + 9 * k)] for k in range(5)]
    n, each = o['out'], o['times'] // 5
    want = [post(x, n) for x in prompts]
    one = sum(post(x, n) == w for x, w in zip(prompts, want) for _ in range(each))
    with ThreadPoolExecutor(4) as pool:
        four = sum(pool.map(lambda k: post(prompts[k % 5], n) == want[k % 5], range(5 * each)))
    goes_on = 0 if IS_TEXT else sum(post(x + w[:k], n - k) == w[k:] for x, w in zip(prompts, want) for k in range(2, n, max(1, n // each)))
    asked = sum(len(range(2, n, max(1, n // each))) for _ in prompts)
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    print('alone: the same answer one after the other %d of %d, four at a time %d of %d, from its middle %d of %d'
          % (one, 5 * each, four, 5 * each, goes_on, asked), flush=True)


# --- the storm ---------------------------------------------------------------------------

def storm(workers, state):
    strikes = ['kill'] * o['kills'] + ['notice'] * o['notices'] + ['front'] * o['fronts']
    rng.shuffle(strikes)
    for k, strike in enumerate(strikes):
        done = count['done']
        until(lambda: metric('spot_serve_replicas') >= min(2, o['workers']) and metric('spot_serve_choices_running') >= 1)
        time.sleep(rng.random() * .6)
        if strike == 'front':
            state['front'].kill()
            state['front'].wait()
            time.sleep(rng.random() * .3)
            state['front'] = front('--resume')
        else:
            slot = rng.randrange(len(workers))
            victim = engine_of(workers[slot])
            while not victim: # one that was struck a moment ago
                slot = rng.randrange(len(workers))
                victim = engine_of(workers[slot])
                time.sleep(.05)
            if strike == 'kill' and k % 2:
                os.kill(victim, signal.SIGKILL)
            elif strike == 'kill':
                workers[slot].kill()
                workers[slot].wait()
                workers[slot] = worker('w%d' % (100 + k))
            else:
                workers[slot].terminate()
                workers[slot] = worker('w%d' % (100 + k))
        count[strike] += 1
        until(lambda: count['done'] > done)


def main():
    global gguf
    gguf = os.path.abspath(o['gguf']) if o['gguf'] else os.path.abspath('tiny.gguf')
    if not o['gguf'] and not o['engine']:
        put_gguf(gguf)
    if not o['engine']:
        subprocess.run(['spot-run', 'import', gguf, 'M'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    o['named'] = o['model'] if IS_TEXT else os.path.basename(o['model'])
    open('chat.jinja', 'w').write(TEMPLATE)
    alone()
    state = {'front': front()}
    workers = [worker('w0')]
    until(lambda: metric('spot_serve_replicas') >= 1)
    want, failed, began = {}, [], time.time()
    for i in range(o['unique']):
        want[i] = ask(i)
    took = sorted(times)
    print('undisturbed, one by one: %d requests, %d tokens in %.0f s; P50 %.2f s, P99 %.2f s' % (
        len(want), count['tokens'], time.time() - began, took[len(took) // 2], took[int(.99 * (len(took) - 1))]), flush=True)
    times.clear()
    count.clear()
    workers += [worker('w%d' % k) for k in range(1, o['workers'])]
    until(lambda: metric('spot_serve_replicas') >= o['workers'])
    over, lock, next_i = threading.Event(), threading.Lock(), iter(range(1 << 30))
    differs = collections.Counter()

    def client():
        while not over.is_set():
            with lock:
                i = next(next_i) % o['unique']
            _, body, greedy, kind = question(i)
            try:
                got = ask(i)
                if greedy:
                    differs['all'] += 1
                    differs['other'] += got != want[i]
                    if got != want[i] and differs['other'] < 6:
                        print('  request %d (%s): wanted %r\n    got %r' % (i, kind, want[i], got), flush=True)
            except Exception as e:
                failed.append('request %d (%s): %s' % (i, kind, repr(e)))
            count['done'] += 1
    began = time.time()
    threads = [threading.Thread(target=client) for _ in range(o['clients'])]
    for t in threads:
        t.start()
    try:
        storm(workers, state)
    finally:
        over.set()
        for t in threads:
            t.join()
    for line in failed[:10]:
        print('  ' + line)
    took = sorted(times)
    print('storm: %d kills, %d notices, %d deaths of the server in %.0f s: %d requests, %d tokens, %d moves, %d connections broken, '
          '%d asked anew; P50 %.2f s, P99 %.2f s; %d failed; greedy like undisturbed %d of %d' % (
              count['kill'], count['notice'], count['front'], time.time() - began, count['done'], count['tokens'],
              metric('spot_serve_moves_total'), count['broken'], count['anew'], took[len(took) // 2], took[int(.99 * (len(took) - 1))],
              len(failed), differs['all'] - differs['other'], differs['all']), flush=True)
    return 1 if failed or (o['strict'] and differs['other']) else 0


try:
    rc = main()
finally:
    end_all()
    if not o['dir']:
        shutil.rmtree(top)
sys.exit(rc)
