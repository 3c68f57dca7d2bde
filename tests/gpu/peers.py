#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch beside us on the same device: the step of bench_stage, products, attention, and decoding.

  peers.py OUT GO      rows name<TAB>value into OUT; all is compiled and warm before GO is waited for

PEER_SMALL=1: shapes for a CPU.
"""
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

OUT, GO = sys.argv[1:3]
DEV = "cuda" if torch.cuda.is_available() else "cpu"
L, C, H, T, V, B = (2, 32, 2, 16, 64, 2) if os.environ.get("PEER_SMALL") else (12, 768, 12, 1024, 50304, 32)
BF, PEAK = torch.bfloat16, 989e12
LOSS = F.cross_entropy


def row(name, value):
    with open(OUT, "a") as f:
        f.write(f"{name}\t{value}\n")


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


def median_s(call, n):
    s = []
    for _ in range(n):
        sync()
        at = time.perf_counter()
        call()
        sync()
        s.append(time.perf_counter() - at)
    return statistics.median(s)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.fc1, self.fc2 = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def mix(self, x, keep=None):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, H, C // H).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(C, 2))
        k, v = keep(k, v) if keep else (k, v)
        mask = keep.mask() if keep else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=keep is None)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, C))

    def forward(self, x, keep=None):
        x = self.mix(x, keep)
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, C), nn.Embedding(T, C)
        self.layers = nn.ModuleList(Block() for _ in range(L))
        self.ln, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, token):
        x = self.wte(token) + self.wpe.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x))


def stepper(model, optimizer):
    token = torch.randint(0, V, (B, T + 1), device=DEV)
    x, y = token[:, :-1].contiguous(), token[:, 1:].contiguous().view(-1)

    def step():
        with torch.autocast(DEV, dtype=BF):
            loss = LOSS(model(x).view(-1, V), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    sync()
    return step


class Cache:
    """Keys and values of a layer at a position that lies on the device, so that a graph may hold it."""

    def __init__(self, b, at):
        self.kv = [torch.zeros(b, H, T, C // H, device=DEV, dtype=BF) for _ in range(2)]
        self.at, self.all = at, torch.arange(T, device=DEV)

    def __call__(self, *new):
        for kept, x in zip(self.kv, new):
            kept.index_copy_(2, self.at, x)
        return self.kv

    def mask(self):
        return (self.all <= self.at).view(1, 1, 1, T)


@torch.inference_mode()
def decode(model, b):
    token = torch.zeros(b, 1, dtype=torch.long, device=DEV)
    at = torch.full((1,), T // 2, dtype=torch.long, device=DEV)
    cache = [Cache(b, at) for _ in range(L)]

    def step():
        x = model.wte(token) + model.wpe(at)
        for layer, keep in zip(model.layers, cache):
            x = layer(x, keep)
        token.copy_(F.linear(model.ln(x), model.wte.weight).argmax(-1))

    step()
    sync()
    go = step
    if DEV == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        go = graph.replay
    s = median_s(go, 50)
    row(f"torch graph: batch {b}, context {T // 2}", f"{s * 1e3:.3f} ms a step, {b / s:.0f} tokens/s")


@torch.inference_mode()
def generate():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=V, n_positions=T, n_embd=C, n_layer=L, n_head=H, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).to(DEV, BF).eval()
    n = T // 16
    for b in (1, 16, 64):
        x = torch.randint(1, V, (b, T // 2), device=DEV)
        s = median_s(lambda: model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=n, min_new_tokens=n,
                                            do_sample=False, pad_token_id=0), 2)
        row(f"transformers generate: batch {b}, {n} tokens after {T // 2}", f"{b * n / s:.0f} tokens/s, prompt included")


def products():
    n = B * T
    for what, m, k, c in (("qkv", n, C, 3 * C), ("fc1", n, C, 4 * C), ("fc2", n, 4 * C, C), ("head", n, C, V),
                          ("by w of fc", 4 * C, n, C), ("by w of the head", V, n, C)):
        a, b = (torch.randn(s, device=DEV, dtype=BF) for s in ((m, k), (k, c)))
        s = median_s(lambda: [a @ b for _ in range(10)], 3) / 10
        row(f"torch.matmul {what} {m}x{k}x{c}", f"{2e-12 * m * k * c / s:.1f} TFLOP/s")


def attention():
    q = [torch.randn(B, H, T, C // H, device=DEV, dtype=BF, requires_grad=True) for _ in range(3)]
    g = torch.randn_like(q[0])
    flop = 2 * B * H * T * T * (C // H)
    forward = median_s(lambda: F.scaled_dot_product_attention(*q, is_causal=True), 5)
    both = median_s(lambda: F.scaled_dot_product_attention(*q, is_causal=True).backward(g), 5)
    row("torch attention, forward, backward", f"{flop / forward * 1e-12:.0f}, {2.5 * flop / (both - forward) * 1e-12:.0f} TFLOP/s")


def attempt(what, call):
    try:
        return call()
    except Exception as e:  # one number less, not all of them
        row(f"{what} failed", str(e).split("\n", maxsplit=1)[0][:100])
        return None


def main():
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model().to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=DEV == "cuda")
    n_param = sum(p.numel() for p in model.parameters())
    flop = 6 * (n_param - V * C) + 6 * L * C * T
    steps = {"eager": attempt("eager", lambda: stepper(model, optimizer)),
             "compiled": attempt("compile", lambda: stepper(torch.compile(model), optimizer)) if DEV == "cuda" else None}
    open(GO + ".ready", "w").close()
    until = time.time() + 400
    while not os.path.exists(GO) and time.time() < until:
        time.sleep(0.05)
    row("torch", f"{torch.__version__}, {DEV}, {n_param / 1e6:.1f} M parameters, b{B}")
    for name, step in steps.items():
        if step:
            s = median_s(step, 10)
            row(f"torch {name}, step", f"{s * 1e3:.2f} ms, {B * T / s:.0f} tokens/s, MFU {100 * B * T / s * flop / PEAK:.1f} %")
    attempt("products", products)
    attempt("attention", attention)
    bf = Model().to(DEV, BF).eval()
    for b in (1, 4, 16, 64):
        attempt("decoding", lambda b=b: decode(bf, b))
    attempt("generate", generate)


main()
