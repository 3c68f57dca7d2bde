/* SPDX-License-Identifier: MIT */
#include "shard/arena.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static size_t round_up(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

/* Tensors are added in the order of their offsets. */
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

/* RMS norms have no bias. */
static void add_norm(struct spot_arena *a, const struct spot_shape *shape, const char *weight,
                     const char *bias)
{
    add(a, weight, false, shape->width, 1);
    if (shape->kind.norm == SPOT_NORM_LAYER)
        add(a, bias, false, shape->width, 1);
}

static void add_replicated(struct spot_arena *a, const struct spot_shape *shape,
                           const struct spot_mlps *mlps)
{
    const struct spot_decoder *const d = &shape->kind;
    const int64_t c = shape->width, head = spot_shape_head_dim(shape);
    const bool is_whole = d->qk_norm == SPOT_QK_WHOLE;

    if (d->norm_place != SPOT_NORM_AFTER)
        add_norm(a, shape, "ln1.w", "ln1.b");
    if (d->norm_place != SPOT_NORM_AFTER)
        add_norm(a, shape, "ln2.w", "ln2.b");
    if (d->norm_place != SPOT_NORM_BEFORE) {
        add(a, "post1.w", false, c, 1);
        add(a, "post2.w", false, c, 1);
    }
    if (d->qk_norm != SPOT_QK_PLAIN) {
        add(a, "q_norm.w", false, is_whole ? spot_shape_attended(shape) : head, 1);
        add(a, "k_norm.w", false, is_whole ? spot_shape_kv_heads(shape) * head : head, 1);
    }
    if (!(d->bare & SPOT_BARE_PROJ))
        add(a, "proj.b", false, c, 1);
    if (!(d->bare & SPOT_BARE_MLP))
        add(a, "down.b", false, c, 1);
    if (mlps->n_expert)
        add(a, "router.w", false, mlps->n_expert, c);
    if (mlps->shared_ffn)
        add(a, "shared_gate.w", false, 1, c);
}

static void add_layer(struct spot_arena *a, const struct spot_shape *shape, int64_t layer)
{
    const struct spot_decoder *const d = &shape->kind;
    const struct spot_mlps m = spot_shape_mlps(shape, layer);
    const int64_t c = shape->width, s = shape->n_shard, n = m.n_expert ? m.n_expert : 1;
    const int64_t qkv = spot_shape_qkv(shape) / s, n_pre = d->is_gated ? 2 : 1;

    add_replicated(a, shape, &m);
    add(a, "qkv.w", true, qkv, c); /* out, in: [q|k|v][their heads/S][d][C] */
    if (!(d->bare & SPOT_BARE_QKV))
        add(a, "qkv.b", true, qkv, 1);
    add(a, "proj.w", true, spot_shape_attended(shape) / s, c); /* in, out */
    add(a, "up.w", true, n * n_pre * m.ffn / s, c); /* out, in: [expert][gate|up][F/S][C] */
    if (!(d->bare & SPOT_BARE_MLP))
        add(a, "up.b", true, n_pre * m.ffn / s, 1);
    add(a, "down.w", true, n * m.ffn / s, c); /* in, out: [expert][F/S][C] */
    if (m.shared_ffn) {
        add(a, "shared_up.w", true, 2 * m.shared_ffn / s, c);
        add(a, "shared_down.w", true, m.shared_ffn / s, c);
    }
}

void spot_arena_of(const struct spot_shape *shape, int bundle, struct spot_arena *a)
{
    const int64_t c = shape->width, s = shape->n_shard, v = spot_shape_vocab_rows(shape);

    assert(bundle >= 0 && bundle < spot_shape_bundles(shape));
    memset(a, 0, sizeof(*a));
    a->n_shard = (int)s;
    if (bundle == 0) {
        a->kind = SPOT_BUNDLE_EMBED;
        if (shape->kind.positions == SPOT_POSITIONS_LEARNT)
            add(a, "wpe", false, shape->seq, c);
        add(a, "wte", true, v / s, c);
    } else if (bundle <= shape->n_layer) {
        a->kind = SPOT_BUNDLE_LAYER;
        add_layer(a, shape, bundle - 1);
    } else {
        a->kind = SPOT_BUNDLE_HEAD;
        add_norm(a, shape, "lnf.w", "lnf.b");
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
