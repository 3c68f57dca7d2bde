#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goal: templates of public models give what jinja2 gives with the settings of transformers, for conversations
with a system, tools, their results, several turns, thoughts, parts, and wrong orders; and both refuse the same.

usage: compare_templates.py TEMPLATES [FILE|DIR...]   TEMPLATES is tests/tool/templates.c

Without files those that the packages vllm, axolotl and litellm bring are taken, or those below
$SPOT_TEMPLATES. Exit status 77: jinja2 or templates are not here.
"""
import datetime
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import jinja2
    import jinja2.sandbox
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
except ImportError:
    print("the module jinja2 is not here")
    sys.exit(77)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _said(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                   extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(1750000000, datetime.timezone.utc).strftime(f)


def oracle(template, context):
    try:
        return "O" + env.from_string(template).render(**context)
    except Exception as e:  # whatever a template makes of what it is given
        return f"E{type(e).__name__}: {e}"


TOOLS = [{'type': 'function',
  'function': {'name': 'get_weather',
               'description': 'Weather <now> & "here" in Köln',
               'parameters': {'type': 'object',
                              'properties': {'city': {'type': 'string',
                                                      'description': 'A city',
                                                      'enum': ['Köln', '東京']},
                                             'days': {'type': 'integer', 'default': 3},
                                             'opt': {'anyOf': [{'type': 'string'}, {'type': 'null'}]},
                                             'list': {'type': 'array', 'items': {'type': 'number'}}},
                              'required': ['city']},
               'return': {'type': 'string', 'description': 'text'}}},
 {'type': 'function',
  'function': {'name': 'noop', 'description': 'Does nothing', 'parameters': {'type': 'object', 'properties': {}}}}]



TALKS = {'one': [{'role': 'user', 'content': 'Hi there  '}],
 'sys': [{'role': 'system', 'content': ' Be brief.\n'},
         {'role': 'user', 'content': 'Grüße 東京 👍\n'},
         {'role': 'assistant', 'content': '\n\nHello.'},
         {'role': 'user', 'content': 'x\t'}],
 'multi': [{'role': 'user', 'content': 'a'},
           {'role': 'assistant', 'content': 'b'},
           {'role': 'user', 'content': 'c'},
           {'role': 'assistant', 'content': 'd'},
           {'role': 'user', 'content': 'e'}],
 'empty': [{'role': 'user', 'content': ''},
           {'role': 'assistant', 'content': ''},
           {'role': 'user', 'content': 'more'}],
 'think': [{'role': 'user', 'content': 'q'},
           {'role': 'assistant', 'content': '<think>\nhm\n</think>\n\nans'},
           {'role': 'user', 'content': 'again'}],
 'reason': [{'role': 'user', 'content': 'q'},
            {'role': 'assistant', 'content': 'ans', 'reasoning_content': 'because'},
            {'role': 'user', 'content': 'again'}],
 'tool': [{'role': 'system', 'content': 'S'},
          {'role': 'user', 'content': 'w?'},
          {'role': 'assistant',
           'content': '',
           'tool_calls': [{'id': 'abcdefghi',
                           'type': 'function',
                           'function': {'name': 'get_weather', 'arguments': {'city': 'Köln', 'days': 2}}}]},
          {'role': 'tool', 'name': 'get_weather', 'tool_call_id': 'abcdefghi', 'content': '{"t": 7.5}'},
          {'role': 'assistant', 'content': 'It is 7.5.'},
          {'role': 'user', 'content': 'thanks'}],
 'tool2': [{'role': 'user', 'content': 'w?'},
           {'role': 'assistant',
            'content': '',
            'tool_calls': [{'id': 'abcdefghi',
                            'type': 'function',
                            'function': {'name': 'get_weather', 'arguments': '{"city": "Köln"}'}}]},
           {'role': 'tool', 'tool_call_id': 'abcdefghi', 'content': '7'}],
 'toolpar': [{'role': 'user', 'content': 'w?'},
             {'role': 'assistant',
              'content': None,
              'tool_calls': [{'id': 'aaaaaaaaa',
                              'type': 'function',
                              'function': {'name': 'get_weather',
                                           'arguments': {'city': 'A', 'x': 1.5, 'y': True, 'z': None}}},
                             {'id': 'bbbbbbbbb', 'type': 'function', 'function': {'name': 'noop', 'arguments': {}}}]},
             {'role': 'tool', 'name': 'get_weather', 'tool_call_id': 'aaaaaaaaa', 'content': '1'},
             {'role': 'tool', 'name': 'noop', 'tool_call_id': 'bbbbbbbbb', 'content': '2'}],
 'parts': [{'role': 'system', 'content': [{'type': 'text', 'text': 'S'}]},
           {'role': 'user', 'content': [{'type': 'text', 'text': 'one'}, {'type': 'text', 'text': 'two'}]},
           {'role': 'assistant', 'content': [{'type': 'text', 'text': 'three'}]}],
 'bad': [{'role': 'assistant', 'content': 'a'}, {'role': 'user', 'content': 'b'}, {'role': 'user', 'content': 'c'}],
 'role': [{'role': 'developer', 'content': 'd'}, {'role': 'user', 'content': 'b'}],
 'pfx': [{'role': 'user', 'content': 'b'}, {'role': 'assistant', 'content': 'Sure,'}]}
GIVEN = [
    {},
    {"add_generation_prompt": True},
    {"add_generation_prompt": True, "tools": TOOLS},
    {"add_generation_prompt": True, "enable_thinking": False, "tools": TOOLS,
     "documents": [{"title": "T", "text": "body\nx", "contents": "cc"}]},
    {"add_generation_prompt": True, "date_string": "01 Jan 2025", "thinking": True, "tools_in_user_message": False,
     "tools": TOOLS, "custom_tools": TOOLS},
]


def contexts():
    for name, talk in TALKS.items():
        for i, given in enumerate(GIVEN):
            yield f"{name}/{i}", dict(messages=talk, bos_token="<s>", eos_token="</s>", unk_token="<unk>", **given)


def templates(named):
    if not named and os.environ.get("SPOT_TEMPLATES"):
        named = [os.environ["SPOT_TEMPLATES"]]
    if not named:
        specs = [importlib.util.find_spec(p) for p in ("vllm", "axolotl", "litellm")]
        named = [str(pathlib.Path(s.origin).parent) for s in specs if s]
    return sorted({f for n in named for f in (pathlib.Path(n).rglob("*.jinja") if os.path.isdir(n) else [pathlib.Path(n)])})


def main():
    files, given = templates(sys.argv[2:]), list(contexts())
    if not files:
        print("no templates are here")
        sys.exit(77)
    same = refused = 0
    different = {}
    with tempfile.TemporaryDirectory() as d:
        for i, (_, context) in enumerate(given):
            pathlib.Path(f"{d}/c{i}").write_text(json.dumps(context, ensure_ascii=False))
        lines = "".join(f"{f}\t{d}/c{i}\t{d}/o{k}_{i}\n" for k, f in enumerate(files) for i in range(len(given)))
        subprocess.run([sys.argv[1]], input=lines, text=True, check=True)
        for k, f in enumerate(files):
            text = f.read_text()
            for i, (name, context) in enumerate(given):
                want = oracle(text, context)
                got = pathlib.Path(f"{d}/o{k}_{i}").read_bytes().decode()
                if want == got or want[0] == got[0] == "E":
                    same += 1
                    refused += want[0] == "E"
                else:
                    different.setdefault(f, []).append((name, want, got))
    for f, cases in different.items():
        name, want, got = cases[0]
        print(f"{f}: {len(cases)} differ, {name}\n  expected {want[:300]!r}\n  got      {got[:300]!r}")
    print(f"{len(files)} templates, {len(given)} conversations: {same} the same, of which both refuse {refused}, "
          f"{sum(map(len, different.values()))} different")
    sys.exit(bool(different))


main()
