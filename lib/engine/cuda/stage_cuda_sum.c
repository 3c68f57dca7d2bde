/* SPDX-License-Identifier: MIT */
/* Access to fixed-point sums from the host, faults, norm, update. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/xalloc.h"
#include "engine/cuda/stage_cuda.h"

static struct spot_cuda_part *part_of(struct spot_stage *st, int bundle)
{
    assert(bundle >= st->config.bundle_begin && bundle < st->config.bundle_end);
    return &st->part[bundle - st->config.bundle_begin];
}

struct spot_cuda_target spot_cuda_target_of(struct spot_stage *st, int i, const char *name)
{
    struct spot_cuda_part *const part = &st->part[i];
    const struct spot_arena *const arena = &part->bundle->arena;
    const int t = spot_arena_find(arena, name);

    assert(t >= 0);
    part->exponent_used[t] = part->bundle->exponent[t];
    st->is_top_here = false;
    return (struct spot_cuda_target){ .sum = part->on.sum + spot_arena_offset(arena, t, 0),
                                      .top = part->top + t,
                                      .per_shard = arena->tensor[t].rows * arena->tensor[t].cols,
                                      .shard_stride = (int64_t)arena->shard_elem,
                                      .scale = ldexp(1, part->bundle->exponent[t]) };
}

int64_t *spot_cuda_stage_sum(struct spot_stage *st, int bundle)
{
    struct spot_cuda_part *const part = part_of(st, bundle);
    const size_t n_elem = part->bundle->arena.n_elem;

    if (!part->sum_host) {
        part->sum_host = spot_xcalloc(n_elem, sizeof(*part->sum_host));
        part->is_sum_locked =
            spot_device_host_lock(part->sum_host, n_elem * sizeof(*part->sum_host));
    }
    if (!part->is_sum_on_host)
        spot_device_download(st->dev, part->sum_host, part->on.sum,
                             n_elem * sizeof(*part->sum_host));
    part->is_sum_on_host = part->is_sum_changed = true; /* the caller may add to them */
    return part->sum_host;
}

/* `grad` is free once the last backward call is done. */
size_t spot_cuda_stage_rough_elem(const struct spot_stage *st)
{
    const struct spot_shape *const s = &st->config.shape;
    const int64_t rows[] = { spot_shape_vocab_rows(s), spot_shape_qkv(s), spot_shape_pre(s) };
    int64_t most = 0;

    for (int i = 0; i < 3; i++)
        most = rows[i] > most ? rows[i] : most;
    return (size_t)(most * s->width);
}

float *spot_cuda_stage_rough(struct spot_stage *st, int bundle, size_t begin, size_t n)
{
    spot_cuda_sums_to_floats(st->grad, part_of(st, bundle)->on.sum + begin, n, st->stream);
    return st->grad;
}

void spot_cuda_stage_unrough(struct spot_stage *st, int bundle, size_t begin, size_t n)
{
    spot_cuda_sums_of_floats(part_of(st, bundle)->on.sum + begin, st->grad, n, st->stream);
}

void spot_cuda_stage_join_sums(struct spot_stage *st, int bundle, size_t begin, int64_t *other,
                               size_t n)
{
    struct spot_cuda_part *const part = part_of(st, bundle);

    assert(!part->is_sum_on_host && begin + n <= part->bundle->arena.n_elem);
    spot_cuda_join_sums(part->on.sum + begin, other, n, st->stream);
}

/* Copies sums that the host may have changed back to the device. */
static void settle(struct spot_stage *st, struct spot_cuda_part *part)
{
    if (part->is_sum_changed)
        spot_device_upload(st->dev, part->on.sum, part->sum_host,
                           part->bundle->arena.n_elem * sizeof(*part->sum_host));
    part->is_sum_changed = false;
}

struct spot_stage_fault spot_cuda_stage_fault(struct spot_stage *st, int bundle)
{
    const struct spot_cuda_part *const part = part_of(st, bundle);
    const uint32_t *const top = st->top_host + (part - st->part) * SPOT_TENSORS_MAX;
    struct spot_stage_fault fault = { 0 };

    if (!st->is_top_here)
        spot_device_download(st->dev, st->top_host, st->top,
                             (size_t)st->n_bundle * SPOT_TENSORS_MAX * sizeof(*st->top));
    st->is_top_here = true;
    for (int t = 0; t < part->bundle->arena.n_tensor; t++) {
        float max;

        memcpy(&max, &top[t], sizeof(max));
        if (top[t] >= 0x7f800000U)
            fault.nonfinite |= UINT32_C(1) << t;
        else if (ldexp((double)max, part->exponent_used[t]) > ldexp(1, st->limit_bits))
            fault.overflow |= UINT32_C(1) << t;
    }
    return fault;
}

double spot_cuda_stage_norm2(struct spot_stage *st, int bundle)
{
    struct spot_cuda_part *const part = part_of(st, bundle);
    struct spot_cuda_units units = { { 0 } };
    double norm2 = 0;

    settle(st, part);
    for (int t = 0; t < part->bundle->arena.n_tensor; t++)
        units.unit[t] = spot_arena_is_copy(&st->config.shape, &part->bundle->arena, t)
                            ? 0 /* its gradient is counted with wte */
                            : spot_exact_unit(part->bundle, t, st->config.n_microbatch, 1);
    spot_cuda_norm2(&part->on, st->partial, &units, st->stream);
    spot_device_download(st->dev, st->partial_host, st->partial,
                         (size_t)part->on.n_chunk * sizeof(*st->partial));
    for (int c = 0; c < part->on.n_chunk; c++)
        norm2 += st->partial_host[c];
    return norm2;
}

void spot_cuda_stage_update(struct spot_stage *st, int bundle, const struct spot_adamw *adamw,
                            double scale)
{
    struct spot_cuda_part *const part = part_of(st, bundle);
    struct spot_bundle *const b = part->bundle;
    unsigned long long top[SPOT_TENSORS_MAX] = { 0 };
    struct spot_cuda_steps steps;

    memset(&steps, 0, sizeof(steps));
    for (int t = 0; t < b->arena.n_tensor; t++)
        steps.step[t] = spot_exact_adamw(b, t, st->config.n_microbatch, adamw, scale);
    settle(st, part);
    spot_device_zero(st->dev, st->top_sum, sizeof(top));
    spot_cuda_adamw(st->real, &part->on, st->top_sum, &steps, st->stream);
    spot_device_download(st->dev, top, st->top_sum, sizeof(top));
    for (int t = 0; t < b->arena.n_tensor; t++)
        b->exponent[t] = spot_exact_next(b->exponent[t], st->limit_bits, (double)top[t]);
    part->step = ++b->step;
    part->is_ahead = true;
}

void spot_cuda_stage_back_off(struct spot_stage *st, int bundle, uint32_t overflow)
{
    spot_exact_back_off(part_of(st, bundle)->bundle, overflow);
}
