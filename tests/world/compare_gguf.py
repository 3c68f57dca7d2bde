#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_gguf.py SPOT_RUN LOGITS TINY_DIR... - a model's directory against the same model as GGUF.

Writes each directory of a small model as a GGUF file with gguf-py, its own table of names and the order of rows that llama.cpp's
converter gives them, imports it, and asks for equal bits of logits. What such a file cannot say (a window of Mistral's, other factors of llama3's scaling) is set
as its readers take it. Of a tokenizer only a placeholder is written."""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

ARCH = {"gpt2": gguf.MODEL_ARCH.GPT2, "llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
        "qwen3": gguf.MODEL_ARCH.QWEN3, "gemma2": gguf.MODEL_ARCH.GEMMA2, "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
        "olmo2": gguf.MODEL_ARCH.OLMO2, "granite": gguf.MODEL_ARCH.GRANITE, "smollm3": gguf.MODEL_ARCH.SMOLLM3,
        "phi3": gguf.MODEL_ARCH.PHI3, "mixtral": gguf.MODEL_ARCH.LLAMA, "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE}
PERMUTED = ("llama", "mistral", "granite", "smollm3", "mixtral")
EXPERTS = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


def sayable(c):
    """The config, with what such a file cannot say as its readers take it."""
    kind = c["model_type"]
    rope = c.get("rope_scaling") or {}
    if kind.startswith("gemma"):
        c["query_pre_attn_scalar"] = c["head_dim"]
    if kind == "gemma3_text":
        c["sliding_window_pattern"], c["rope_local_base_freq"] = 6, 10000.0
    if rope.get("rope_type") == "llama3":
        rope["original_max_position_embeddings"] = 8192
    if c.get("rope_parameters"):
        rope = c.pop("rope_parameters")
        c["rope_theta"] = rope.pop("rope_theta", 1e4)
        c["rope_scaling"] = rope
    c.setdefault("rms_norm_eps", 1e-5)
    if kind == "phi3" and rope.get("partial_rotary_factor"):
        c["partial_rotary_factor"] = rope["partial_rotary_factor"]
    if kind in ("mistral", "qwen2", "qwen3", "smollm3", "phi3", "mixtral", "qwen3_moe"):
        c.update(sliding_window=None, use_sliding_window=False)
    c.setdefault("rope_theta", {"mixtral": 1e6, "smollm3": 2e6, "gemma3_text": 1e6}.get(kind, 1e4))
    if kind == "smollm3":
        c["no_rope_layer_interval"] = 4
    return kind in ARCH and c.get("activation_function", "gelu_new") == "gelu_new" and c.get("norm_topk_prob", True)


def divisors(c):
    """Of frequencies, as llama.cpp's converter writes them."""
    rope, d = c["rope_scaling"], c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    out = []
    for i in range(0, d, 2):
        length = 2 * np.pi * c["rope_theta"] ** (i / d)
        smooth = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / \
            (rope["high_freq_factor"] - rope["low_freq_factor"])
        out.append(1 if length < high else rope["factor"] if length > low else 1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(out, dtype=np.float32)


def permuted(x, heads):
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def write(directory, path):
    c = json.loads((directory / "config.json").read_text())
    kind = c["model_type"]
    arch = ARCH[kind]
    w = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    layers = c.get("num_hidden_layers") or c["n_layer"]
    heads = c.get("num_attention_heads") or c["n_head"]
    kv = c.get("num_key_value_heads") or heads
    width = c.get("hidden_size") or c["n_embd"]
    w.add_block_count(layers)
    w.add_embedding_length(width)
    w.add_head_count(heads)
    w.add_context_length(c.get("max_position_embeddings") or c["n_positions"])
    w.add_feed_forward_length(c.get("intermediate_size") or c.get("n_inner") or 4 * width)
    if kind == "gpt2":
        w.add_layer_norm_eps(c.get("layer_norm_epsilon", 1e-5))
    else:
        w.add_head_count_kv(kv)
        w.add_layer_norm_rms_eps(c.get("rms_norm_eps", 1e-6))
        w.add_rope_freq_base(float(c.get("rope_theta") or 1e4))
        rope = c.get("rope_scaling") or {}
        if rope.get("rope_type") == "llama3":
            w.add_tensor("rope_freqs.weight", divisors(c))
        elif rope.get("rope_type", "default") != "default":
            w.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
            w.add_rope_scaling_factor(rope["factor"])
            if rope.get("original_max_position_embeddings"):
                w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        d = c.get("head_dim") or width // heads
        if c.get("partial_rotary_factor"):
            w.add_rope_dimension_count(int(d * c["partial_rotary_factor"]))
        experts = c.get("num_local_experts") or c.get("num_experts")
        if experts:
            w.add_expert_count(experts)
            w.add_expert_used_count(c["num_experts_per_tok"])
        if c.get("moe_intermediate_size"):
            w.add_expert_feed_forward_length(c["moe_intermediate_size"])
        if c.get("head_dim"):
            w.add_key_length(c["head_dim"])
    if kind.startswith("gemma"):
        w.add_sliding_window(c["sliding_window"])
        for key, add in (("attn_logit_softcapping", w.add_attn_logit_softcapping), ("final_logit_softcapping", w.add_final_logit_softcapping)):
            if c.get(key):
                add(float(c[key]))
    if kind == "granite":
        w.add_embedding_scale(float(c.get("embedding_multiplier", 1)))
        w.add_residual_scale(float(c.get("residual_multiplier", 1)))
        w.add_attention_scale(float(c.get("attention_multiplier", 1)))
        w.add_logit_scale(float(c.get("logits_scaling", 1)))
    names = gguf.get_tensor_name_map(arch, layers)
    tensors = load_file(directory / "model.safetensors")
    stacks = {}
    for name in [n for n in tensors if ".experts." in n]:
        _, _, layer, _, _, expert, which, _ = name.split(".")
        stacks.setdefault(f"blk.{layer}.ffn_{EXPERTS[which]}_exps.weight", {})[int(expert)] = tensors.pop(name).astype(np.float32)
    for name, parts in stacks.items():
        w.add_tensor(name, np.stack([parts[i] for i in range(len(parts))]))
    for name, x in tensors.items():
        x = x.astype(np.float32)
        if kind in PERMUTED and ("q_proj" in name or "k_proj" in name):
            x = permuted(x, heads if "q_proj" in name else kv)
        if kind == "gpt2" and x.ndim == 2 and "attn" in name or "mlp" in name and kind == "gpt2" and x.ndim == 2:
            x = x.T
        if kind.startswith("gemma") and name.endswith("norm.weight"):
            x = x + np.float32(1)
        if c.get("tie_word_embeddings", kind == "gpt2") and "lm_head" in name:
            continue
        to = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if to is None:
            raise SystemExit(f"{directory}: gguf-py has no name for {name}")
        w.add_tensor(to, np.ascontiguousarray(x))
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(["a", "b", "ab"])
    w.add_token_merges(["a b"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def logits(program, where):
    text = " ".join(str((5 + 7 * i) % 40) for i in range(12)).encode()
    return subprocess.run([program, where, "fp32", "1", "rows"], input=text, stdout=subprocess.PIPE, check=True).stdout


def main():
    spot_run, program, good, n = sys.argv[1], sys.argv[2], True, 0
    for name in sys.argv[3:]:
        with tempfile.TemporaryDirectory() as scratch:
            model = Path(scratch) / "hf"
            shutil.copytree(name, model)
            config = json.loads((model / "config.json").read_text())
            if not sayable(config):
                print(f"{Path(name).name}: not said in GGUF")
                continue
            (model / "config.json").write_text(json.dumps(config))
            write(model, f"{scratch}/m.gguf")
            subprocess.run([spot_run, "import", "-q", f"{scratch}/m.gguf", f"{scratch}/m"], check=True)
            a, b = logits(program, model), logits(program, f"{scratch}/m")
            off = np.abs(np.frombuffer(a, np.float32) - np.frombuffer(b, np.float32)).max()
            print(f"{Path(name).name}: {'equal bits' if a == b else f'differs by {off}'}")
            good &= a == b or (off < 1e-5 and "gemma" in name)  # (w + 1) - 1 is rounded
            n += 1
    return 0 if good and n else 1


if __name__ == "__main__":
    sys.exit(main())
