#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training step of bench_engine in PyTorch: fp32, AdamW, gradients clipped by their norm.

  torch_step.py L C H T V b THREADS STEPS [compile]      prints tokens per second of the best step
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

L, C, H, T, V, B, THREADS, STEPS = (int(x) for x in sys.argv[1:9])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(V, C), nn.Embedding(T, C)
        self.layers = nn.Sequential(*(Block() for _ in range(L)))
        self.ln, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)

    def forward(self, token, target):
        x = self.layers(self.token(token) + self.place.weight)
        return F.cross_entropy(self.head(self.ln(x)).view(-1, V), target)


torch.set_num_threads(THREADS)
torch.manual_seed(1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
loss_of = torch.compile(model) if sys.argv[9:] == ["compile"] else model
best = 1e9
for step in range(2 + STEPS):  # two that warm up
    token = torch.randint(0, V, (B, T + 1))
    at = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss_of(token[:, :-1].contiguous(), token[:, 1:].contiguous().view(-1)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step >= 2:
        best = min(best, time.perf_counter() - at)
print(f"{B * T / best:.1f}")
