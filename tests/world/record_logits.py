#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""record_logits.py TINY - what transformers, in fp32, makes of the random models of tests/data/models/configs.txt,
which the program TINY writes: logits at two positions of a prompt of 24 tokens, and 64 greedy tokens. Prints the file
tests/data/models/logits.txt; run at the root of the source."""
import subprocess
import sys
import tempfile

import torch
import transformers

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
print(f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}")
for line in open("tests/data/models/configs.txt", encoding="utf-8"):
    name = line.split(" ", 1)[0]
    with tempfile.TemporaryDirectory() as where, torch.no_grad():
        subprocess.run([sys.argv[1], name, where], check=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            where, dtype=torch.float32, attn_implementation="eager").eval()
        vocab = model.config.vocab_size
        tokens = [(5 + 7 * i + 3 * i * i) % vocab for i in range(24)]
        rows = model(torch.tensor([tokens]), use_cache=False).logits[0]
        for at in (5, 23):
            print(name, "logits", at, *(f"{x:.6g}" for x in rows[at].tolist()))
        more = []
        for _ in range(64):
            more.append(int(model(torch.tensor([tokens + more]), use_cache=False).logits[0, -1].argmax()))
        print(name, "greedy", 0, *more)
