/* SPDX-License-Identifier: MIT */
/* The device memory of a stage: a plan that runs twice, to count and to divide. */
#include <string.h>

#include "engine/cuda/stage_cuda.h"

static size_t real_byte(const struct spot_stage *st)
{
    return st->real == SPOT_BF16 ? 2 : 4;
}

static void *take_rows(struct spot_memory_plan *plan, const struct spot_stage *st, int64_t c)
{
    return spot_memory_take(plan, (size_t)st->n_row, (size_t)c * real_byte(st));
}

static float *take_floats(struct spot_memory_plan *plan, const struct spot_stage *st, int64_t c)
{
    return spot_memory_take(plan, (size_t)st->n_row, (size_t)c * sizeof(float));
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int spot_cuda_shards_of(const struct spot_arena *arena, int t)
{
    return arena->tensor[t].is_sharded ? arena->n_shard : 1;
}

static int64_t chunks_of(const struct spot_arena *arena)
{
    int64_t n = 0;

    for (int t = 0; t < arena->n_tensor; t++)
        n += (arena->tensor[t].rows * arena->tensor[t].cols + SPOT_EXACT_CHUNK - 1) /
             SPOT_EXACT_CHUNK * spot_cuda_shards_of(arena, t);
    return n;
}

/* Elements of the compute copy; where each tensor starts in it. */
static int64_t weight_layout(const struct spot_arena *arena, int64_t at[SPOT_TENSORS_MAX])
{
    int64_t n = 0;

    for (int t = 0; t < arena->n_tensor; t++) {
        at[t] = n;
        n += arena->tensor[t].rows * arena->tensor[t].cols * spot_cuda_shards_of(arena, t);
        n = (n + SPOT_CUDA_ALIGN - 1) / SPOT_CUDA_ALIGN * SPOT_CUDA_ALIGN;
    }
    return n;
}

static void plan_part(struct spot_memory_plan *plan, const struct spot_stage *st, int bundle,
                      struct spot_cuda_part *part)
{
    struct spot_cuda_planes on = { 0 };
    struct spot_arena arena;
    int64_t at[SPOT_TENSORS_MAX] = { 0 };

    spot_arena_of(&st->config.shape, bundle, &arena);
    for (int p = 0; p < SPOT_PLANES; p++)
        on.plane[p] = spot_memory_take(plan, arena.n_elem, sizeof(float));
    on.sum = spot_memory_take(plan, arena.n_elem, sizeof(int64_t));
    on.weight = spot_memory_take(plan, (size_t)weight_layout(&arena, at), real_byte(st));
    on.n_chunk = (int)chunks_of(&arena);
    on.chunk = spot_memory_take(plan, (size_t)on.n_chunk, sizeof(*on.chunk));
    if (!part)
        return;
    part->on = on;
    memcpy(part->weight_at, at, sizeof(at));
}

/* Plans the fields of a layer's save that levels [from, to) of recompute no longer keep. Statistics
 * of norms are small and always kept. The inputs of the two halves are always kept, too, so no sum
 * over a tensor group is repeated.
 */
static void plan_layer(struct spot_memory_plan *plan, const struct spot_stage *st,
                       enum spot_recompute from, enum spot_recompute to, struct spot_cuda_save *v)
{
    const struct spot_shape *const s = &st->config.shape;

    if (from == SPOT_RECOMPUTE_NONE && to > SPOT_RECOMPUTE_NONE)
        v->pre = take_rows(plan, st, spot_cuda_own(st, spot_shape_pre(s)));
    if (from <= SPOT_RECOMPUTE_MLP && to > SPOT_RECOMPUTE_MLP) {
        v->qkv = take_rows(plan, st, spot_cuda_own(st, spot_shape_qkv(s)));
        v->attention = take_rows(plan, st, spot_cuda_own(st, s->width));
        v->lse = take_floats(plan, st, spot_cuda_own(st, s->n_head));
    }
}

static void plan_save(struct spot_memory_plan *plan, const struct spot_stage *st, int bundle,
                      struct spot_cuda_save *save)
{
    const struct spot_shape *const s = &st->config.shape;
    struct spot_cuda_save v = { 0 };

    if (bundle > 0 && bundle <= s->n_layer) {
        v = st->again;
        v.mid = take_rows(plan, st, s->width);
        v.norm2 = take_floats(plan, st, 2);
        plan_layer(plan, st, (enum spot_recompute)st->config.recompute, SPOT_RECOMPUTES, &v);
    }
    if (bundle > 0) {
        v.x = take_rows(plan, st, s->width);
        v.norm1 = take_floats(plan, st, 2);
    }
    if (bundle > s->n_layer)
        v.dlogit = take_rows(plan, st, spot_cuda_own(st, spot_shape_vocab_rows(s)));
    if (save)
        *save = v;
}

static void plan_slot(struct spot_memory_plan *plan, struct spot_stage *st,
                      struct spot_cuda_slot *slot)
{
    uint32_t *const token = spot_memory_take(plan, (size_t)st->config.micro_batch,
                                             ((size_t)st->config.shape.seq + 1) * sizeof(*token));

    if (slot)
        slot->token = token;
    for (int i = 0; i < st->n_bundle; i++)
        plan_save(plan, st, st->config.bundle_begin + i, slot ? &slot->save[i] : NULL);
}

static void plan_slots(struct spot_memory_plan *plan, struct spot_stage *st)
{
    struct spot_memory_plan one = { .align = plan->align, .guard_byte = plan->guard_byte };

    if (!plan->base) { /* slots are equal, and there may be too many to count one by one */
        plan_slot(&one, st, NULL);
        spot_memory_take(plan, (size_t)st->config.n_slot, one.used);
        return;
    }
    for (int k = 0; k < st->config.n_slot; k++)
        plan_slot(plan, st, &st->slot[k]);
}

/* Memory for kinds that are split by shards, and for the exchanges of a tensor group. */
static void plan_group(struct spot_memory_plan *plan, struct spot_stage *st)
{
    const struct spot_shape *const s = &st->config.shape;
    const size_t n_row = (size_t)st->n_row, n_elem = n_row * (size_t)s->width;
    const int M = (int)s->n_shard / st->n_shard, m = st->shard / st->n_shard;
    struct spot_node node[SPOT_NODES_MAX];
    size_t depth = 0;

    st->n_node = spot_tensor_group_nodes(s, m, M, node);
    while ((1 << depth) < st->n_shard)
        depth++;
    st->node = spot_memory_take(plan, ((size_t)st->n_node + depth) * n_elem, sizeof(float));
    st->row_top = spot_memory_take(plan, (size_t)M * n_row, 2 * sizeof(float));
    st->row_sum =
        spot_memory_take(plan, (size_t)(st->n_shard + st->n_node + 1) * n_row, sizeof(float));
    if (M > 1)
        st->group.in =
            spot_memory_take(plan, spot_tensor_group_in_elem(s, m, M, n_elem), sizeof(float));
}

size_t spot_cuda_exchange_elem(const struct spot_stage *st)
{
    const struct spot_stage_group *const g = &st->config.group;
    const size_t n_elem = (size_t)(st->n_row * st->config.shape.width), M = (size_t)g->M;
    const size_t scatter = (size_t)st->n_node * n_elem +
                           spot_tensor_group_in_elem(&st->config.shape, g->m, g->M, n_elem);
    const size_t give = 2 * n_elem, tops = 4 * (M - 1) * (size_t)st->n_row;
    const size_t most = scatter > give ? scatter : give;

    return (most > tops ? most : tops) + M;
}

static void plan_scratch(struct spot_memory_plan *plan, struct spot_stage *st)
{
    const struct spot_shape *const s = &st->config.shape;
    const int64_t c = s->width, qkv = spot_cuda_own(st, spot_shape_qkv(s)),
                  pre = spot_cuda_own(st, spot_shape_pre(s)),
                  ffn = spot_cuda_own(st, spot_shape_ffn(s)), widest = max64(qkv, pre);

    st->boundary = take_floats(plan, st, c);
    st->grad = spot_memory_take(plan, spot_cuda_stage_rough_elem(st), sizeof(float));
    st->vector = spot_memory_take(plan, (size_t)max64(2 * c, widest), sizeof(float));
    st->column =
        spot_memory_take(plan, spot_cuda_partial_elem(st->n_row, max64(c, widest)), sizeof(float));
    st->dot = take_floats(plan, st, spot_cuda_own(st, s->n_head));
    st->groups = spot_memory_take(plan, 3 * (size_t)st->n_row + 1, sizeof(*st->groups));
    st->norm = take_rows(plan, st, c);
    st->delta = take_rows(plan, st, c);
    st->edge = take_rows(plan, st, c);
    st->act = take_rows(plan, st, ffn);
    st->dpre = take_rows(plan, st, pre);
    st->dqkv = take_rows(plan, st, qkv);
    if (s->kind.is_gated) { /* gated kinds have rotary positions in training on a device */
        st->dact = take_rows(plan, st, ffn);
        st->turn =
            spot_memory_take(plan, (size_t)s->seq, (size_t)spot_shape_head_dim(s) * sizeof(float));
    }
    for (int i = 0; i < 3; i++)
        st->d[i] = take_rows(plan, st, c);
    if (st->is_split)
        plan_group(plan, st);
}

int64_t spot_cuda_partials(const struct spot_stage *st)
{
    int64_t n = st->n_row;

    for (int b = st->config.bundle_begin; b < st->config.bundle_end; b++) {
        struct spot_arena arena;

        spot_arena_of(&st->config.shape, b, &arena);
        n = max64(n, chunks_of(&arena));
    }
    return n;
}

void spot_cuda_plan(struct spot_memory_plan *plan, struct spot_stage *st)
{
    for (int i = 0; i < st->n_bundle; i++)
        plan_part(plan, st, st->config.bundle_begin + i, plan->base ? &st->part[i] : NULL);
    st->top = spot_memory_take(plan, (size_t)st->n_bundle, SPOT_TENSORS_MAX * sizeof(*st->top));
    st->top_sum = spot_memory_take(plan, SPOT_TENSORS_MAX, sizeof(*st->top_sum));
    st->partial = spot_memory_take(plan, (size_t)spot_cuda_partials(st), sizeof(*st->partial));
    if (!st->config.n_slot)
        return;
    plan_layer(plan, st, SPOT_RECOMPUTE_NONE, (enum spot_recompute)st->config.recompute,
               &st->again);
    plan_slots(plan, st);
    plan_scratch(plan, st);
}
