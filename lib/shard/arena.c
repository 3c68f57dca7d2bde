/* SPDX-License-Identifier: MIT */
#include "shard/arena.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static size_t round_up(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

/* Tensors are added in the order in which they lie. */
static void add(struct spot_arena *a, const char *name, bool is_sharded, int64_t rows, int64_t cols)
{
    size_t *end = is_sharded ? &a->shard_elem : &a->replicated_elem;

    assert(a->n_tensor < SPOT_TENSORS_MAX);
    a->tensor[a->n_tensor++] = (struct spot_tensor){ .name = name,
                                                     .is_sharded = is_sharded,
                                                     .is_decayed = cols > 1,
                                                     .rows = rows,
                                                     .cols = cols,
                                                     .offset = *end };
    *end = round_up(*end + (size_t)(rows * cols), SPOT_TENSOR_ALIGN);
}

static void add_gpt2_layer(struct spot_arena *a, int64_t c, int64_t n_shard)
{
    const int64_t cs = c / n_shard, fs = 4 * c / n_shard;

    add(a, "ln1.w", false, c, 1);
    add(a, "ln1.b", false, c, 1);
    add(a, "ln2.w", false, c, 1);
    add(a, "ln2.b", false, c, 1);
    add(a, "proj.b", false, c, 1);
    add(a, "fc2.b", false, c, 1);
    add(a, "qkv.w", true, 3 * cs, c); /* out, in: [q|k|v][heads/S][d][C] */
    add(a, "qkv.b", true, 3 * cs, 1);
    add(a, "proj.w", true, cs, c); /* in, out */
    add(a, "fc1.w", true, fs, c);  /* out, in */
    add(a, "fc1.b", true, fs, 1);
    add(a, "fc2.w", true, fs, c); /* in, out */
}

static void add_llama_layer(struct spot_arena *a, const struct spot_shape *shape)
{
    const int64_t c = shape->width, s = shape->n_shard;

    add(a, "ln1.w", false, c, 1);
    add(a, "ln2.w", false, c, 1);
    add(a, "qkv.w", true, spot_shape_qkv(shape) / s, c); /* out, in: [q|k|v][their heads/S][d][C] */
    add(a, "proj.w", true, c / s, c);                    /* in, out */
    add(a, "gateup.w", true, spot_shape_pre(shape) / s, c); /* out, in: [gate|up][F/S][C] */
    add(a, "down.w", true, shape->ffn / s, c);              /* in, out */
}

void spot_arena_of(const struct spot_shape *shape, int bundle, struct spot_arena *a)
{
    const int64_t c = shape->width, s = shape->n_shard, v = spot_shape_vocab_rows(shape);

    assert(bundle >= 0 && bundle < spot_shape_bundles(shape));
    memset(a, 0, sizeof(*a));
    a->n_shard = (int)s;
    if (bundle == 0) {
        a->kind = SPOT_BUNDLE_EMBED;
        if (shape->arch == SPOT_ARCH_GPT2)
            add(a, "wpe", false, shape->seq, c);
        add(a, "wte", true, v / s, c);
    } else if (bundle <= shape->n_layer) {
        a->kind = SPOT_BUNDLE_LAYER;
        if (shape->arch == SPOT_ARCH_GPT2)
            add_gpt2_layer(a, c, s);
        else
            add_llama_layer(a, shape);
    } else {
        a->kind = SPOT_BUNDLE_HEAD;
        add(a, "lnf.w", false, c, 1);
        if (shape->arch == SPOT_ARCH_GPT2)
            add(a, "lnf.b", false, c, 1);
        add(a, "head.w", true, v / s, c); /* out, in */
    }
    a->replicated_elem = round_up(a->replicated_elem, SPOT_SHARD_ALIGN);
    a->shard_elem = round_up(a->shard_elem, SPOT_SHARD_ALIGN);
    a->n_elem = a->replicated_elem + (size_t)s * a->shard_elem;
}

size_t spot_arena_offset(const struct spot_arena *arena, int tensor, int shard)
{
    const struct spot_tensor *t;

    assert(tensor >= 0 && tensor < arena->n_tensor);
    t = &arena->tensor[tensor];
    assert(shard >= 0 && shard < (t->is_sharded ? arena->n_shard : 1));
    return t->offset +
           (t->is_sharded ? arena->replicated_elem + (size_t)shard * arena->shard_elem : 0);
}

int spot_arena_find(const struct spot_arena *arena, const char *name)
{
    for (int i = 0; i < arena->n_tensor; i++)
        if (!strcmp(arena->tensor[i].name, name))
            return i;
    return -1;
}

bool spot_arena_is_copy(const struct spot_shape *shape, const struct spot_arena *arena, int tensor)
{
    return shape->is_tied && !strcmp(arena->tensor[tensor].name, "head.w");
}

void spot_arena_tensor_name(const struct spot_arena *arena, int bundle, int tensor, int shard,
                            char name[SPOT_TENSOR_NAME_MAX])
{
    const struct spot_tensor *t = &arena->tensor[tensor];
    char part[16];

    if (arena->kind == SPOT_BUNDLE_LAYER)
        snprintf(part, sizeof(part), "l%03d", bundle - 1);
    else
        snprintf(part, sizeof(part), "%s", arena->kind == SPOT_BUNDLE_EMBED ? "embed" : "head");
    if (t->is_sharded)
        snprintf(name, SPOT_TENSOR_NAME_MAX, "%s.s%02d.%s", part, shard, t->name);
    else
        snprintf(name, SPOT_TENSOR_NAME_MAX, "%s.%s", part, t->name);
}
