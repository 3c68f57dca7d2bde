#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""openai_client.py CALM STORM: the package `openai` against two servers of one model.

Asks the same of both base URLs, one after the other of CALM and all at once of STORM, whose workers somebody may kill meanwhile:
texts, tokens, log probabilities, finish reasons and usage must be equal. Then what the package makes of errors. One line at the end."""
import asyncio, json, random, sys
import openai
from concurrent.futures import ThreadPoolExecutor

calm, storm = (openai.OpenAI(base_url=u + '/v1', api_key='none', timeout=120, max_retries=3) for u in sys.argv[1:3])
rng = random.Random(4)
SCHEMA = {'type': 'object', 'properties': {'n': {'type': 'integer'}, 's': {'type': 'string', 'maxLength': 6}},
          'required': ['n', 's'], 'additionalProperties': False}


def plain(x):
    """What was answered, without what is drawn or timed."""
    d = x.model_dump()
    for k in ('id', 'created', 'system_fingerprint', 'service_tier'):
        d.pop(k, None)
    return d


def completion(c, **k):
    return plain(c.completions.create(model='model', **k))


def chat(c, **k):
    return plain(c.chat.completions.create(model='model', messages=[{'role': 'user', 'content': 'the 7. line'}], **k))


def completion_stream(c, **k):
    text, logprob, finish, usage = {}, {}, {}, None
    for e in c.completions.create(model='model', stream=True, stream_options={'include_usage': True}, **k):
        usage = e.usage or usage
        for h in e.choices:
            text[h.index] = text.get(h.index, '') + h.text
            if h.logprobs:
                logprob.setdefault(h.index, []).extend(h.logprobs.token_logprobs)
            finish[h.index] = h.finish_reason or finish.get(h.index)
    assert usage and usage.completion_tokens, 'no usage'
    return {i: (text[i], logprob.get(i), finish[i]) for i in sorted(text)}, usage.model_dump()


def chat_stream(c, **k):
    text, finish, roles, top = '', None, 0, []
    for e in c.chat.completions.create(model='model', stream=True, messages=[{'role': 'user', 'content': 'the 9'}], **k):
        for h in e.choices:
            roles += h.delta.role == 'assistant'
            text += h.delta.content or ''
            finish = h.finish_reason or finish
            if h.logprobs:
                top += [(t.token, t.logprob, t.bytes) for x in h.logprobs.content for t in [x, *x.top_logprobs]]
    assert roles == 1, roles
    return text, finish, top


def whole_and_stream(c, **k):
    w = completion(c, **k)
    s, usage = completion_stream(c, **k)
    for h in w['choices']:
        assert s[h['index']] == (h['text'], h['logprobs'] and h['logprobs']['token_logprobs'], h['finish_reason']), (w, s)
    assert {a: b for a, b in usage.items() if a.endswith('tokens')} == {a: b for a, b in w['usage'].items() if a.endswith('tokens')}
    return w, s


def helper(c, **k):
    """The package's own reader of streams."""
    with c.chat.completions.stream(model='model', messages=[{'role': 'user', 'content': 'the'}], **k) as s:
        kinds = [e.type for e in s]
        f = s.current_completion_snapshot  # the final one is refused where the length was the end
    assert 'content.delta' in kinds and 'content.done' in kinds, set(kinds)
    return f.choices[0].message.content, f.choices[0].finish_reason


def schema(c, **k):
    d = chat(c, response_format={'type': 'json_schema', 'json_schema': {'name': 'a', 'schema': SCHEMA, 'strict': True}}, **k)
    v = json.loads(d['choices'][0]['message']['content'])
    assert set(v) == {'n', 's'} and isinstance(v['n'], int) and len(v['s']) <= 6, v
    return d


def parsed(c, **k):
    import pydantic

    class A(pydantic.BaseModel):
        model_config = {'extra': 'forbid'}
        n: int
        yes: bool
    r = c.chat.completions.parse(model='model', messages=[{'role': 'user', 'content': 'a'}], response_format=A, **k)
    return r.choices[0].message.parsed.model_dump()


asked = []
for i in range(10):
    p = 'the %d. line' % rng.randrange(400)
    asked += [
        (whole_and_stream, dict(prompt=p, max_tokens=40, temperature=0, logprobs=2)),
        (whole_and_stream, dict(prompt=p, max_tokens=60, temperature=1, seed=i, n=2, stop=['9', 'li'])),
        (whole_and_stream, dict(prompt=[p, 'a'], max_tokens=20, temperature=.8, seed=i, echo=True)),
        (completion, dict(prompt=[97, 98, 99], max_tokens=20, temperature=0, extra_body={'ignore_eos': True, 'top_k': 5, 'min_p': .01})),
        (completion, dict(prompt=p, max_tokens=0, echo=True, logprobs=1)),
        (chat, dict(max_completion_tokens=40, temperature=.7, top_p=.9, seed=i, logprobs=True, top_logprobs=3, user='u')),
        (chat, dict(max_tokens=30, temperature=1, seed=i, n=3, presence_penalty=.5, frequency_penalty=.5)),
        (chat_stream, dict(max_tokens=40, temperature=1.2, seed=i, logprobs=True, top_logprobs=2)),
        (helper, dict(max_tokens=20, temperature=0)),
        (schema, dict(seed=i, temperature=1, max_tokens=120)),
        (parsed, dict(seed=i, temperature=1, max_tokens=120)),
    ]
want = [f(calm, **k) for f, k in asked]
with ThreadPoolExecutor(12) as pool:
    got = list(pool.map(lambda a: a[0](storm, **a[1]), asked))
bad = [i for i in range(len(asked)) if got[i] != want[i]]
for i in bad[:3]:
    print('%s %s\n  wanted %s\n  got    %s' % (asked[i][0].__name__, asked[i][1], str(want[i])[:300], str(got[i])[:300]))


async def many():
    c = openai.AsyncOpenAI(base_url=sys.argv[2] + '/v1', api_key='none', timeout=120)

    async def one(i):
        s = await c.completions.create(model='model', prompt='the %d' % i, max_tokens=30, temperature=0, stream=True)
        text = ''
        async for e in s:
            text += e.choices[0].text
            if i % 8 == 7 and len(text) > 4:
                await s.close()  # it has heard enough
                break
        return text
    return await asyncio.gather(*(one(i) for i in range(32)))
for i, text in enumerate(asyncio.run(many())):
    alone = calm.completions.create(model='model', prompt='the %d' % i, max_tokens=30, temperature=0).choices[0].text
    if not (alone.startswith(text) if i % 8 == 7 else alone == text):
        bad.append(i)


def raises(kind, f, **has):
    try:
        f()
    except kind as e:
        for k, v in has.items():
            assert getattr(e, k) == v, (k, getattr(e, k), v)
        return
    raise AssertionError('no %s' % kind.__name__)


create, messages = calm.completions.create, [{'role': 'user', 'content': 'a'}]
raises(openai.NotFoundError, lambda: create(model='other', prompt='a'), code='model_not_found', param='model', status_code=404)
raises(openai.NotFoundError, lambda: calm.models.retrieve('other'), code='model_not_found')
raises(openai.NotFoundError, lambda: calm.responses.create(model='model', input='a'))
raises(openai.NotFoundError, lambda: calm.embeddings.create(model='model', input='a'))
raises(openai.BadRequestError, lambda: create(model='model', prompt='a' * 999), code='context_length_exceeded', type='invalid_request_error')
raises(openai.BadRequestError, lambda: create(model='model', prompt='a', temperature=3), param='temperature')
raises(openai.BadRequestError, lambda: create(model='model', prompt='a', logit_bias={'5': 101}), param='logit_bias')
raises(openai.BadRequestError, lambda: calm.chat.completions.create(model='model', messages=messages, tools=[
    {'type': 'function', 'function': {'name': 'f', 'parameters': {}}}]), param='tools')
raises(openai.BadRequestError, lambda: calm.chat.completions.create(model='model', messages=[]), param='messages')
assert [m.id for m in calm.models.list()] == ['model'] and calm.models.retrieve('model').id == 'model'
r = calm.completions.with_raw_response.create(model='model', prompt='a', max_tokens=1)
assert r.headers['content-type'] == 'application/json' and r.parse().choices[0].finish_reason == 'length'
print('openai %s: %d questions, %d different' % (openai.__version__, len(asked) + 32, len(bad)))
sys.exit(bool(bad))
