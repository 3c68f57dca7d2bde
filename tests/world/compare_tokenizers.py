#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goal: ids and texts are those of the library tokenizers, of each kind that is read, for random texts of
all of Unicode.

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
import unicodedata

try:
    import tokenizers
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    print("the module tokenizers is not here")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+"]
CUTS = {"llama3": [LLAMA3], "qwen": [QWEN], "o200k": [O200K], "deepseek": DEEPSEEK, "gpt2": [], "digits": [], "space": [], "qwen-space": [QWEN]}
SPECIAL = ["<unk>", "<s>", "</s>", "<|eot|>", "<|eot_id|>"]
CORPUS = ["the quick brown fox jumps over the lazy dog, doesn't it? It'll be 1234567 times.",
          "Größe, naïve café, señor; 東京は日本の首都です。 Привет, мир! مرحبا 😀😃 👩‍👩‍👧",
          "def f(x):\n    return x ** 2\n\n\n# a comment\r\n\tif x:\n        pass\n", "they're I'd WE'LL  a  b   c"]


def split(pattern, how="isolated", invert=False):
    return pre_tokenizers.Split(pattern, how, invert)


def unigram(size):
    t = tokenizers.Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.train_from_iterator(CORPUS * 3, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=SPECIAL[:3], unk_token="<unk>", show_progress=False))
    d = json.loads(t.to_str())
    d["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
    d["model"]["byte_fallback"] = True
    d["decoder"] = json.loads(decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    ).__getstate__())
    return tokenizers.Tokenizer.from_str(json.dumps(d))


def of_bytes(kind):
    t = tokenizers.Tokenizer(models.BPE(ignore_merges=kind in ("llama3", "o200k")))
    last = pre_tokenizers.ByteLevel(add_prefix_space=kind in ("digits", "space", "qwen-space"), use_regex=not CUTS[kind])
    cuts = [split(Regex(c)) for c in CUTS[kind]]
    if kind == "digits":
        cuts = [split(Regex(r"\p{P}+")), pre_tokenizers.Digits(individual_digits=True),
                split(" a", "merged_with_next"), split(Regex("[.,]+"), "merged_with_previous"),
                split(Regex(r"\S+"), "removed", True)]
    t.pre_tokenizer = pre_tokenizers.Sequence([*cuts, last]) if cuts else last
    if kind in ("qwen", "digits"):
        t.normalizer = normalizers.NFC() if kind == "qwen" else normalizers.Sequence(
            [normalizers.NFD(), normalizers.Replace(Regex(" {2,}"), "__"), normalizers.Prepend("^")])
    t.decoder = decoders.ByteLevel()
    return t


def trained(kind, size):
    if kind == "unigram":
        return unigram(size)
    if kind in CUTS:
        t = of_bytes(kind)
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        special = SPECIAL
    else:
        t = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        if kind == "llama2":
            t.normalizer = normalizers.Sequence(
                [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        elif kind == "gemma":
            t.normalizer = normalizers.Replace(" ", "▁")
            t.pre_tokenizer = split(" ", "merged_with_previous")
        else:
            t.pre_tokenizer = pre_tokenizers.Metaspace(
                prepend_scheme=kind.split("-")[1], split=kind.endswith("split"))
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        if kind not in ("metaspace-never", "gemma"):
            steps.append(decoders.Strip(" ", 1, 0))
        t.decoder = decoders.Sequence(steps) if kind != "metaspace-first-split" else decoders.Metaspace(
            prepend_scheme="first")
        alphabet = ["▁"]
        special = SPECIAL[:3] + [f"<0x{b:02X}>" for b in range(256)] + SPECIAL[3:]
    # short pieces, so that tokens do not become whole lines
    lines = [w for line in CORPUS for w in ([line] if kind in CUTS else
                                            [" ".join(p) for p in zip(line.split(" "), line.split(" ")[1:])])]
    t.train_from_iterator(lines * 3, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=special, show_progress=False))
    if kind not in CUTS:
        d = json.loads(t.to_str())  # tokens of single bytes are no names
        d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
        t = tokenizers.Tokenizer.from_str(json.dumps(d))
    t.add_tokens([tokenizers.AddedToken("<|left|>", lstrip=True, normalized=False),
                  tokenizers.AddedToken("<|right|>", rstrip=True, normalized=True),
                  tokenizers.AddedToken("wording", single_word=True, normalized=kind != "llama2")])
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
            lambda: r.choice(SPECIAL + ["<|left|>", "<|right|>", "wording", " wording ", "<|", "|>", "<0x41>", "▁", "▁▁a"]),
            lambda: r.choice(["²", "Ⅷ", "٣", "①", "ß", "ﬁ", "é", "é", "👩‍👩‍👧", "🇩🇪", "한국어", "ไทย"]),
        ])())
    return "".join(parts)


def compare(kind, t, texts, tool, way):
    """ways: "named": each name is its token; "text": only those that are not special; "no": there are none."""
    if kind in ("qwen", "digits"):  # the library's tables of combining characters are of an older Unicode
        form, f = ("NFC", normalizers.NFC()) if kind == "qwen" else ("NFD", normalizers.NFD())
        texts = [x for x in texts if f.normalize_str(x) == unicodedata.normalize(form, x)]
    doc = json.loads(t.to_str())
    with tempfile.TemporaryDirectory() as d:
        path = d + "/tokenizer.json"
        if way == "no":
            doc["added_tokens"] = [a for a in doc["added_tokens"] if a["special"]]
        pathlib.Path(path).write_text(json.dumps(doc))
        if way != "named":
            doc["added_tokens"] = [a for a in doc["added_tokens"] if not a["special"]]
            t = tokenizers.Tokenizer.from_str(json.dumps(doc))
        got = subprocess.run([tool, path] + ["named"] * (way == "named"), check=True, stdout=subprocess.PIPE,
                             input="".join(x.encode().hex() + "\n" for x in texts).encode())
    lines = got.stdout.decode().splitlines()
    assert len(lines) == len(texts)
    for text, line in zip(texts, lines):
        ids, decoded = line.split("|")
        ids = [int(i) for i in ids.split()]
        want = t.encode(text, add_special_tokens=False).ids
        if ids != want:
            sys.exit(f"{kind} {way}: {text!r}:\n{ids}, expected\n{want}")
        plain = t.decode(want, skip_special_tokens=True)
        if bytes.fromhex(decoded).decode() != plain:
            sys.exit(f"{kind} {way}: ids {want}:\n{bytes.fromhex(decoded).decode()!r}, expected\n{plain!r}")


def write_vectors():
    here = pathlib.Path(__file__).parent.parent / "data" / "bpe"
    for kind, size in (("llama3", 320), ("llama2", 380), ("qwen", 320), ("deepseek", 320), ("o200k", 320),
                       ("digits", 320), ("gemma", 380), ("metaspace-first-split", 380), ("unigram", 120)):
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
                                 "metaspace-never", "qwen", "deepseek", "o200k", "digits", "space", "qwen-space", "gemma", "unigram",
                                 "metaspace-first-split", "metaspace-always-split"]):
        r = random.Random(seed)
        t = trained(kind, 620)
        # names of the last kind are words as any; those that a normalizer changes, or the spaces that they take, are looked for behind it
        for way in ("named",) if kind == "unigram" else ("named", "no") if kind in ("digits", "llama2", "gemma") else ("named", "text", "no"):
            compare(kind, t, [any_text(r) for _ in range(n)], sys.argv[1], way)
        print(f"{kind}: {n} texts, each way")


main()
