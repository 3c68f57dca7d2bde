#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_perplexity.py BUILD MODEL.gguf TEXT [LLAMA_PERPLEXITY] - perplexity of a text beside llama.cpp's of the same file.

Windows of 512 tokens of which the first is the begin token and the second half counts, as llama-perplexity does it. BUILD is
build/release. Fails if a type of ours is off by more than half a percent."""
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

WINDOW = 512
build, gguf, text, *peer = sys.argv[1:]


def windows(where):
    """Tokens of the text, the begin token first, and again in place of the first of each window."""
    tool = [build + "/bin/spot-run", "tokenize", "--quiet", "--tokenizer", where, "--tokens", "u32", text]
    raw = subprocess.run(tool, stdout=subprocess.PIPE, check=True).stdout
    begin = json.load(open(where + "/config.json", encoding="utf-8")).get("bos_token_id", 2)
    tokens = [begin, *struct.unpack(f"<{len(raw) // 4}I", raw)]
    return [begin if i % WINDOW == 0 else t for i, t in enumerate(tokens)]


with tempfile.TemporaryDirectory() as where:
    subprocess.run([build + "/bin/spot-run", "import", os.path.abspath(gguf), where + "/m"], check=True)
    where += "/m"
    tokens = windows(where)
    config = json.load(open(where + "/config.json", encoding="utf-8"))
    json.dump(dict(config, max_position_embeddings=WINDOW), open(where + "/config.json", "w", encoding="utf-8"))
    text_of = " ".join(map(str, tokens)).encode()
    ours = {}
    for kind in ("fp32", "bf16", "q8"):
        out = subprocess.run([build + "/tests/logits", where, kind, "1", "half"], input=text_of, stdout=subprocess.PIPE, check=True)
        ours[kind] = math.exp(float(out.stdout))
if not peer:
    print(len(tokens), "tokens", ours)
    sys.exit(0)
said = subprocess.run([peer[0], "-m", gguf, "-f", text, "-c", str(WINDOW), "-t", "2", "--no-warmup"], stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT, check=True).stdout.decode()
theirs = float(re.search(r"Final estimate: PPL = ([0-9.]+)", said)[1])
print(f"{len(tokens)} tokens, llama.cpp {theirs:.4f}")
for kind, value in ours.items():
    print(f"| {kind} | {value:.4f} | {value / theirs - 1:+.2%} |")
sys.exit(any(abs(value / theirs - 1) > .005 for value in ours.values()))
