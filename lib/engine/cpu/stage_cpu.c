/* SPDX-License-Identifier: MIT */
/* A stage on the CPU: its memory, and the order of a step. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "common/xalloc.h"
#include "engine/cpu/stage_cpu.h"
#include "engine/exact.h"
#include "engine/memory_plan.h"
#include "engine/rope.h"

/* --- memory: one block, divided by a plan that runs twice ------------------ */

static float *take_rows(struct spot_memory_plan *plan, const struct spot_stage *st, int64_t c)
{
    return spot_memory_take(plan, (size_t)st->n_row, (size_t)c * sizeof(float));
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Plans the fields of a layer's save that levels [from, to) of recompute no longer keep. The inputs
 * of the two halves are always kept, so no sum over a tensor group is repeated. */
static void plan_layer(struct spot_memory_plan *plan, const struct spot_stage *st,
                       enum spot_recompute from, enum spot_recompute to, struct spot_save *v)
{
    const struct spot_shape *const s = &st->config.shape;

    if (from == SPOT_RECOMPUTE_NONE && to > SPOT_RECOMPUTE_NONE)
        v->pre = take_rows(plan, st, spot_stage_own(st, spot_shape_pre(s)));
    if (from <= SPOT_RECOMPUTE_MLP && to > SPOT_RECOMPUTE_MLP) {
        v->norm1 = take_rows(plan, st, 2);
        v->qkv = take_rows(plan, st, spot_stage_own(st, spot_shape_qkv(s)));
        if (s->kind.qk_norm) {
            v->raw = take_rows(plan, st, spot_stage_own(st, spot_shape_qkv(s)));
            v->qk_stat =
                take_rows(plan, st, 2 * spot_stage_own(st, s->n_head + spot_shape_kv_heads(s)));
        }
        v->attention = take_rows(plan, st, spot_stage_own(st, spot_shape_attended(s)));
        v->softmax = take_rows(plan, st, spot_stage_own(st, 2 * s->n_head));
        v->norm2 = take_rows(plan, st, 2);
    }
}

static void plan_save(struct spot_memory_plan *plan, const struct spot_stage *st, int bundle,
                      struct spot_save *save)
{
    const struct spot_shape *const s = &st->config.shape;
    struct spot_save v = { 0 };

    if (bundle > 0 && bundle <= s->n_layer) {
        v = st->again;
        v.mid = take_rows(plan, st, s->width);
        for (int i = 0; i < 2 && s->kind.norm_place != SPOT_NORM_BEFORE; i++) {
            v.post_x[i] = take_rows(plan, st, s->width);
            v.post[i] = take_rows(plan, st, 2);
        }
        plan_layer(plan, st, (enum spot_recompute)st->config.recompute, SPOT_RECOMPUTES, &v);
    }
    if (bundle > 0)
        v.x = take_rows(plan, st, s->width);
    if (bundle > s->n_layer) {
        v.norm1 = take_rows(plan, st, 2);
        v.dlogit = take_rows(plan, st, spot_stage_own(st, spot_shape_vocab_rows(s)));
    }
    if (save)
        *save = v;
}

static void plan_slot(struct spot_memory_plan *plan, struct spot_stage *st, struct spot_slot *slot)
{
    uint32_t *const token =
        spot_memory_take(plan, (size_t)st->config.micro_batch, (size_t)st->n_word * sizeof(*token));
    struct spot_save *const save = spot_memory_take(plan, (size_t)st->n_bundle, sizeof(*save));

    if (slot)
        *slot = (struct spot_slot){ token, save };
    for (int i = 0; i < st->n_bundle; i++)
        plan_save(plan, st, st->config.bundle_begin + i, save ? &save[i] : NULL);
}

static void plan_slots(struct spot_memory_plan *plan, struct spot_stage *st)
{
    const size_t n_slot = (size_t)st->config.n_slot;
    struct spot_memory_plan one = { .align = plan->align };

    st->slot = spot_memory_take(plan, n_slot, sizeof(*st->slot));
    if (!plan->base) { /* slots are equal; there may be too many to count one by one */
        plan_slot(&one, st, NULL);
        spot_memory_take(plan, n_slot, one.used);
        return;
    }
    for (size_t k = 0; k < n_slot; k++)
        plan_slot(plan, st, &st->slot[k]);
}

static void plan_sums(struct spot_memory_plan *plan, struct spot_stage *st)
{
    int64_t n_partial = st->n_row;

    st->sum = spot_memory_take(plan, (size_t)st->n_bundle, sizeof(*st->sum));
    st->is_summed = spot_memory_take(plan, (size_t)st->n_bundle, sizeof(*st->is_summed));
    st->fault = spot_memory_take(plan, (size_t)st->n_bundle, sizeof(*st->fault));
    st->times = spot_memory_take(plan, (size_t)st->n_bundle, sizeof(*st->times));
    st->bundle = spot_memory_take(plan, (size_t)st->n_bundle, sizeof(struct spot_bundle *));
    for (int i = 0; i < st->n_bundle; i++) {
        struct spot_arena arena;

        if (st->config.is_forward)
            break;
        spot_arena_of(&st->config.shape, st->config.bundle_begin + i, &arena);
        n_partial = max64(n_partial, spot_sum_chunks(&arena));
    }
    st->partial = spot_memory_take(plan, (size_t)n_partial, sizeof(*st->partial));
}

/* Memory for the exchanges of a tensor group, and for the softmax over the vocabulary, which always
 * needs it. */
static void plan_group(struct spot_memory_plan *plan, struct spot_stage *st)
{
    const size_t n_row = (size_t)st->n_row, n_elem = n_row * (size_t)st->config.shape.width;
    const int n_shard = (int)st->config.shape.n_shard, M = n_shard / st->n_shard;
    struct spot_node node[SPOT_NODES_MAX];

    st->n_node = spot_tensor_group_nodes(&st->config.shape, st->shard / st->n_shard, M, node);
    st->row_top = spot_memory_take(plan, (size_t)M * n_row, 2 * sizeof(float));
    st->row_sum = spot_memory_take(plan, ((size_t)st->n_node + 1) * n_row, sizeof(float));
    if (st->config.shape.kind.qk_norm == SPOT_QK_WHOLE)
        st->row_pair = spot_memory_take(plan, ((size_t)st->n_node + 1) * n_row, 2 * sizeof(float));
    if (M == 1)
        return;
    st->group_out = spot_memory_take(plan, (size_t)st->n_node * n_elem, sizeof(float));
    st->group.in = spot_memory_take(
        plan, spot_tensor_group_in_elem(&st->config.shape, st->config.group.m, M, n_elem),
        sizeof(float));
    st->group.piece = spot_memory_take(plan, spot_tensor_group_pieces(&st->config.shape, M),
                                       sizeof(*st->group.piece));
}

/* Number of arrays d: one more if there is a scale or a norm between a product and the residual. */
static int n_gradient(const struct spot_shape *s)
{
    return 3 + (s->kind.norm_place != SPOT_NORM_BEFORE) + (s->kind.residual_scale != 0);
}

static void plan_scratch(struct spot_memory_plan *plan, struct spot_stage *st)
{
    const struct spot_shape *const s = &st->config.shape;
    const size_t n_thread = (size_t)st->config.n_thread;
    const int64_t vocab = spot_stage_own(st, spot_shape_vocab_rows(s)),
                  qkv = spot_stage_own(st, spot_shape_qkv(s)),
                  pre = spot_stage_own(st, spot_shape_pre(s)),
                  ffn = spot_stage_own(st, spot_shape_ffn(s));
    const bool is_gated = s->kind.is_gated;

    st->norm = take_rows(plan, st, s->width);
    st->act = take_rows(plan, st, ffn);
    st->dact = take_rows(plan, st, ffn);
    st->slope = is_gated ? NULL : take_rows(plan, st, ffn);
    st->dpre = is_gated ? take_rows(plan, st, pre) : NULL;
    for (int i = 0; i < 2; i++)
        st->turn[i] = spot_shape_rotary(s) && (!i || s->kind.rope_theta_local != 0)
                          ? spot_memory_take(plan, (size_t)s->seq,
                                             (size_t)spot_shape_rotary(s) * sizeof(float))
                          : NULL;
    st->dqkv = take_rows(plan, st, qkv);
    for (int i = 0; i < n_gradient(s); i++)
        st->d[i] = take_rows(plan, st,
                             i == 1 ? max64(s->width, spot_stage_own(st, spot_shape_attended(s)))
                                    : s->width);
    if (s->kind.logit_cap != 0)
        st->logit_slope = take_rows(plan, st, vocab);
    if (!st->config.is_forward)
        st->grad = spot_memory_take(plan, (size_t)max64(max64(qkv, pre), s->seq + vocab),
                                    (size_t)s->width * sizeof(float));
    for (int i = 0; i < 2; i++)
        st->vector[i] =
            spot_memory_take(plan, (size_t)max64(s->width, max64(qkv, pre)), sizeof(float));
    st->top = spot_memory_take(plan, n_thread, SPOT_TENSORS_MAX * sizeof(*st->top));
    st->work = spot_memory_take(plan, n_thread, sizeof(*st->work));
    st->score = spot_memory_take(plan, n_thread, sizeof(*st->score));
    for (size_t i = 0; i < n_thread && plan->used < SIZE_MAX; i++) {
        float *const work = spot_memory_take(plan, spot_gemm_work_elem(st->n_shard), sizeof(float));
        float *const score = spot_memory_take(
            plan,
            spot_attention_work_elem(s->seq, spot_shape_head_dim(s), s->kind.attention_cap != 0),
            sizeof(float));

        if (plan->base) {
            st->work[i] = spot_gemm_work_of(work);
            st->score[i] = score;
        }
    }
}

static void set_config(struct spot_stage *st, const struct spot_stage_config *config)
{
    const int M = config->group.M > 1 ? config->group.M : 1;

    assert(config->bundle_begin >= 0 && config->bundle_begin < config->bundle_end &&
           config->bundle_end <= spot_shape_bundles(&config->shape));
    assert(config->micro_batch >= 1 && config->n_slot >= 0 && config->n_microbatch >= 1 &&
           config->n_thread >= 1);
    assert(config->recompute >= 0 && config->recompute < SPOT_RECOMPUTES);
    assert(config->group.M >= 0 && config->group.m >= 0 && config->group.m < M &&
           config->shape.n_shard % M == 0);
    st->backend = &spot_backend_cpu;
    st->config = *config;
    st->kernel = (const struct spot_cpu_kernel *)config->kernel;
    st->n_bundle = config->bundle_end - config->bundle_begin;
    st->n_row = config->micro_batch * config->shape.seq;
    st->n_word = spot_stage_words(&config->shape, config->is_weighted);
    st->n_shard = (int)config->shape.n_shard / M;
    st->shard = config->group.m * st->n_shard;
    st->limit_bits = spot_exact_limit_bits(config->n_microbatch, config->shape.is_tied);
}

static void plan_all(struct spot_memory_plan *plan, struct spot_stage *st)
{
    if (st->config.n_slot)
        plan_layer(plan, st, SPOT_RECOMPUTE_NONE, (enum spot_recompute)st->config.recompute,
                   &st->again);
    plan_slots(plan, st);
    plan_sums(plan, st);
    if (st->config.n_slot) {
        plan_scratch(plan, st);
        plan_group(plan, st);
    }
}

static size_t memory(const struct spot_stage_config *config)
{
    struct spot_memory_plan plan = { .align = 64 };
    struct spot_stage st = { 0 };

    set_config(&st, config);
    plan_all(&plan, &st);
    for (int b = config->bundle_begin; b < config->bundle_end && !config->is_forward; b++) {
        struct spot_arena arena;

        spot_arena_of(&config->shape, b, &arena);
        spot_memory_take(&plan, spot_bundle_sum_memory(&arena), 1);
    }
    return plan.used;
}

static int check(const struct spot_stage_config *config, size_t limit_byte, struct spot_err *err)
{
    size_t need = memory(config);
    char what[64];

    if (spot_shape_refuse(&config->shape, ~SPOT_NEED(SPOT_NEEDS_EXPERTS), "training", err))
        return -1;

    for (int b = config->bundle_begin; b < config->bundle_end; b++) {
        struct spot_arena arena;

        spot_arena_of(&config->shape, b, &arena);
        if (__builtin_add_overflow(need, spot_bundle_memory(&arena), &need))
            need = SIZE_MAX;
    }
    snprintf(what, sizeof(what), "a stage of bundles %d to %d", config->bundle_begin,
             config->bundle_end - 1);
    return spot_memory_check(what, need, limit_byte, err);
}

static void free_stage(struct spot_stage *st)
{
    if (!st)
        return;
    for (int i = 0; st->memory && i < st->n_bundle; i++)
        if (st->sum[i])
            spot_bundle_leave_sum(st->bundle[i], st->sum[i]);
    spot_team_free(st->team);
    spot_free_aligned(st->memory);
    free(st);
}

static void add_floats(void *user, float *y, const float *x, size_t n)
{
    const struct spot_stage *const st = user;

    st->kernel->vec->add(y, x, (int64_t)n);
}

static void copy_floats(void *user, float *to, const float *from, size_t n)
{
    (void)user;
    memcpy(to, from, n * sizeof(*to));
}

static int take_bundles(struct spot_stage *st, struct spot_bundle *const *bundle,
                        struct spot_err *err)
{
    for (int i = 0; i < st->n_bundle; i++) {
        assert(bundle[i]->index == st->config.bundle_begin + i);
        st->bundle[i] = bundle[i];
        if (st->config.is_forward)
            continue;
        st->sum[i] = spot_bundle_take_sum(bundle[i]);
        if (!st->sum[i])
            return spot_err_set(err, SPOT_ESYS, "bundle %d: cannot allocate %zu byte for its sums",
                                bundle[i]->index, spot_bundle_sum_memory(&bundle[i]->arena));
    }
    return 0;
}

static struct spot_stage *new_stage(const struct spot_stage_config *config,
                                    struct spot_bundle *const *bundle, struct spot_err *err)
{
    struct spot_stage *const st = spot_xcalloc(1, sizeof(*st));
    struct spot_memory_plan plan = { .align = 64 };

    set_config(st, config);
    plan_all(&plan, st);
    if (spot_memory_check("stage", plan.used, 0, err)) {
        free_stage(st);
        return NULL;
    }
    st->memory = spot_alloc_aligned(plan.used, 1);
    if (!st->memory) {
        spot_err_set(err, SPOT_ESYS, "stage: cannot allocate %zu byte", plan.used);
        free_stage(st);
        return NULL;
    }
    plan = (struct spot_memory_plan){ .base = st->memory, .align = 64 };
    plan_all(&plan, st);
    st->group.shape = &st->config.shape;
    st->group.with = config->group;
    st->group.add = add_floats;
    st->group.copy = copy_floats;
    st->group.user = st;
    for (int i = 0; i < 2; i++)
        if (st->turn[i])
            spot_rope_table(st->turn[i], &config->shape, i == 1);
    st->team = spot_team_new(config->n_thread, err);
    if (!st->team || take_bundles(st, bundle, err)) {
        free_stage(st);
        return NULL;
    }
    return st;
}

int64_t spot_stage_own(const struct spot_stage *st, int64_t n)
{
    return n / st->config.shape.n_shard * st->n_shard;
}

bool spot_stage_is_lead(const struct spot_stage *st)
{
    return st->shard == 0;
}

/* --- a step ---------------------------------------------------------------- */

static size_t boundary_elem(const struct spot_stage *st)
{
    return (size_t)st->n_row * (size_t)st->config.shape.width;
}

struct spot_param spot_stage_param(const struct spot_stage *st, int i, const char *name)
{
    const struct spot_bundle *const b = st->bundle[i];
    const int t = spot_arena_find(&b->arena, name);

    assert(t >= 0);
    return (struct spot_param){
        b->plane[SPOT_PLANE_MASTER] +
            spot_arena_offset(&b->arena, t, b->arena.tensor[t].is_sharded ? st->shard : 0),
        (int64_t)b->arena.shard_elem, b->arena.tensor[t].rows, b->arena.tensor[t].cols
    };
}

/* Sums are not cleared here: the first gradients overwrite those of the last step, which saves a
 * pass over memory. */
static void begin(struct spot_stage *st)
{
    for (int i = 0; i < st->n_bundle; i++) {
        st->is_summed[i] = false;
        st->fault[i] = (struct spot_stage_fault){ 0 };
        st->times[i] = (struct spot_stage_times){ 0 };
    }
}

static bool has_embed(const struct spot_stage *st)
{
    return st->config.bundle_begin == 0;
}

static bool has_head(const struct spot_stage *st)
{
    return st->config.bundle_end == spot_shape_bundles(&st->config.shape);
}

static void forward(struct spot_stage *st, int slot, const uint32_t *token, const float *act_in,
                    float *act_out, double *loss)
{
    const struct spot_slot *const s = &st->slot[slot];

    assert(slot >= 0 && slot < st->config.n_slot);
    if (st->group.failure.code)
        return;
    if (has_embed(st) || has_head(st))
        memcpy(s->token, token,
               (size_t)st->config.micro_batch * (size_t)st->n_word * sizeof(*token));
    if (!has_embed(st))
        memcpy(s->save[0].x, act_in, boundary_elem(st) * sizeof(float));
    for (int i = 0; i < st->n_bundle; i++) {
        float *const out = i + 1 < st->n_bundle ? s->save[i + 1].x : act_out;
        const double start_s = spot_clock_s();

        switch (st->bundle[i]->arena.kind) {
        case SPOT_BUNDLE_EMBED:
            spot_embed_forward(st, i, s->token, out);
            break;
        case SPOT_BUNDLE_LAYER:
            spot_layer_forward(st, i, &s->save[i], out);
            break;
        case SPOT_BUNDLE_HEAD:
            *loss = spot_head_forward(st, i, &s->save[i], s->token);
            break;
        }
        st->times[i].forward_s += spot_clock_s() - start_s;
    }
}

static const double *row_loss(const struct spot_stage *st)
{
    return st->partial;
}

static void backward(struct spot_stage *st, int slot, const float *dact_out, float *dact_in)
{
    const struct spot_slot *const s = &st->slot[slot];
    const float *dout = dact_out;

    assert(slot >= 0 && slot < st->config.n_slot && !st->config.is_forward);
    if (st->group.failure.code)
        return;
    for (int i = st->n_bundle - 1; i >= 0; i--) {
        float *const din = i == 0 && dact_in ? dact_in : st->d[2];
        const double start_s = spot_clock_s();

        switch (st->bundle[i]->arena.kind) {
        case SPOT_BUNDLE_EMBED:
            spot_embed_backward(st, i, s->token, dout);
            break;
        case SPOT_BUNDLE_LAYER:
            spot_layer_backward(st, i, &s->save[i], dout, din);
            break;
        case SPOT_BUNDLE_HEAD:
            spot_head_backward(st, i, &s->save[i], din);
            break;
        }
        st->times[i].backward_s += spot_clock_s() - start_s;
        dout = din;
        if (st->done)
            st->done(st->done_user, st->bundle[i]->index);
    }
}

static void watch(struct spot_stage *st, void (*done)(void *user, int bundle), void *user)
{
    st->done = done;
    st->done_user = user;
}

static void forget(struct spot_stage *st, int bundle)
{
    const int i = bundle - st->config.bundle_begin;

    if (i < 0 || i >= st->n_bundle)
        return;
    spot_free_aligned(st->sum[i]);
    st->sum[i] = NULL;
    st->bundle[i] = NULL;
}

static int64_t *sum(struct spot_stage *st, int bundle)
{
    assert(bundle >= st->config.bundle_begin && bundle < st->config.bundle_end);
    spot_sum_settle(st, bundle - st->config.bundle_begin);
    return st->sum[bundle - st->config.bundle_begin];
}

static struct spot_stage_fault fault(struct spot_stage *st, int bundle)
{
    assert(bundle >= st->config.bundle_begin && bundle < st->config.bundle_end);
    return st->fault[bundle - st->config.bundle_begin];
}

static struct spot_stage_times times(const struct spot_stage *st, int bundle)
{
    assert(bundle >= st->config.bundle_begin && bundle < st->config.bundle_end);
    return st->times[bundle - st->config.bundle_begin];
}

static void back_off(struct spot_stage *st, int bundle, uint32_t overflow)
{
    assert(bundle >= st->config.bundle_begin && bundle < st->config.bundle_end);
    spot_exact_back_off(st->bundle[bundle - st->config.bundle_begin], overflow);
}

static int nothing_to_sync(struct spot_stage *st, int bundle, struct spot_err *err)
{
    (void)st;
    (void)bundle;
    (void)err;
    return 0;
}

static int status(const struct spot_stage *st, struct spot_err *err)
{
    if (!st->group.failure.code)
        return 0;
    *err = st->group.failure;
    return -1;
}

const struct spot_backend spot_backend_cpu = {
    .name = "cpu",
    .kernel = spot_cpu_kernel_kind,
    .memory = memory,
    .check = check,
    .new_stage = new_stage,
    .free_stage = free_stage,
    .boundary_elem = boundary_elem,
    .begin = begin,
    .forward = forward,
    .row_loss = row_loss,
    .backward = backward,
    .watch = watch,
    .sum = sum,
    .fault = fault,
    .norm2 = spot_cpu_stage_norm2,
    .update = spot_cpu_stage_update,
    .back_off = back_off,
    .times = times,
    .forget = forget,
    .sync = nothing_to_sync,
    .status = status,
};
