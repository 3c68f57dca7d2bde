/* SPDX-License-Identifier: MIT */
#include "job/gpt2_names.h"

#include <string.h>

static const struct spot_gpt2_name embed_export[] = {
    { "wte", "transformer.wte.weight", SPOT_GPT2_STACK },
    { "wpe", "transformer.wpe.weight", SPOT_GPT2_STACK },
};
static const struct spot_gpt2_name layer_export[] = {
    { "ln1.w", "ln_1.weight", SPOT_GPT2_STACK },
    { "ln1.b", "ln_1.bias", SPOT_GPT2_STACK },
    { "qkv.w", "attn.c_attn.weight", SPOT_GPT2_QKV },
    { "qkv.b", "attn.c_attn.bias", SPOT_GPT2_QKV },
    { "proj.w", "attn.c_proj.weight", SPOT_GPT2_STACK },
    { "proj.b", "attn.c_proj.bias", SPOT_GPT2_STACK },
    { "ln2.w", "ln_2.weight", SPOT_GPT2_STACK },
    { "ln2.b", "ln_2.bias", SPOT_GPT2_STACK },
    { "fc1.w", "mlp.c_fc.weight", SPOT_GPT2_TRANSPOSE },
    { "fc1.b", "mlp.c_fc.bias", SPOT_GPT2_TRANSPOSE },
    { "fc2.w", "mlp.c_proj.weight", SPOT_GPT2_STACK },
    { "fc2.b", "mlp.c_proj.bias", SPOT_GPT2_STACK },
};
static const struct spot_gpt2_name head_export[] = {
    { "lnf.w", "transformer.ln_f.weight", SPOT_GPT2_STACK },
    { "lnf.b", "transformer.ln_f.bias", SPOT_GPT2_STACK },
    { "head.w", "lm_head.weight", SPOT_GPT2_STACK },
};

const struct spot_gpt2_name *spot_gpt2_names(enum spot_bundle_kind kind, size_t *n)
{
    static const struct {
        const struct spot_gpt2_name *list;
        size_t n;
    } of[] = {
        [SPOT_BUNDLE_EMBED] = { embed_export, sizeof(embed_export) / sizeof(embed_export[0]) },
        [SPOT_BUNDLE_LAYER] = { layer_export, sizeof(layer_export) / sizeof(layer_export[0]) },
        [SPOT_BUNDLE_HEAD] = { head_export, sizeof(head_export) / sizeof(head_export[0]) },
    };

    *n = of[kind].n;
    return of[kind].list;
}

int64_t spot_gpt2_row(enum spot_gpt2_how how, const struct spot_tensor *t, int n_shard, int shard,
                      int64_t r)
{
    const int64_t part = t->rows / 3; /* rows of q in one shard */

    if (how != SPOT_GPT2_QKV)
        return shard * t->rows + r;
    return r / part * part * n_shard + shard * part + r % part;
}

int64_t spot_gpt2_rows(const struct spot_shape *shape, const struct spot_arena *a, int tensor)
{
    const struct spot_tensor *t = &a->tensor[tensor];

    if (!strcmp(t->name, "wte") || !strcmp(t->name, "head.w"))
        return shape->vocab;
    return t->rows * (t->is_sharded ? a->n_shard : 1);
}
