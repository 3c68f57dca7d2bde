/* SPDX-License-Identifier: MIT */
/* Fixed-point sums of gradients, their norm, the update and the exponents of the next step. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/cpu/stage_cpu.h"
#include "engine/exact.h"

/* --- accumulation ---------------------------------------------------------- */

void spot_sum_add(const struct spot_part *part, int i, int tensor, const float *grad, int64_t begin,
                  int64_t end)
{
    const struct spot_stage *const stage = part->stage;
    const struct spot_arena *const arena = &stage->bundle[i]->arena;
    const int64_t per_shard = arena->tensor[tensor].rows * arena->tensor[tensor].cols;
    const double scale = ldexp(1, stage->bundle[i]->exponent[tensor]);
    const bool is_sharded = arena->tensor[tensor].is_sharded;
    uint32_t *const top = &stage->top[part->thread * SPOT_TENSORS_MAX + tensor];

    if (!is_sharded && !spot_stage_is_lead(stage))
        return; /* the lead adds the same gradients */
    while (begin < end) {
        const int64_t in_shard = begin % per_shard;
        const int64_t n = per_shard - in_shard < end - begin ? per_shard - in_shard : end - begin;
        const int shard = is_sharded ? stage->shard + (int)(begin / per_shard) : 0;
        const uint32_t here = stage->kernel->vec->quantise(
            stage->sum[i] + spot_arena_offset(arena, tensor, shard) + in_shard, grad + begin, n,
            scale, !stage->is_summed[i]);

        *top = here > *top ? here : *top;
        begin += n;
    }
}

void spot_sum_add_shared(const struct spot_part *part, int i, int tensor, const float *grad,
                         int64_t at, int64_t n, bool is_more)
{
    const struct spot_stage *const stage = part->stage;
    uint32_t *const top = &stage->top[part->thread * SPOT_TENSORS_MAX + tensor];
    const uint32_t here = stage->kernel->vec->quantise(
        stage->sum[i] + spot_arena_offset(&stage->bundle[i]->arena, tensor, 0) + at, grad, n,
        ldexp(1, stage->bundle[i]->exponent[tensor]), !stage->is_summed[i] && !is_more);

    *top = here > *top ? here : *top;
}

/* Elements of a replicated tensor to which this member adds: norms of queries and keys get a part
 * from each shard, or a shard has a part of them; of all others the lead has all. */
static void own_part(const struct spot_stage *stage, const struct spot_arena *arena, int t,
                     size_t *begin, size_t *end)
{
    const struct spot_shape *const s = &stage->config.shape;
    const size_t n = (size_t)(arena->tensor[t].rows * arena->tensor[t].cols);
    const bool is_shared = s->kind.qk_norm && strstr(arena->tensor[t].name, "_norm.");
    const bool is_cut = is_shared && s->kind.qk_norm == SPOT_QK_WHOLE;
    const size_t per = n / (size_t)s->n_shard;

    *begin = is_cut ? (size_t)stage->shard * per : 0;
    *end = is_cut                                   ? *begin + (size_t)stage->n_shard * per
           : is_shared || spot_stage_is_lead(stage) ? n
                                                    : 0;
    *begin += arena->tensor[t].offset;
    *end += arena->tensor[t].offset;
}

/* The first gradients of a step overwrite those of the last one, so elements of other members of
 * the tensor group must be set to zero. */
static void clear_others(const struct spot_stage *stage, int i)
{
    const struct spot_arena *const arena = &stage->bundle[i]->arena;
    const size_t begin = arena->replicated_elem + (size_t)stage->shard * arena->shard_elem,
                 end = begin + (size_t)stage->n_shard * arena->shard_elem;
    size_t at = 0, from, to;

    for (int t = 0; t < arena->n_tensor; t++) { /* tensors lie in this order */
        own_part(stage, arena, t, &from, &to);
        if (arena->tensor[t].is_sharded || to == from)
            continue;
        memset(stage->sum[i] + at, 0, (from - at) * sizeof(int64_t));
        at = to;
    }
    memset(stage->sum[i] + at, 0, (begin - at) * sizeof(int64_t));
    memset(stage->sum[i] + end, 0, (arena->n_elem - end) * sizeof(int64_t));
}

/* If each shard adds a part, the limit is divided among the parts. */
static int limit_of(const struct spot_stage *stage, const struct spot_bundle *bundle, int t)
{
    const struct spot_shape *const s = &stage->config.shape;
    int bits = 0;

    while (s->kind.qk_norm == SPOT_QK_HEAD && strstr(bundle->arena.tensor[t].name, "_norm.") &&
           1 << bits < s->n_shard)
        bits++;
    return stage->limit_bits - bits;
}

void spot_sum_close(struct spot_stage *stage, int i)
{
    const struct spot_bundle *const bundle = stage->bundle[i];

    for (int t = 0; t < bundle->arena.n_tensor; t++) {
        uint32_t top = 0;
        float max;

        for (int thread = 0; thread < stage->config.n_thread; thread++) {
            uint32_t *const here = &stage->top[thread * SPOT_TENSORS_MAX + t];

            top = *here > top ? *here : top;
            *here = 0;
        }
        memcpy(&max, &top, sizeof(max));
        if (top >= 0x7f800000U)
            stage->fault[i].nonfinite |= UINT32_C(1) << t;
        else if (ldexp((double)max, bundle->exponent[t]) > ldexp(1, limit_of(stage, bundle, t)))
            stage->fault[i].overflow |= UINT32_C(1) << t;
    }
    if (!stage->is_summed[i])
        clear_others(stage, i);
    stage->is_summed[i] = true;
}

void spot_sum_settle(const struct spot_stage *stage, int i)
{
    if (!stage->is_summed[i])
        memset(stage->sum[i], 0, stage->bundle[i]->arena.n_elem * sizeof(int64_t));
    stage->is_summed[i] = true;
}

/* --- chunks: the same cut for every worker of a bundle ---------------------- */

static int64_t chunks_of(int64_t n)
{
    return (n + SPOT_EXACT_CHUNK - 1) / SPOT_EXACT_CHUNK;
}

int64_t spot_sum_chunks(const struct spot_arena *arena)
{
    int64_t n = 0;

    for (int t = 0; t < arena->n_tensor; t++)
        n += chunks_of(arena->tensor[t].rows * arena->tensor[t].cols) *
             (arena->tensor[t].is_sharded ? arena->n_shard : 1);
    return n;
}

struct walk {
    const struct spot_stage *stage;
    int i;
    double scale;
    const struct spot_adamw *adamw;
    double (*fn)(const struct walk *walk, int tensor, size_t offset, int64_t n);
};

/* Each thread takes an interval of the chunks of all tensors and shards, counted in their order. */
static void run_walk(void *user, int thread, int n_thread)
{
    const struct walk *const w = user;
    const struct spot_arena *const arena = &w->stage->bundle[w->i]->arena;
    int64_t begin, end, chunk = 0;

    spot_team_share(spot_sum_chunks(arena), 1, thread, n_thread, &begin, &end);
    for (int t = 0; t < arena->n_tensor; t++) {
        const int64_t n = arena->tensor[t].rows * arena->tensor[t].cols;

        for (int s = 0; s < (arena->tensor[t].is_sharded ? arena->n_shard : 1); s++)
            for (int64_t at = 0; at < n; at += SPOT_EXACT_CHUNK, chunk++)
                if (chunk >= begin && chunk < end)
                    w->stage->partial[chunk] =
                        w->fn(w, t, spot_arena_offset(arena, t, s) + (size_t)at,
                              n - at < SPOT_EXACT_CHUNK ? n - at : SPOT_EXACT_CHUNK);
    }
}

static double unit_of(const struct walk *w, int tensor)
{
    return spot_exact_unit(w->stage->bundle[w->i], tensor, w->stage->config.n_microbatch, w->scale);
}

static int local_index(const struct spot_stage *stage, int bundle)
{
    assert(bundle >= stage->config.bundle_begin && bundle < stage->config.bundle_end);
    return bundle - stage->config.bundle_begin;
}

/* --- norm ------------------------------------------------------------------ */

static double norm2_chunk(const struct walk *w, int tensor, size_t offset, int64_t n)
{
    if (spot_arena_is_copy(&w->stage->config.shape, &w->stage->bundle[w->i]->arena, tensor))
        return 0; /* its gradient is counted with wte */
    return w->stage->kernel->vec->norm2(w->stage->sum[w->i] + offset, n, unit_of(w, tensor));
}

double spot_cpu_stage_norm2(struct spot_stage *stage, int bundle)
{
    const int i = local_index(stage, bundle);
    struct walk walk = { stage, i, 1, NULL, norm2_chunk };
    double norm2 = 0;

    spot_sum_settle(stage, i);
    spot_team_run(stage->team, run_walk, &walk);
    for (int64_t c = 0; c < spot_sum_chunks(&stage->bundle[i]->arena); c++)
        norm2 += stage->partial[c];
    return norm2;
}

/* --- update ---------------------------------------------------------------- */

static double adamw_chunk(const struct walk *w, int tensor, size_t offset, int64_t n)
{
    const struct spot_bundle *const bundle = w->stage->bundle[w->i];
    const struct spot_adamw_step step =
        spot_exact_adamw(bundle, tensor, w->stage->config.n_microbatch, w->adamw, w->scale);

    return w->stage->kernel->vec->adamw(
        bundle->plane[SPOT_PLANE_MASTER] + offset, bundle->plane[SPOT_PLANE_M] + offset,
        bundle->plane[SPOT_PLANE_V] + offset, w->stage->sum[w->i] + offset, n, &step);
}

static void set_exponents(struct spot_stage *stage, struct spot_bundle *bundle)
{
    const struct spot_arena *const arena = &bundle->arena;
    int64_t chunk = 0;

    for (int t = 0; t < arena->n_tensor; t++) {
        const int64_t end = chunk + chunks_of(arena->tensor[t].rows * arena->tensor[t].cols) *
                                        (arena->tensor[t].is_sharded ? arena->n_shard : 1);
        double top = 0;

        for (; chunk < end; chunk++)
            top = stage->partial[chunk] > top ? stage->partial[chunk] : top;
        bundle->exponent[t] = spot_exact_next(bundle->exponent[t], stage->limit_bits, top);
    }
}

void spot_cpu_stage_update(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                           double scale)
{
    const int i = local_index(stage, bundle);
    struct walk walk = { stage, i, scale, adamw, adamw_chunk };

    spot_sum_settle(stage, i);
    spot_team_run(stage->team, run_walk, &walk);
    set_exponents(stage, stage->bundle[i]);
    stage->bundle[i]->step++;
}
