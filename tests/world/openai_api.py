#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""openai_api.py URL: ask a server of a random model, of one worker, by the methods of the package openai, and look at
what they return. Prints a line for each case, and at the end how many failed. docs/results/api.md has them as a table."""
import json, sys
from openai import BadRequestError, NotFoundError, OpenAI

SCHEMA = {'type': 'object', 'properties': {'city': {'enum': ['Paris', 'Rome']}, 'days': {'type': 'integer', 'minimum': 1,
          'maximum': 9}}, 'required': ['city', 'days'], 'additionalProperties': False}
TOOL = {'type': 'function', 'function': {'name': 'get_weather', 'parameters': SCHEMA}}
FLAT = {'type': 'function', 'name': 'get_weather', 'parameters': SCHEMA, 'strict': True}
NAMED = {'type': 'function', 'function': {'name': 'get_weather'}}
SAID = [{'role': 'user', 'content': 'hello'}]
failed = 0


def case(name, holds):
    global failed
    failed += not holds
    print('ok' if holds else 'FAILED', name)


def refused(kind, f, param=None):
    try:
        f()
    except kind as e:
        return param is None or e.param == param
    return False


def is_weather(arguments):
    v = json.loads(arguments)
    return v['city'] in ('Paris', 'Rome') and 1 <= v['days'] <= 9 and len(v) == 2


def models(c, m):
    case('models: list and retrieve', [x.id for x in c.models.list()] == [m] and c.models.retrieve(m).id == m)
    case('models: an unknown one is not found', refused(NotFoundError, lambda: c.models.retrieve('none')))
    case('chat: an unknown model is not found',
         refused(NotFoundError, lambda: c.chat.completions.create(model='none', messages=SAID)))


def chats(c, m):
    ask = lambda **more: c.chat.completions.create(model=m, messages=SAID, **{'max_tokens': 6, 'seed': 1, **more})
    one = ask()
    case('chat: usage and length', one.usage.completion_tokens == 6 and one.choices[0].finish_reason == 'length')
    case('chat: a seed gives the answer again', ask().choices[0].message.content == one.choices[0].message.content)
    told = list(ask(stream=True, stream_options={'include_usage': True}))
    case('chat: a stream is the answer', ''.join(x.choices[0].delta.content or '' for x in told if x.choices) ==
         one.choices[0].message.content)
    case('chat: the role comes first, usage last, without choices', told[0].choices[0].delta.role == 'assistant' and
         not told[-1].choices and told[-1].usage.completion_tokens == 6)
    case('chat: n choices', len(ask(n=3).choices) == 3)
    logs = ask(logprobs=True, top_logprobs=2).choices[0].logprobs.content
    case('chat: logprobs', len(logs) == 6 and all(len(x.top_logprobs) == 2 for x in logs))
    schema = {'type': 'json_schema', 'json_schema': {'name': 'w', 'schema': SCHEMA, 'strict': True}}
    case('chat: json_schema', is_weather(ask(response_format=schema, max_tokens=60).choices[0].message.content))
    case('chat: max_completion_tokens', c.chat.completions.create(
        model=m, messages=SAID, max_completion_tokens=3).usage.completion_tokens == 3)
    case('chat: parts that are texts', c.chat.completions.create(model=m, max_tokens=1, messages=[
        {'role': 'user', 'content': [{'type': 'text', 'text': 'hello'}]}]).usage.prompt_tokens == one.usage.prompt_tokens)
    case('chat: a temperature of 3 is refused by name', refused(BadRequestError, lambda: ask(temperature=3), 'temperature'))


def tools(c, m):
    ask = lambda **more: c.chat.completions.create(model=m, tools=[TOOL], **{
        'messages': SAID, 'seed': 3, 'max_tokens': 110, 'parallel_tool_calls': False, **more})
    one = ask(tool_choice='required').choices[0]
    call = one.message.tool_calls[0]
    case('tools: required is one call with arguments of the schema, and no text', one.finish_reason == 'tool_calls' and
         len(one.message.tool_calls) == 1 and is_weather(call.function.arguments) and one.message.content is None)
    case('tools: named', ask(tool_choice=NAMED).choices[0].message.tool_calls[0].function.name == 'get_weather')
    case('tools: ids are a function of the seed', ask(tool_choice='required').choices[0].message.tool_calls[0].id == call.id)
    with c.chat.completions.stream(model=m, messages=SAID, tools=[TOOL], tool_choice='required', seed=3, max_tokens=110,
                                   parallel_tool_calls=False) as s:
        for _ in s:
            pass
        whole = s.get_final_completion().choices[0]
    case('tools: deltas, joined by the client, are the call', whole.finish_reason == 'tool_calls' and
         whole.message.tool_calls[0].function.arguments == call.function.arguments and
         whole.message.tool_calls[0].id == call.id)
    case('tools: none is text', ask(tool_choice='none', max_tokens=3).choices[0].message.tool_calls is None)
    case('tools: auto, not strict, is free', ask(max_tokens=3).usage.completion_tokens == 3)
    talk = SAID + [{'role': 'assistant', 'content': None, 'tool_calls': [call.model_dump(exclude={'index'})]},
                   {'role': 'tool', 'tool_call_id': call.id, 'content': 'sunny'}]
    case('tools: a call and its result go into the prompt', ask(messages=talk, max_tokens=2).usage.prompt_tokens >
         ask(max_tokens=2).usage.prompt_tokens)
    case('tools: a choice that is no tool is refused by name', refused(
        BadRequestError, lambda: ask(tool_choice={'type': 'function', 'function': {'name': 'f'}}), 'tool_choice'))


def completions(c, m):
    ask = lambda **more: c.completions.create(model=m, **{'prompt': 'a', 'max_tokens': 8, 'seed': 2, **more})
    ids = lambda r: r.choices[0].model_extra['token_ids']
    ours = lambda **more: ask(extra_body={'return_token_ids': True, **more})
    case('completions: several prompts of tokens', len(ask(prompt=[[1, 2, 3], [4, 5]]).choices) == 2)
    case('completions: echo with logprobs has the prompt', len(ask(echo=True, logprobs=1).choices[0].logprobs.tokens) == 9)
    case('completions: return_token_ids', len(ids(ours())) == 8 and
         ours().choices[0].model_extra['prompt_token_ids'] == [97])
    stop = ids(ours())[3]
    ended = ours(stop_token_ids=[stop])
    case('completions: stop_token_ids', ended.choices[0].finish_reason == 'stop' and ids(ended)[-1] == stop and
         ids(ended) == ids(ours())[:len(ids(ended))])
    case('completions: min_tokens', len(ids(ours(min_tokens=8, stop_token_ids=[stop]))) == 8 and
         stop not in ids(ours(min_tokens=8, stop_token_ids=[stop])))
    text = ask().choices[0].text
    mark = next((x for x in text[1:] if x.isascii() and x.isprintable()), text[-1])
    case('completions: stop, and include_stop_str_in_output', mark not in ask(stop=mark).choices[0].text and
         ask(stop=mark, extra_body={'include_stop_str_in_output': True}).choices[0].text.endswith(mark))
    case('completions: guided_choice', ask(extra_body={'guided_choice': ['yes', 'no']}).choices[0].text in ('yes', 'no'))
    regex = ask(max_tokens=20, extra_body={'structured_outputs': {'regex': '[ab]{3}-x'}}).choices[0].text
    case('completions: structured_outputs.regex', len(regex) == 5 and set(regex[:3]) <= set('ab') and regex[3:] == '-x')
    case('completions: top_k 1 is greedy', ids(ours(top_k=1)) == ids(ours(temperature=0)))
    case('completions: n', len({x.text for x in ask(n=4).choices}) > 1 and len(ask(n=4).choices) == 4)
    case('completions: logit_bias', ids(ours(logit_bias={'98': 100}, temperature=0)) == [98] * 8)
    long = lambda: ours(prompt=[(i * 37 + 11) % 256 for i in range(70)], logprobs=3)
    first, again = long(), long()
    case('completions: a prompt that is in the cache gives the same tokens and logprobs', ids(first) == ids(again) and
         first.choices[0].logprobs.token_logprobs == again.choices[0].logprobs.token_logprobs and
         again.usage.prompt_tokens_details.cached_tokens == 64)
    case('completions: best_of is refused by name', refused(BadRequestError, lambda: ask(best_of=2), 'best_of'))


def responses(c, m):
    ask = lambda **more: c.responses.create(model=m, **{'input': 'hello', 'max_output_tokens': 6, **more})
    forced = {'tools': [FLAT], 'tool_choice': 'required', 'parallel_tool_calls': False, 'max_output_tokens': 110}
    one = ask(instructions='be brief')
    case('responses: text, usage, incomplete', one.output_text and one.usage.output_tokens == 6 and
         one.status == 'incomplete' and one.incomplete_details.reason == 'max_output_tokens' and not one.store)
    call = ask(**forced).output[0]
    case('responses: a call of a tool', call.type == 'function_call' and is_weather(call.arguments))
    case('responses: a call and its result as input', ask(input=[
        {'role': 'user', 'content': 'x'}, call.model_dump(),
        {'type': 'function_call_output', 'call_id': call.call_id, 'output': 'sunny'}]).usage.output_tokens == 6)
    told = list(ask(stream=True))
    case('responses: events', told[0].type == 'response.created' and told[-1].type == 'response.incomplete' and
         [e.sequence_number for e in told] == list(range(len(told))) and ''.join(
             e.delta for e in told if e.type == 'response.output_text.delta') == told[-1].response.output_text)
    with c.responses.stream(model=m, input='hello', **forced) as s:
        for _ in s:
            pass
        case('responses: events of a call, joined by the client', is_weather(s.get_final_response().output[0].arguments))
    text = {'format': {'type': 'json_schema', 'name': 'w', 'schema': SCHEMA}}
    case('responses: text.format', is_weather(ask(text=text, max_output_tokens=60).output_text))
    for key, value in {'previous_response_id': 'resp_1', 'store': True, 'background': True}.items():
        case('responses: %s is refused by name' % key, refused(BadRequestError, lambda: ask(**{key: value}), key))


def embeddings(c, m):
    ask = lambda text, **more: c.embeddings.create(model=m, input=text, **more)
    both = ask(['hello', 'good day'])
    length = lambda v: sum(x * x for x in v) ** .5
    case('embeddings: several texts, of length 1', [x.index for x in both.data] == [0, 1] and
         all(abs(length(x.embedding) - 1) < 1e-6 for x in both.data) and both.usage.prompt_tokens == both.usage.total_tokens)
    case('embeddings: base64, which the client takes by itself, and floats are the same',
         ask('hello', encoding_format='float').data[0].embedding == both.data[0].embedding)
    part = ask('hello', dimensions=3).data[0].embedding
    case('embeddings: dimensions', len(part) == 3 and abs(length(part) - 1) < 1e-6)
    case('embeddings: tokens, of one text and of several',
         len(ask([5, 6, 7]).data) == 1 and len(ask([[5, 6], [7]]).data) == 2)
    case('embeddings: no text is refused by name', refused(BadRequestError, lambda: ask(''), 'input'))
    case('embeddings: an unknown model is not found', refused(NotFoundError, lambda: c.embeddings.create(model='none', input='a')))


client = OpenAI(base_url=sys.argv[1] + '/v1', api_key=sys.argv[2] if len(sys.argv) > 2 else 'none', max_retries=0)
for part in (models, chats, tools, completions, responses, embeddings):
    part(client, client.models.list().data[0].id)
print(failed, 'failed')
sys.exit(failed > 0)
