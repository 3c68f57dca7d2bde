#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""record_logits.py TINY - what transformers, in fp32, makes of the random models of tests/data/models/configs.txt,
which the program TINY writes: logits at two positions of a prompt of 24 tokens, and 64 greedy tokens; the state behind
the last norm at position 23 and the mean of all; and with peft, for two adapters, logits at position 23. Prints the
file tests/data/models/logits.txt; run at the root of the source."""
import os
import subprocess
import sys
import tempfile

import peft
import torch
import transformers

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
print(f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, peft {peft.__version__}")


def load(where):
    return transformers.AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32, attn_implementation="eager").eval()


def record(name, what, at, row):
    print(name, what, at, *(f"{x:.6g}" for x in row.tolist()))


for line in open("tests/data/models/configs.txt", encoding="utf-8"):
    name, config = line.strip().split(" ", 1)
    with tempfile.TemporaryDirectory() as where, torch.no_grad():
        subprocess.run([sys.argv[1], name, where], check=True)
        model = load(where)
        vocab = model.config.vocab_size
        tokens = [(5 + 7 * i + 3 * i * i) % vocab for i in range(24)]
        rows = model(torch.tensor([tokens]), use_cache=False).logits[0]
        for at in (5, 23):
            record(name, "logits", at, rows[at])
        more = []
        for _ in range(64):
            more.append(int(model(torch.tensor([tokens + more]), use_cache=False).logits[0, -1].argmax()))
        print(name, "greedy", 0, *more)
        states = model.base_model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
        record(name, "state", 23, states[23])
        record(name, "mean", 23, states.double().mean(0))
        for which in (1, 2):
            adapter = os.path.join(where, str(which))
            os.mkdir(adapter)
            subprocess.run([sys.argv[1], name, adapter, config, str(which)], check=True)
            adapted = peft.PeftModel.from_pretrained(load(where), adapter).eval()
            record(name, f"adapted{which}", 23, adapted(torch.tensor([tokens]), use_cache=False).logits[0, 23])
