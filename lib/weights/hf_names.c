/* SPDX-License-Identifier: MIT */
#include "weights/hf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- GPT-2: products with x on the left, weights input by output (Conv1D) ------ */

static const struct spot_hf_name gpt2_embed[] = {
    { "wte", "transformer.wte.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "wpe", "transformer.wpe.weight", SPOT_HF_STACK, SPOT_HF_ALL },
};
static const struct spot_hf_name gpt2_layer[] = {
    { "ln1.w", "ln_1.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "ln1.b", "ln_1.bias", SPOT_HF_STACK, SPOT_HF_ALL },
    { "qkv.w", "attn.c_attn.weight", SPOT_HF_QKV, SPOT_HF_ALL },
    { "qkv.b", "attn.c_attn.bias", SPOT_HF_QKV, SPOT_HF_ALL },
    { "proj.w", "attn.c_proj.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "proj.b", "attn.c_proj.bias", SPOT_HF_STACK, SPOT_HF_ALL },
    { "ln2.w", "ln_2.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "ln2.b", "ln_2.bias", SPOT_HF_STACK, SPOT_HF_ALL },
    { "fc1.w", "mlp.c_fc.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL },
    { "fc1.b", "mlp.c_fc.bias", SPOT_HF_TRANSPOSE, SPOT_HF_ALL },
    { "fc2.w", "mlp.c_proj.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "fc2.b", "mlp.c_proj.bias", SPOT_HF_STACK, SPOT_HF_ALL },
};
static const struct spot_hf_name gpt2_head[] = {
    { "lnf.w", "transformer.ln_f.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "lnf.b", "transformer.ln_f.bias", SPOT_HF_STACK, SPOT_HF_ALL },
    { "head.w", "lm_head.weight", SPOT_HF_STACK, SPOT_HF_ALL },
};

/* --- Llama: weights output by input (Linear) ------------------------------------ */

static const struct spot_hf_name llama_embed[] = {
    { "wte", "model.embed_tokens.weight", SPOT_HF_STACK, SPOT_HF_ALL },
};
static const struct spot_hf_name llama_layer[] = {
    { "ln1.w", "input_layernorm.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "qkv.w", "self_attn.q_proj.weight", SPOT_HF_STACK, SPOT_HF_Q },
    { "qkv.w", "self_attn.k_proj.weight", SPOT_HF_STACK, SPOT_HF_K },
    { "qkv.w", "self_attn.v_proj.weight", SPOT_HF_STACK, SPOT_HF_V },
    { "proj.w", "self_attn.o_proj.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL },
    { "ln2.w", "post_attention_layernorm.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "gateup.w", "mlp.gate_proj.weight", SPOT_HF_STACK, SPOT_HF_GATE },
    { "gateup.w", "mlp.up_proj.weight", SPOT_HF_STACK, SPOT_HF_UP },
    { "down.w", "mlp.down_proj.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL },
};
static const struct spot_hf_name llama_head[] = {
    { "lnf.w", "model.norm.weight", SPOT_HF_STACK, SPOT_HF_ALL },
    { "head.w", "lm_head.weight", SPOT_HF_STACK, SPOT_HF_ALL },
};

#define LIST(names)                               \
    {                                             \
        names, sizeof(names) / sizeof((names)[0]) \
    }

/* Of an architecture: names, and of its layers what is before the number, and what files may hold
 * besides. */
static const struct arch {
    struct {
        const struct spot_hf_name *list;
        size_t n;
    } of[SPOT_BUNDLE_HEAD + 1];
    const char *prefix, *needless[2];
} archs[SPOT_ARCHES] = {
    [SPOT_ARCH_GPT2] = { { [SPOT_BUNDLE_EMBED] = LIST(gpt2_embed),
                           [SPOT_BUNDLE_LAYER] = LIST(gpt2_layer),
                           [SPOT_BUNDLE_HEAD] = LIST(gpt2_head) },
                         "transformer.h.",
                         { "attn.bias", "attn.masked_bias" } },
    [SPOT_ARCH_LLAMA] = { { [SPOT_BUNDLE_EMBED] = LIST(llama_embed),
                            [SPOT_BUNDLE_LAYER] = LIST(llama_layer),
                            [SPOT_BUNDLE_HEAD] = LIST(llama_head) },
                          "model.layers.",
                          { "self_attn.rotary_emb.inv_freq", "self_attn.rotary_emb.inv_freq" } },
};

const struct spot_hf_name *spot_hf_names(const struct spot_shape *shape, enum spot_bundle_kind kind,
                                         size_t *n)
{
    *n = archs[shape->arch].of[kind].n;
    return archs[shape->arch].of[kind].list;
}

void spot_hf_name_of(const struct spot_shape *shape, int bundle, const struct spot_hf_name *name,
                     char full[SPOT_HF_NAME_MAX])
{
    if (bundle > 0 && bundle <= shape->n_layer)
        snprintf(full, SPOT_HF_NAME_MAX, "%s%d.%s", archs[shape->arch].prefix, bundle - 1,
                 name->theirs);
    else
        snprintf(full, SPOT_HF_NAME_MAX, "%s", name->theirs);
}

const char *spot_hf_bare(const char *full)
{
    if (!strncmp(full, "transformer.", 12) || !strncmp(full, "model.", 6))
        return strchr(full, '.') + 1;
    return full;
}

static bool is_named(const struct arch *arch, enum spot_bundle_kind kind, const char *bare)
{
    for (size_t i = 0; i < arch->of[kind].n; i++)
        if (!strcmp(spot_hf_bare(arch->of[kind].list[i].theirs), bare))
            return true;
    return false;
}

bool spot_hf_is_known(const struct spot_shape *shape, const char *bare)
{
    const struct arch *const arch = &archs[shape->arch];
    const char *const prefix = spot_hf_bare(arch->prefix);
    char plain[32];
    char *end;
    unsigned long layer;

    if (strncmp(bare, prefix, strlen(prefix)) != 0)
        return is_named(arch, SPOT_BUNDLE_EMBED, bare) || is_named(arch, SPOT_BUNDLE_HEAD, bare);
    layer = strtoul(bare + strlen(prefix), &end, 10);
    if (layer >= (unsigned long)shape->n_layer || *end != '.')
        return false;
    snprintf(plain, sizeof(plain), "%s%lu.", prefix, layer);
    if (strncmp(bare, plain, strlen(plain)) != 0) /* "h.01." */
        return false;
    return is_named(arch, SPOT_BUNDLE_LAYER, end + 1) || !strcmp(end + 1, arch->needless[0]) ||
           !strcmp(end + 1, arch->needless[1]);
}

struct spot_hf_rows spot_hf_rows(const struct spot_shape *shape, const struct spot_tensor *tensor,
                                 enum spot_hf_part part)
{
    const int64_t q = shape->width / shape->n_shard, kv = (tensor->rows - q) / 2;

    switch (part) {
    case SPOT_HF_Q:
        return (struct spot_hf_rows){ 0, q };
    case SPOT_HF_K:
        return (struct spot_hf_rows){ q, kv };
    case SPOT_HF_V:
        return (struct spot_hf_rows){ q + kv, kv };
    case SPOT_HF_GATE:
        return (struct spot_hf_rows){ 0, tensor->rows / 2 };
    case SPOT_HF_UP:
        return (struct spot_hf_rows){ tensor->rows / 2, tensor->rows / 2 };
    case SPOT_HF_ALL:
        break;
    }
    return (struct spot_hf_rows){ 0, tensor->rows };
}

int64_t spot_hf_row(enum spot_hf_how how, const struct spot_hf_rows *rows, int n_shard, int shard,
                    int64_t r)
{
    const int64_t part = rows->n / 3; /* rows of q in one shard */

    if (how != SPOT_HF_QKV)
        return shard * rows->n + r;
    return r / part * part * n_shard + shard * part + r % part;
}

int64_t spot_hf_n_row(const struct spot_shape *shape, const struct spot_tensor *t,
                      enum spot_hf_part part)
{
    if (!strcmp(t->name, "wte") || !strcmp(t->name, "head.w"))
        return shape->vocab;
    return spot_hf_rows(shape, t, part).n * (t->is_sharded ? shape->n_shard : 1);
}
