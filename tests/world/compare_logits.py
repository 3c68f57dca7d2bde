#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_logits.py LOGITS [FAMILY...] - transformers in fp32 against the inference engine, family by family.

Of each family that loads three random models, the third tied, as transformers itself writes them: logits of five prompts of 1 to 70
tokens to 1e-4 absolute, and 256 greedy tokens that are equal. Prints a row of docs/models.md for each."""
import subprocess
import sys
import tempfile

import torch
import transformers

N_MORE, LENGTHS = 256, (1, 5, 17, 32, 70)
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

WIDE = dict(hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)
GEMMA = dict(WIDE, head_dim=48, query_pre_attn_scalar=40, sliding_window=24)
EXPERTS = dict(WIDE, num_experts_per_tok=2)
FAMILIES = {
    "GPT2": dict(n_embd=128, n_layer=4, n_head=4, n_positions=512),
    "Llama": dict(WIDE, rope_parameters=dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
                                             high_freq_factor=4.0, original_max_position_embeddings=64)),
    "Mistral": dict(WIDE, sliding_window=24),
    "Qwen2": dict(WIDE, use_sliding_window=True, sliding_window=24, max_window_layers=2),
    "Qwen3": dict(WIDE, head_dim=48),
    "SmolLM3": dict(WIDE, no_rope_layer_interval=2),
    "Phi3": dict(WIDE, partial_rotary_factor=.5, sliding_window=40),
    "Gemma2": dict(GEMMA, attn_logit_softcapping=5.0, final_logit_softcapping=3.0),
    "Gemma3Text": GEMMA,
    "Olmo2": WIDE,
    "Olmo3": dict(WIDE, sliding_window=24),
    "Granite": dict(WIDE, embedding_multiplier=6.0, attention_multiplier=.05, residual_multiplier=.3, logits_scaling=4.0),
    "Mixtral": dict(EXPERTS, num_local_experts=4),
    "Qwen3Moe": dict(EXPERTS, num_experts=8, moe_intermediate_size=96, head_dim=48, norm_topk_prob=True,
                     decoder_sparse_step=2, mlp_only_layers=[3]),
    "Qwen2Moe": dict(EXPERTS, num_experts=8, moe_intermediate_size=96, shared_expert_intermediate_size=160,
                     mlp_only_layers=[0]),
    "Olmoe": dict(EXPERTS, num_experts=8),
}


def model(family, i):
    torch.manual_seed(i)
    config = getattr(transformers, family + "Config")(
        **FAMILIES[family], **({} if family == "GPT2" else dict(max_position_embeddings=512)), vocab_size=500 + i,
        tie_word_embeddings=i == 2, initializer_range=.08, bos_token_id=0, eos_token_id=1, pad_token_id=2)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def ours(program, where, shards, what, tokens):
    text = " ".join(map(str, tokens)).encode()
    return subprocess.run([program, where, "fp32", str(shards), what], input=text, stdout=subprocess.PIPE,
                          check=True).stdout


def compare(program, family, i):
    """The largest difference of a logit, the largest logit, whether all greedy tokens are equal, how many kinds they are."""
    theirs, off, top = model(family, i), 0, 0
    with tempfile.TemporaryDirectory() as where, torch.no_grad():
        theirs.save_pretrained(where)
        for n in LENGTHS:
            prompt = torch.randint(3, 500, (1, n), generator=torch.Generator().manual_seed(100 + i + n))
            want = theirs(prompt, use_cache=False).logits[0]
            got = torch.frombuffer(bytearray(ours(program, where, 1 + i % 2, "rows", prompt[0].tolist())),
                                   dtype=torch.float32).reshape(want.shape)
            off, top = max(off, (want - got).abs().max().item()), max(top, want.abs().max().item())
        out = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=N_MORE,
                              min_new_tokens=N_MORE, do_sample=False, eos_token_id=None, pad_token_id=2)
        more = out[0, LENGTHS[-1]:].tolist()
        mine = list(map(int, ours(program, where, 1 + i % 2, str(N_MORE), prompt[0].tolist()).split()))
    return off, top, mine == more and len(more) == N_MORE, len(set(more))


def row(program, family):
    off, top, equal, kinds = zip(*(compare(program, family, i) for i in range(3)))
    print(f"| {family} | {max(off):.1e} | {max(top):.1f} | {sum(equal)} of 3 | {', '.join(map(str, kinds))} |", flush=True)
    return max(off) < 1e-4 and all(equal)


if __name__ == "__main__":
    print("| family | largest difference of a logit | largest logit | 256 greedy tokens equal | different tokens |\n|---|---:|---:|---:|---:|")
    good = [row(sys.argv[1], family) for family in sys.argv[2:] or FAMILIES]
    sys.exit(0 if all(good) else 1)
