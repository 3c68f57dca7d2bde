#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_logits.py LOGITS [MODEL...] - transformers in fp32 against the inference engine.

Ten random models, 0 to 4 and 5 to 9 of one shape each, untied, or those that are named: logits of a prompt to 1e-4 absolute, and 256 greedy
tokens that are equal."""
import subprocess
import sys
import tempfile

import torch
import transformers

N_PROMPT, N_MORE, VOCAB = 32, 256, 500
torch.set_num_threads(1)


def model(i):
    torch.manual_seed(i)
    heads = (2, 4)[i % 2]
    common = dict(vocab_size=VOCAB + i, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)
    if i < 5:
        config = transformers.GPT2Config(
            n_positions=N_PROMPT + N_MORE, n_embd=32 * heads, n_layer=2 + i % 3, n_head=heads,
            initializer_range=0.08, **common)
        return transformers.GPT2LMHeadModel(config).eval(), heads
    config = transformers.LlamaConfig(
        max_position_embeddings=N_PROMPT + N_MORE, hidden_size=32 * heads, num_hidden_layers=2 + i % 3,
        num_attention_heads=heads, num_key_value_heads=heads // (1 + i % 2), intermediate_size=88 * heads,
        initializer_range=0.08, rms_norm_eps=1e-5, **common)
    return transformers.LlamaForCausalLM(config).eval(), heads // (1 + i % 2)


def ours(program, where, shards, what, tokens):
    text = " ".join(map(str, tokens)).encode()
    return subprocess.run([program, where, "fp32", str(shards), what], input=text, stdout=subprocess.PIPE,
                          check=True).stdout


def compare(program, i):
    theirs, shards = model(i)
    prompt = torch.randint(0, VOCAB, (1, N_PROMPT), generator=torch.Generator().manual_seed(100 + i))
    with tempfile.TemporaryDirectory() as where, torch.no_grad():
        theirs.save_pretrained(where)
        want = theirs(prompt).logits[0]
        got = torch.frombuffer(bytearray(ours(program, where, shards, "rows", prompt[0].tolist())),
                               dtype=torch.float32).reshape(want.shape)
        off = (want - got).abs().max().item()
        out = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=N_MORE,
                              min_new_tokens=N_MORE, do_sample=False, eos_token_id=None, pad_token_id=0)
        more = out[0, N_PROMPT:].tolist()
        mine = list(map(int, ours(program, where, shards, str(N_MORE), prompt[0].tolist()).split()))
    equal = sum(a == b for a, b in zip(more, mine))
    print(f"model {i}: logits differ by {off:.1e} of up to {want.abs().max():.1f}; {equal} of {N_MORE} tokens "
          f"are equal, {len(set(more))} different ones")
    return off < 1e-4 and mine == more and len(more) == N_MORE


if __name__ == "__main__":
    good = [compare(sys.argv[1], i) for i in map(int, sys.argv[2:] or range(10))]
    sys.exit(0 if all(good) else 1)
