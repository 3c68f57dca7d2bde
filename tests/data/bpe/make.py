#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the files beside it: a small byte-level vocabulary, and the ids of text.txt.

usage: make.py TEXT...   (any plain text to learn pairs from; needs tokenizers and tiktoken)

The ids come from two implementations that share no code with each other or with spot:
both must agree before ids.txt is written.
"""
import json
import pathlib
import sys

import tiktoken
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

here = pathlib.Path(__file__).parent
text = (here / "text.txt").read_bytes().decode()

hf = tokenizers.Tokenizer(models.BPE())
hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
hf.decoder = decoders.ByteLevel()
hf.train(sys.argv[1:] + [str(here / "text.txt")], trainers.BpeTrainer(
    vocab_size=700, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    special_tokens=["<|endoftext|>"], show_progress=False))
hf.save(str(here / "tokenizer.json"))
model = json.loads(hf.to_str())["model"]
vocab = model["vocab"]
(here / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
(here / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")

printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
other = [b for b in range(256) if b not in printable]
byte_of = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(other)}
as_bytes = lambda token: bytes(byte_of[c] for c in token)
# tiktoken merges by one rank per token: single bytes first, then in the order of the merges
ranks = {bytes([b]): b for b in range(256)}
id_of = {b: vocab[c] for c, b in byte_of.items()}
for merge in merges:
    id_of[len(ranks)] = vocab[merge.replace(" ", "")]
    ranks[as_bytes(merge.replace(" ", ""))] = len(ranks)
gpt2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
tt = tiktoken.Encoding("small", pat_str=gpt2, mergeable_ranks=ranks, special_tokens={})
ids = [id_of[r] for r in tt.encode_ordinary(text)]
# tokenizers finds names of special tokens in text; spot and tiktoken's encode_ordinary do not
assert "<|endoftext|>" not in text
assert ids == hf.encode(text).ids, "the two do not agree"
(here / "ids.txt").write_text("".join(f"{i}\n" for i in ids))
print(len(vocab), "tokens,", len(text.encode()), "bytes are", len(ids), "ids")
