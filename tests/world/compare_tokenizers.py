#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goal: ids and texts are those of the library tokenizers, of GPT-2's, Llama 3's and Llama 2's
kind, for random texts of all of Unicode.

usage: compare_tokenizers.py TOKENS [N]    TOKENS is tests/tool/tokens.c, N texts of each kind and way
       compare_tokenizers.py --vectors     write tests/data/bpe/KIND.json, KIND.txt: text|ids|text

Exit status 77: the library is not here.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import tokenizers
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    print("the module tokenizers is not here")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<unk>", "<s>", "</s>", "<|eot|>", "<|eot_id|>"]
CORPUS = ["the quick brown fox jumps over the lazy dog, doesn't it? It'll be 1234567 times.",
          "Größe, naïve café, señor; 東京は日本の首都です。 Привет, мир! مرحبا 😀😃 👩‍👩‍👧",
          "def f(x):\n    return x ** 2\n\n\n# a comment\r\n\tif x:\n        pass\n", "they're I'd WE'LL  a  b   c"]


def trained(kind, size):
    if kind in ("gpt2", "llama3"):
        t = tokenizers.Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if kind == "llama3":
            t.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Split(Regex(LLAMA3), "isolated", invert=False),
                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        special = SPECIAL
    else:
        t = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        if kind == "llama2":
            t.normalizer = normalizers.Sequence(
                [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        else:
            t.pre_tokenizer = pre_tokenizers.Metaspace(
                prepend_scheme=kind.split("-")[1], split=False)
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        if kind != "metaspace-never":
            steps.append(decoders.Strip(" ", 1, 0))
        t.decoder = decoders.Sequence(steps)
        alphabet = ["▁"]
        special = SPECIAL[:3] + [f"<0x{b:02X}>" for b in range(256)] + SPECIAL[3:]
    # short pieces, so that tokens do not become whole lines
    lines = [w for line in CORPUS for w in ([line] if kind in ("gpt2", "llama3") else
                                            [" ".join(p) for p in zip(line.split(" "), line.split(" ")[1:])])]
    t.train_from_iterator(lines * 3, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=special, show_progress=False))
    if kind not in ("gpt2", "llama3"):
        d = json.loads(t.to_str())  # tokens of single bytes are no names
        d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
        t = tokenizers.Tokenizer.from_str(json.dumps(d))
    return t


def any_char(r):
    while True:
        c = r.choice([r.randrange(1, 128), r.randrange(1, 0x3000), r.randrange(1, 0x110000),
                      r.randrange(0x4E00, 0x9FFF), r.randrange(0x1F300, 0x1FAFF)])
        if not 0xD800 <= c < 0xE000 and c != 0:
            return chr(c)


def any_text(r):
    parts = []
    for _ in range(r.randrange(0, 12)):
        parts.append(r.choice([
            lambda: r.choice(CORPUS)[r.randrange(60):][:r.randrange(30)],
            lambda: r.choice([" ", "\n", "\r\n", "\t", "\u3000", "\u00a0", "\x85", "\u2028"]) * r.randrange(1, 5),
            lambda: "".join(r.choice(" \n\r\ta1.") for _ in range(r.randrange(12))),
            lambda: str(r.randrange(10 ** r.randrange(1, 12))),
            lambda: r.choice(["'s", "'S", "'LL", "'ve", "'\u017f", "'D", "'Re", "'", "''t", "\u2019s"]),
            lambda: "".join(any_char(r) for _ in range(r.randrange(6))),
            lambda: r.choice(SPECIAL + ["<|", "|>", "<0x41>", "▁", "▁▁a"]),
            lambda: r.choice(["²", "Ⅷ", "٣", "①", "ß", "ﬁ", "é", "é", "👩‍👩‍👧", "🇩🇪", "한국어", "ไทย"]),
        ])())
    return "".join(parts)


def compare(kind, t, texts, tool, named):
    with tempfile.TemporaryDirectory() as d:
        path = d + "/tokenizer.json"
        t.save(path)
        if not named:  # names are text
            doc = json.loads(t.to_str())
            doc["added_tokens"] = []
            t = tokenizers.Tokenizer.from_str(json.dumps(doc))
        got = subprocess.run([tool, path] + ["named"] * named, check=True, stdout=subprocess.PIPE,
                             input="".join(x.encode().hex() + "\n" for x in texts).encode())
    lines = got.stdout.decode().splitlines()
    assert len(lines) == len(texts)
    for text, line in zip(texts, lines):
        ids, decoded = line.split("|")
        ids = [int(i) for i in ids.split()]
        want = t.encode(text, add_special_tokens=False).ids
        if ids != want:
            sys.exit(f"{kind} named={named}: {text!r}:\n{ids}, expected\n{want}")
        plain = t.decode(want, skip_special_tokens=True)
        if bytes.fromhex(decoded).decode() != plain:
            sys.exit(f"{kind} named={named}: ids {want}:\n{bytes.fromhex(decoded).decode()!r}, expected\n{plain!r}")


def write_vectors():
    here = pathlib.Path(__file__).parent.parent / "data" / "bpe"
    for kind, size in (("llama3", 320), ("llama2", 380)):
        r = random.Random(7)
        t = trained(kind, size)
        d = json.loads(t.to_str())
        (here / f"{kind}.json").write_text(json.dumps(d, ensure_ascii=False) + "\n")
        with (here / f"{kind}.txt").open("w") as out:
            for text in [any_text(r) for _ in range(60)]:
                ids = t.encode(text, add_special_tokens=False).ids
                plain = t.decode(ids, skip_special_tokens=True)
                out.write(f"{text.encode().hex()}|{' '.join(map(str, ids))}|{plain.encode().hex()}\n")


def main():
    if sys.argv[1] == "--vectors":
        write_vectors()
        return
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    for seed, kind in enumerate(["gpt2", "llama3", "llama2", "metaspace-first", "metaspace-always",
                                 "metaspace-never"]):
        r = random.Random(seed)
        t = trained(kind, 620)
        for named in (False, True):
            compare(kind, t, [any_text(r) for _ in range(n)], sys.argv[1], named)
        print(f"{kind}: {2 * n} texts")


main()
