#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""record_training.py TINY - five AdamW steps of PyTorch, in fp64, on the dense random models of
tests/data/models/configs.txt, which the program TINY writes: before each step the mean cross-entropy of its three
sequences and the norm of its gradient, and after the last one, of each tensor, sum and sum of squares. Clipped to
a norm of 1, decay on matrices only. Prints the file tests/data/models/training.txt; run at the root of the source."""
import subprocess
import sys
import tempfile

import torch
import transformers

STEPS, SEQUENCES, LENGTH = 5, 3, 20
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()


def tokens_of(step, vocab):
    return torch.tensor([[(5 + 7 * i + 3 * i * i + 11 * (step * SEQUENCES + s)) % vocab for i in range(LENGTH + 1)]
                         for s in range(SEQUENCES)])


print(f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}")
for line in open("tests/data/models/configs.txt", encoding="utf-8"):
    name = line.split(" ", 1)[0]
    with tempfile.TemporaryDirectory() as where:
        subprocess.run([sys.argv[1], name, where], check=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            where, dtype=torch.float64, attn_implementation="eager").train()
        config = model.config
        model.get_input_embeddings().padding_idx = None  # else pad_token_id, an ordinary token here, is not trained
        if getattr(config, "num_experts", 0) or getattr(config, "num_local_experts", 0):
            continue
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0
        for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout"):
            if hasattr(config, key):
                setattr(config, key, 0)
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() == 1]
        adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}],
                                  lr=1e-2, betas=(0.9, 0.95), eps=1e-6)
        for step in range(STEPS):
            tokens = tokens_of(step, config.vocab_size)
            logits = model(tokens[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            adamw.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adamw.step()
            print(name, "step", step, f"{loss.item():.9g} {norm.item():.9g}")
        for key, value in model.named_parameters():
            print(name, "tensor", key, f"{value.sum().item():.9g} {(value ** 2).sum().item():.9g}")
