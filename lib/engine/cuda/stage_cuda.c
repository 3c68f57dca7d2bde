/* SPDX-License-Identifier: MIT */
/* A stage on a device: creation, and the order of a step. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/xalloc.h"
#include "engine/cuda/infer_cuda.h"
#include "engine/cuda/stage_cuda.h"
#include "engine/rope.h"

enum { GRID_MAX = 65535 };

/* Whether the attention's backward pass uses five products: off until it was measured on a device.
 * The bits are the same. */
static bool wants_five(void)
{
    const char *const told = getenv("SPOT_CUDA_ATTENTION");

    return told && !strcmp(told, "five");
}

static void set_config(struct spot_stage *st, const struct spot_stage_config *config)
{
    assert(config->bundle_begin >= 0 && config->bundle_begin < config->bundle_end &&
           config->bundle_end <= spot_shape_bundles(&config->shape));
    assert(config->micro_batch >= 1 && config->n_slot >= 0 && config->n_microbatch >= 1);
    assert(config->recompute >= 0 && config->recompute < SPOT_RECOMPUTES);
    st->backend = &spot_backend_cuda;
    st->config = *config;
    st->real = ((const struct spot_cuda_kernel *)config->kernel)->real;
    st->is_split = ((const struct spot_cuda_kernel *)config->kernel)->is_split;
    st->is_five = wants_five();
    st->n_shard = (int)config->shape.n_shard / (config->group.M > 1 ? config->group.M : 1);
    st->shard = config->group.m * st->n_shard;
    st->n_bundle = config->bundle_end - config->bundle_begin;
    st->n_row = config->micro_batch * config->shape.seq;
    st->limit_bits = spot_exact_limit_bits(config->n_microbatch, config->shape.is_tied);
}

static size_t memory(const struct spot_stage_config *config)
{
    struct spot_memory_plan plan = { .align = SPOT_CUDA_ALIGN,
                                     .guard_byte = spot_device_guard_byte() };
    struct spot_stage st = { 0 };

    set_config(&st, config);
    spot_cuda_plan(&plan, &st);
    return __builtin_add_overflow(plan.used, spot_device_overhead(), &plan.used) ? SIZE_MAX
                                                                                 : plan.used;
}

/* Checks the requirements of the kernels and of cuBLASLt's epilogues on a shape. */
static int check_shape(const struct spot_stage_config *config, struct spot_err *err)
{
    const struct spot_shape *const s = &config->shape;
    const enum spot_real real = ((const struct spot_cuda_kernel *)config->kernel)->real;

    if (spot_shape_refuse(s, SPOT_NEED(SPOT_NEEDS_ROPE_SCALING), "training on a CUDA device", err))
        return -1;
    if (config->is_weighted)
        return spot_err_set(err, SPOT_EGPU, "weighted losses need a CPU kernel");
    if (config->group.M > 1 && !((const struct spot_cuda_kernel *)config->kernel)->is_split)
        return spot_err_set(err, SPOT_EGPU,
                            "%d members share a stage: that needs kernel cuda-bf16-tp or "
                            "cuda-fp32-tp, not %s",
                            config->group.M, config->kernel->kind);
    if (spot_shape_head_dim(s) > SPOT_CUDA_HEAD_DIM_MAX)
        return spot_err_set(err, SPOT_EGPU, "on CUDA a head is at most %d wide, this is %lld",
                            SPOT_CUDA_HEAD_DIM_MAX, (long long)spot_shape_head_dim(s));
    if (real == SPOT_BF16 && s->width % 8)
        return spot_err_set(err, SPOT_EGPU,
                            "kernel cuda-bf16 needs a width that is a multiple of 8, not %lld",
                            (long long)s->width);
    if (s->n_head * config->micro_batch > GRID_MAX)
        return spot_err_set(err, SPOT_EGPU,
                            "on CUDA heads times micro batch is at most %d, this is %lld", GRID_MAX,
                            (long long)(s->n_head * config->micro_batch));
    return 0;
}

static int check(const struct spot_stage_config *config, size_t limit_byte, struct spot_err *err)
{
    char what[80];

    if (check_shape(config, err))
        return -1;
    snprintf(what, sizeof(what), "a stage of bundles %d to %d on a CUDA device",
             config->bundle_begin, config->bundle_end - 1);
    return spot_memory_check(what, memory(config),
                             limit_byte ? limit_byte : spot_device_available(), err);
}

/* --- creation --------------------------------------------------------------------------- */

static void free_stage(struct spot_stage *st)
{
    for (int i = 0; st->part && i < st->n_bundle; i++) {
        spot_cuda_part_forget(st, &st->part[i]);
        if (st->part[i].is_sum_locked)
            spot_device_host_unlock(st->part[i].sum_host);
        free(st->part[i].sum_host);
    }
    spot_device_close(st->dev);
    for (int k = 0; st->slot && k < st->config.n_slot; k++)
        free(st->slot[k].token_host);
    spot_device_host_free(st->boundary_host);
    spot_device_host_free(st->exchange_host);
    free(st->group.piece);
    free(st->part);
    free(st->slot);
    free(st->save);
    free(st->top_host);
    free(st->partial_host);
    free(st->groups_host);
    free(st);
}

static size_t token_elem(const struct spot_stage *st)
{
    return (size_t)st->config.micro_batch * ((size_t)st->config.shape.seq + 1);
}

static void take_host(struct spot_stage *st, struct spot_bundle *const *bundle)
{
    const size_t n_slot = (size_t)st->config.n_slot, n_row = (size_t)st->n_row;

    st->part = spot_xcalloc((size_t)st->n_bundle, sizeof(*st->part));
    st->slot = spot_xcalloc(n_slot, sizeof(*st->slot));
    st->save = spot_xcalloc(n_slot * (size_t)st->n_bundle, sizeof(*st->save));
    st->top_host = spot_xcalloc((size_t)st->n_bundle, SPOT_TENSORS_MAX * sizeof(*st->top_host));
    st->partial_host = spot_xcalloc((size_t)spot_cuda_partials(st), sizeof(*st->partial_host));
    st->groups_host =
        spot_xcalloc(3 * n_row + 1 + (size_t)st->config.shape.vocab, sizeof(*st->groups_host));
    for (int i = 0; i < st->n_bundle; i++) {
        st->part[i].bundle = bundle[i];
        st->part[i].arena = bundle[i]->arena;
        st->part[i].step = -1;
    }
    for (size_t k = 0; k < n_slot; k++) {
        st->slot[k].save = st->save + k * (size_t)st->n_bundle;
        st->slot[k].token_host = spot_xcalloc(token_elem(st), sizeof(*st->slot[k].token_host));
    }
}

static void upload_turn(struct spot_stage *st)
{
    const struct spot_shape *const s = &st->config.shape;
    const size_t n = (size_t)(s->seq * spot_shape_head_dim(s));
    float *const turn = spot_xcalloc(n, sizeof(*turn));

    spot_rope_table(turn, s, false);
    spot_device_upload(st->dev, st->turn, turn, n * sizeof(*turn));
    spot_device_wait(st->dev);
    free(turn);
}

static void add_floats(void *user, float *y, const float *x, size_t n)
{
    const struct spot_stage *const st = user;

    if (n)
        spot_cuda_add(SPOT_F32, y, y, x, n, st->stream);
}

static void copy_floats(void *user, float *to, const float *from, size_t n)
{
    const struct spot_stage *const st = user;

    spot_device_copy(st->dev, to, from, n * sizeof(*to));
}

static void join_group(struct spot_stage *st)
{
    const struct spot_shape *const s = &st->config.shape;
    struct spot_tensor_group *const g = &st->group;

    if (st->config.group.M < 2)
        return;
    g->shape = s;
    g->with = st->config.group;
    g->with.exchange = spot_cuda_exchange;
    g->with.user = st;
    g->add = add_floats;
    g->copy = copy_floats;
    g->user = st;
    /* pieces of an exchange, and their copies on the host */
    g->piece = spot_xcalloc(2 * spot_tensor_group_pieces(s, g->with.M), sizeof(*g->piece));
    if (!g->with.is_device)
        st->exchange_host =
            spot_device_host_new(st->dev, spot_cuda_exchange_elem(st) * sizeof(*st->exchange_host));
}

static int fill(struct spot_stage *st, void *memory_, struct spot_err *err)
{
    struct spot_memory_plan plan = { .base = memory_,
                                     .align = SPOT_CUDA_ALIGN,
                                     .guard_byte = spot_device_guard_byte(),
                                     .guard = spot_device_guard };

    spot_cuda_plan(&plan, st);
    st->stream = spot_device_stream(st->dev);
    if (st->config.n_slot)
        join_group(st);
    st->boundary_host = spot_device_host_new(
        st->dev,
        st->config.n_slot ? (size_t)st->n_row * (size_t)st->config.shape.width * sizeof(float) : 0);
    for (int i = 0; i < st->n_bundle; i++) {
        st->part[i].top = st->top + i * SPOT_TENSORS_MAX;
        spot_cuda_part_chunks(st, &st->part[i]);
        spot_cuda_part_renew(st, i, st->part[i].bundle);
    }
    if (st->turn)
        upload_turn(st);
    spot_device_wait(st->dev);
    return spot_device_status(st->dev, err);
}

static struct spot_stage *new_stage(const struct spot_stage_config *config,
                                    struct spot_bundle *const *bundle, struct spot_err *err)
{
    struct spot_stage *st;
    void *on_device;

    if (check(config, 0, err))
        return NULL;
    st = spot_xcalloc(1, sizeof(*st));
    set_config(st, config);
    take_host(st, bundle);
    st->dev = spot_device_open(memory(config) - spot_device_overhead(), &on_device, err);
    if (st->dev && !fill(st, on_device, err))
        return st;
    free_stage(st);
    return NULL;
}

/* --- a step --------------------------------------------------------------------------- */

static size_t boundary_elem(const struct spot_stage *st)
{
    return (size_t)st->n_row * (size_t)st->config.shape.width;
}

static void begin(struct spot_stage *st)
{
    for (int i = 0; i < st->n_bundle; i++) {
        struct spot_cuda_part *const part = &st->part[i];

        spot_device_zero(st->dev, part->on.sum, part->bundle->arena.n_elem * sizeof(int64_t));
        part->is_sum_on_host = part->is_sum_changed = false;
    }
    spot_device_zero(st->dev, st->top, (size_t)st->n_bundle * SPOT_TENSORS_MAX * sizeof(*st->top));
    st->is_top_here = false;
}

static bool has_embed(const struct spot_stage *st)
{
    return st->config.bundle_begin == 0;
}

static bool has_head(const struct spot_stage *st)
{
    return st->config.bundle_end == spot_shape_bundles(&st->config.shape);
}

/* Values that cross a boundary are values of T, so the conversion is exact. */
static void take_in(struct spot_stage *st, void *to, const float *from)
{
    const size_t n = boundary_elem(st);

    spot_device_wait(st->dev); /* the page-locked copy may still be in progress */
    if (st->boundary_host)
        memcpy(st->boundary_host, from, n * sizeof(*from));
    spot_device_upload(st->dev, st->boundary, st->boundary_host, n * sizeof(*from));
    spot_cuda_narrow(st->real, to, st->boundary, n, st->stream);
}

static void give_out(struct spot_stage *st, float *to, const void *from)
{
    const size_t n = boundary_elem(st);

    spot_cuda_widen(st->real, st->boundary, from, n, st->stream);
    spot_device_download(st->dev, st->boundary_host, st->boundary, n * sizeof(*to));
    if (st->boundary_host)
        memcpy(to, st->boundary_host, n * sizeof(*to));
}

static void forward(struct spot_stage *st, int slot, const uint32_t *token, const float *act_in,
                    float *act_out, double *loss)
{
    struct spot_cuda_slot *const s = &st->slot[slot];
    struct spot_cuda_flow flow = { NULL, NULL };

    assert(slot >= 0 && slot < st->config.n_slot);
    if (st->group.failure.code)
        return;
    if (has_embed(st) || has_head(st)) {
        memcpy(s->token_host, token, token_elem(st) * sizeof(*token));
        spot_device_upload(st->dev, s->token, s->token_host, token_elem(st) * sizeof(*token));
    }
    if (!has_embed(st)) {
        flow.x = s->save[0].x;
        if (act_in)
            take_in(st, flow.x, act_in);
    }
    for (int i = 0; i < st->n_bundle; i++)
        switch (st->part[i].bundle->arena.kind) {
        case SPOT_BUNDLE_EMBED:
            spot_cuda_embed_forward(st, i, s, &flow);
            break;
        case SPOT_BUNDLE_LAYER:
            spot_cuda_layer_forward(st, i, &s->save[i], &flow);
            break;
        case SPOT_BUNDLE_HEAD:
            *loss = spot_cuda_head_forward(st, i, s, &flow);
            break;
        }
    if (has_head(st))
        return;
    if (flow.delta)
        spot_cuda_add(st->real, st->edge, flow.x, flow.delta, boundary_elem(st), st->stream);
    st->out = flow.delta ? st->edge : flow.x;
    if (act_out)
        give_out(st, act_out, st->out);
}

static void backward(struct spot_stage *st, int slot, const float *dact_out, float *dact_in)
{
    const struct spot_cuda_slot *const s = &st->slot[slot];
    void *const d = st->d[2];

    assert(slot >= 0 && slot < st->config.n_slot);
    if (st->group.failure.code)
        return;
    if (dact_out)
        take_in(st, d, dact_out);
    for (int i = st->n_bundle - 1; i >= 0; i--)
        switch (st->part[i].bundle->arena.kind) {
        case SPOT_BUNDLE_EMBED:
            spot_cuda_embed_backward(st, i, s, d);
            break;
        case SPOT_BUNDLE_LAYER:
            spot_cuda_layer_backward(st, i, &s->save[i], d, d);
            break;
        case SPOT_BUNDLE_HEAD:
            spot_cuda_head_backward(st, i, &s->save[i], d);
            break;
        }
    if (dact_in)
        give_out(st, dact_in, d);
}

static int sync_planes(struct spot_stage *st, int bundle, struct spot_err *err)
{
    for (int i = 0; i < st->n_bundle; i++) {
        struct spot_cuda_part *const part = &st->part[i];

        if (bundle != SPOT_ALL_BUNDLES && bundle != st->config.bundle_begin + i)
            continue;
        if (!part->bundle)
            continue;
        for (int p = 0; part->is_ahead && p < SPOT_PLANES; p++)
            spot_device_fetch(st->dev, part->bundle->plane[p], part->on.plane[p],
                              part->bundle->arena.n_elem * sizeof(float));
        part->is_ahead = false;
    }
    spot_device_wait(st->dev); /* once for all */
    return spot_device_status(st->dev, err);
}

static int renew(struct spot_stage *st, struct spot_bundle *const *bundle, struct spot_err *err)
{
    for (int i = 0; i < st->n_bundle; i++)
        spot_cuda_part_renew(st, i, bundle[i]);
    spot_device_wait(st->dev);
    return spot_device_status(st->dev, err);
}

static void forget(struct spot_stage *st, int bundle)
{
    if (bundle >= st->config.bundle_begin && bundle < st->config.bundle_end)
        spot_cuda_part_forget(st, &st->part[bundle - st->config.bundle_begin]);
}

static int status(const struct spot_stage *st, struct spot_err *err)
{
    if (!st->group.failure.code)
        return spot_device_status(st->dev, err);
    *err = st->group.failure;
    return -1;
}

/* --- buffers for a communicator ---------------------------------------------------------- */

static void *buffer(struct spot_stage *st, enum spot_stage_buffer which, int i)
{
    switch (which) {
    case SPOT_BUFFER_IN:
        return st->slot[i].save[0].x;
    case SPOT_BUFFER_OUT:
        return st->out;
    case SPOT_BUFFER_SUM:
        return st->part[i - st->config.bundle_begin].on.sum;
    case SPOT_BUFFER_SPARE:
        return st->grad;
    case SPOT_BUFFER_DOUT:
    case SPOT_BUFFER_DIN:
        break;
    }
    return st->d[2];
}

static size_t boundary_byte(const struct spot_stage *st)
{
    return boundary_elem(st) * (st->real == SPOT_BF16 ? 2 : 4);
}

static void *stream(const struct spot_stage *st)
{
    return st->stream;
}

static void wait(struct spot_stage *st)
{
    spot_device_wait(st->dev);
}

static const struct spot_backend_device device = {
    .buffer = buffer,
    .boundary_byte = boundary_byte,
    .stream = stream,
    .wait = wait,
    .rough_elem = spot_cuda_stage_rough_elem,
    .rough = spot_cuda_stage_rough,
    .unrough = spot_cuda_stage_unrough,
    .join_sums = spot_cuda_stage_join_sums,
};

const struct spot_backend spot_backend_cuda = {
    .name = "cuda",
    .kernel = spot_cuda_kernel_kind,
    .memory = memory,
    .check = check,
    .new_stage = new_stage,
    .free_stage = free_stage,
    .boundary_elem = boundary_elem,
    .begin = begin,
    .forward = forward,
    .backward = backward,
    .sum = spot_cuda_stage_sum,
    .fault = spot_cuda_stage_fault,
    .norm2 = spot_cuda_stage_norm2,
    .update = spot_cuda_stage_update,
    .back_off = spot_cuda_stage_back_off,
    .renew = renew,
    .forget = forget,
    .sync = sync_planes,
    .status = status,
    .device = &device,
    .infer = &spot_infer_cuda,
};
