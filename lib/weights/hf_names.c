/* SPDX-License-Identifier: MIT */
#include "weights/hf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/hf_family.h"

/* Conditions of a table row: it applies if the arena has the tensor and the model has these
 * features. */
enum {
    ALWAYS = 0,
    SPLIT = 1 << 0, /* q, k, v and gate, up are separate tensors */
    FUSED = 1 << 1,
    BEFORE = 1 << 2, /* halves have a norm before them, and none after */
    AROUND = 1 << 3,
    DENSE = 1 << 4,
    EXPERTS = 1 << 5,
    MIXTRAL = 1 << 6,
};

struct row {
    struct spot_hf_name name;
    int when;
};

/* --- GPT-2: products with x on the left, weights input by output (Conv1D) ------ */

static const struct row conv_embed[] = {
    { { "wte", "transformer.wte.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "wpe", "transformer.wpe.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
};
static const struct row conv_layer[] = {
    { { "ln1.w", "ln_1.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "ln1.b", "ln_1.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "qkv.w", "attn.c_attn.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL }, ALWAYS },
    { { "qkv.b", "attn.c_attn.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "proj.w", "attn.c_proj.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "proj.b", "attn.c_proj.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "ln2.w", "ln_2.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "ln2.b", "ln_2.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "up.w", "mlp.c_fc.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL }, ALWAYS },
    { { "up.b", "mlp.c_fc.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "down.w", "mlp.c_proj.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "down.b", "mlp.c_proj.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
};
static const struct row conv_head[] = {
    { { "lnf.w", "transformer.ln_f.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "lnf.b", "transformer.ln_f.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "head.w", "lm_head.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
};

/* --- all others: weights output by input (Linear) ------------------------------- */

static const struct row linear_embed[] = {
    { { "wte", "model.embed_tokens.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
};
static const struct row linear_layer[] = {
    { { "ln1.w", "input_layernorm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "qkv.w", "self_attn.q_proj.weight", SPOT_HF_STACK, SPOT_HF_Q }, SPLIT },
    { { "qkv.w", "self_attn.k_proj.weight", SPOT_HF_STACK, SPOT_HF_K }, SPLIT },
    { { "qkv.w", "self_attn.v_proj.weight", SPOT_HF_STACK, SPOT_HF_V }, SPLIT },
    { { "qkv.w", "self_attn.qkv_proj.weight", SPOT_HF_STACK, SPOT_HF_ALL }, FUSED },
    { { "qkv.b", "self_attn.q_proj.bias", SPOT_HF_STACK, SPOT_HF_Q }, SPLIT },
    { { "qkv.b", "self_attn.k_proj.bias", SPOT_HF_STACK, SPOT_HF_K }, SPLIT },
    { { "qkv.b", "self_attn.v_proj.bias", SPOT_HF_STACK, SPOT_HF_V }, SPLIT },
    { { "q_norm.w", "self_attn.q_norm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "k_norm.w", "self_attn.k_norm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "proj.w", "self_attn.o_proj.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL }, ALWAYS },
    { { "proj.b", "self_attn.o_proj.bias", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "post1.w", "post_attention_layernorm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "ln2.w", "post_attention_layernorm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, BEFORE },
    { { "ln2.w", "pre_feedforward_layernorm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, AROUND },
    { { "up.w", "mlp.gate_proj.weight", SPOT_HF_STACK, SPOT_HF_GATE }, SPLIT | DENSE },
    { { "up.w", "mlp.up_proj.weight", SPOT_HF_STACK, SPOT_HF_UP }, SPLIT | DENSE },
    { { "up.w", "mlp.gate_up_proj.weight", SPOT_HF_STACK, SPOT_HF_ALL }, FUSED | DENSE },
    { { "up.b", "mlp.gate_proj.bias", SPOT_HF_STACK, SPOT_HF_GATE }, SPLIT | DENSE },
    { { "up.b", "mlp.up_proj.bias", SPOT_HF_STACK, SPOT_HF_UP }, SPLIT | DENSE },
    { { "down.w", "mlp.down_proj.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL }, DENSE },
    { { "down.b", "mlp.down_proj.bias", SPOT_HF_STACK, SPOT_HF_ALL }, DENSE },
    { { "router.w", "mlp.gate.weight", SPOT_HF_STACK, SPOT_HF_ALL }, EXPERTS },
    { { "up.w", "mlp.experts.%d.gate_proj.weight", SPOT_HF_STACK, SPOT_HF_GATE }, EXPERTS },
    { { "up.w", "mlp.experts.%d.up_proj.weight", SPOT_HF_STACK, SPOT_HF_UP }, EXPERTS },
    { { "down.w", "mlp.experts.%d.down_proj.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL }, EXPERTS },
    { { "router.w", "block_sparse_moe.gate.weight", SPOT_HF_STACK, SPOT_HF_ALL }, MIXTRAL },
    { { "up.w", "block_sparse_moe.experts.%d.w1.weight", SPOT_HF_STACK, SPOT_HF_GATE }, MIXTRAL },
    { { "up.w", "block_sparse_moe.experts.%d.w3.weight", SPOT_HF_STACK, SPOT_HF_UP }, MIXTRAL },
    { { "down.w", "block_sparse_moe.experts.%d.w2.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL },
      MIXTRAL },
    { { "shared_gate.w", "mlp.shared_expert_gate.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "shared_up.w", "mlp.shared_expert.gate_proj.weight", SPOT_HF_STACK, SPOT_HF_GATE },
      ALWAYS },
    { { "shared_up.w", "mlp.shared_expert.up_proj.weight", SPOT_HF_STACK, SPOT_HF_UP }, ALWAYS },
    { { "shared_down.w", "mlp.shared_expert.down_proj.weight", SPOT_HF_TRANSPOSE, SPOT_HF_ALL },
      ALWAYS },
    { { "post2.w", "post_feedforward_layernorm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
};
static const struct row linear_head[] = {
    { { "lnf.w", "model.norm.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
    { { "head.w", "lm_head.weight", SPOT_HF_STACK, SPOT_HF_ALL }, ALWAYS },
};

#define LIST(rows)                             \
    {                                          \
        rows, sizeof(rows) / sizeof((rows)[0]) \
    }

/* Names by bundle, and the prefix of a layer's number. */
static const struct naming {
    struct {
        const struct row *row;
        size_t n;
    } of[SPOT_BUNDLE_HEAD + 1];
    const char *prefix;
} conv = { { [SPOT_BUNDLE_EMBED] = LIST(conv_embed),
             [SPOT_BUNDLE_LAYER] = LIST(conv_layer),
             [SPOT_BUNDLE_HEAD] = LIST(conv_head) },
           "transformer.h." },
  linear = { { [SPOT_BUNDLE_EMBED] = LIST(linear_embed),
               [SPOT_BUNDLE_LAYER] = LIST(linear_layer),
               [SPOT_BUNDLE_HEAD] = LIST(linear_head) },
             "model.layers." };

static unsigned files_of(const struct spot_shape *shape)
{
    return spot_hf_family_of(shape)->files;
}

static const struct naming *naming_of(const struct spot_shape *shape)
{
    return files_of(shape) & SPOT_HF_IS_CONV ? &conv : &linear;
}

static int kind_of(const struct spot_shape *shape, int bundle)
{
    const unsigned files = files_of(shape);
    const int64_t place = shape->kind.norm_place;
    const bool has_experts = bundle > 0 && spot_shape_mlps(shape, bundle - 1).n_expert;

    return (files & SPOT_HF_IS_FUSED ? FUSED : SPLIT) |
           (place == SPOT_NORM_BEFORE   ? BEFORE
            : place == SPOT_NORM_AROUND ? AROUND
                                        : 0) |
           (!has_experts                 ? DENSE
            : files & SPOT_HF_IS_MIXTRAL ? MIXTRAL
                                         : EXPERTS);
}

size_t spot_hf_names(const struct spot_shape *shape, int bundle,
                     struct spot_hf_name list[SPOT_HF_NAMES_MAX])
{
    const struct naming *const by = naming_of(shape);
    const int is = kind_of(shape, bundle);
    struct spot_arena a;
    size_t n = 0;

    spot_arena_of(shape, bundle, &a);
    for (size_t i = 0; i < by->of[a.kind].n; i++) {
        const struct row *const row = &by->of[a.kind].row[i];

        if ((row->when & is) == row->when && spot_arena_find(&a, row->name.ours) >= 0)
            list[n++] = row->name;
    }
    return n;
}

int64_t spot_hf_copies(const struct spot_shape *shape, const struct spot_hf_name *name)
{
    return strchr(name->theirs, '%') ? shape->kind.n_expert : 1;
}

/* The name with its number, if it has one. */
static void write_name(char *to, size_t n, const char *theirs, int64_t expert)
{
    const char *const at = strchr(theirs, '%');

    if (at)
        snprintf(to, n, "%.*s%lld%s", (int)(at - theirs), theirs, (long long)expert, at + 2);
    else
        snprintf(to, n, "%s", theirs);
}

void spot_hf_name_of(const struct spot_shape *shape, int bundle, const struct spot_hf_name *name,
                     int64_t expert, char full[SPOT_HF_NAME_MAX])
{
    int n = 0;

    if (bundle > 0 && bundle <= shape->n_layer)
        n = snprintf(full, SPOT_HF_NAME_MAX, "%s%d.", naming_of(shape)->prefix, bundle - 1);
    write_name(full + n, SPOT_HF_NAME_MAX - (size_t)n, name->theirs, expert);
}

const char *spot_hf_bare(const char *full)
{
    static const char *const prefix[] = { "transformer.", "model.language_model.",
                                          "language_model.model.", "language_model.", "model." };

    for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++)
        if (strstr(full, prefix[i]) == full)
            return full + strlen(prefix[i]);
    return full;
}

static bool is_named(const struct spot_shape *shape, int bundle, const char *bare)
{
    struct spot_hf_name list[SPOT_HF_NAMES_MAX];
    const size_t n = spot_hf_names(shape, bundle, list);

    for (size_t i = 0; i < n; i++) {
        const char *const theirs = spot_hf_bare(list[i].theirs), *const at = strchr(theirs, '%');
        char name[SPOT_HF_NAME_MAX];
        int64_t expert = 0;

        if (at && !strncmp(theirs, bare, (size_t)(at - theirs)))
            expert = strtol(bare + (at - theirs), NULL, 10);
        write_name(name, sizeof(name), theirs, expert);
        if (!strcmp(name, bare) && expert >= 0 && expert < spot_hf_copies(shape, &list[i]))
            return true;
    }
    return false;
}

/* True for tensors that a model of text does not need. */
static bool is_needless(const char *bare)
{
    static const char *const tail[] = { "attn.bias", "attn.masked_bias",
                                        "self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq" };
    static const char *const start[] = { "vision_tower.", "multi_modal_projector." };

    for (size_t i = 0; i < sizeof(start) / sizeof(start[0]); i++)
        if (strstr(bare, start[i]) == bare)
            return true;
    for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
        if (!strcmp(bare, tail[i]))
            return true;
    return false;
}

bool spot_hf_is_known(const struct spot_shape *shape, const char *full)
{
    const char *const bare = spot_hf_bare(full);
    const char *const prefix = spot_hf_bare(naming_of(shape)->prefix);
    char plain[32];
    char *end;
    unsigned long layer;

    if (strncmp(bare, prefix, strlen(prefix)) != 0)
        return is_named(shape, 0, bare) || is_named(shape, spot_shape_bundles(shape) - 1, bare) ||
               is_needless(bare);
    layer = strtoul(bare + strlen(prefix), &end, 10);
    if (layer >= (unsigned long)shape->n_layer || *end != '.')
        return false;
    snprintf(plain, sizeof(plain), "%s%lu.", prefix, layer);
    if (strncmp(bare, plain, strlen(plain)) != 0) /* "h.01." */
        return false;
    return is_named(shape, (int)layer + 1, end + 1) || is_needless(end + 1);
}

float spot_hf_rest(const struct spot_shape *shape, const struct spot_hf_name *name)
{
    const bool is_norm = !strncmp(name->ours, "ln", 2) || !strncmp(name->ours, "post", 4) ||
                         strstr(name->ours, "_norm") != NULL;

    return is_norm && files_of(shape) & SPOT_HF_NORM_IS_REST ? 1 : 0;
}

struct spot_hf_rows spot_hf_rows(const struct spot_shape *shape, const struct spot_tensor *tensor,
                                 const struct spot_hf_name *name, int64_t expert)
{
    const int64_t per = tensor->rows / (spot_hf_copies(shape, name) > 1 ? shape->kind.n_expert : 1);
    const int64_t q = spot_shape_attended(shape) / shape->n_shard, kv = (tensor->rows - q) / 2;
    struct spot_hf_rows rows = { expert * per, per, { per, 0, 0 } };

    switch (name->part) {
    case SPOT_HF_Q:
        return (struct spot_hf_rows){ 0, q, { q, 0, 0 } };
    case SPOT_HF_K:
        return (struct spot_hf_rows){ q, kv, { kv, 0, 0 } };
    case SPOT_HF_V:
        return (struct spot_hf_rows){ q + kv, kv, { kv, 0, 0 } };
    case SPOT_HF_GATE:
    case SPOT_HF_UP:
        rows.n = rows.part[0] = per / 2;
        rows.first += name->part == SPOT_HF_UP ? per / 2 : 0;
        break;
    case SPOT_HF_ALL: /* in the file, each part is stored for all shards together */
        if (!strncmp(name->ours, "qkv.", 4))
            rows = (struct spot_hf_rows){ 0, per, { q, kv, kv } };
        else if (!strncmp(name->ours, "up.", 3) && shape->kind.is_gated)
            rows = (struct spot_hf_rows){ 0, per, { per / 2, per / 2, 0 } };
        break;
    }
    return rows;
}

int64_t spot_hf_row(const struct spot_hf_rows *rows, int n_shard, int shard, int64_t r)
{
    int64_t before = 0;
    int i = 0;

    for (; i < 2 && r >= rows->part[i]; i++) {
        r -= rows->part[i];
        before += n_shard * rows->part[i];
    }
    return before + shard * rows->part[i] + r;
}

int64_t spot_hf_n_row(const struct spot_shape *shape, const struct spot_tensor *t,
                      const struct spot_hf_name *name)
{
    if (!strcmp(t->name, "wte") || !strcmp(t->name, "head.w"))
        return shape->vocab;
    return spot_hf_rows(shape, t, name, 0).n * (t->is_sharded ? shape->n_shard : 1);
}
