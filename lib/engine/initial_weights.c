/* SPDX-License-Identifier: MIT */
#include "engine/initial_weights.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/rng.h"
#include "engine/cpu/kernel_cpu.h"

/* Marsaglia's polar method on our own logarithm: libm's differs between machines. */
static void fill_normal(float *x, int64_t n, double std, struct spot_rng *rng)
{
    for (int64_t i = 0; i < n; i += 2) {
        double u, v, s, f;

        do {
            u = 2 * spot_rng_unit(rng) - 1;
            v = 2 * spot_rng_unit(rng) - 1;
            s = u * u + v * v;
        } while (s >= 1 || s < 1e-300);
        f = std * sqrt(-2 * spot_log(s) / s);
        x[i] = (float)(u * f);
        if (i + 1 < n)
            x[i + 1] = (float)(v * f);
    }
}

static void fill_constant(float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* Rows of shard s of a tensor that are parameters; the last rows of the vocabulary may be
 * padding. */
static int64_t real_rows(const struct spot_shape *shape, const struct spot_tensor *tensor, int s)
{
    const int64_t left = shape->vocab - s * tensor->rows;

    if (strcmp(tensor->name, "wte") != 0 && strcmp(tensor->name, "head.w") != 0)
        return tensor->rows;
    return left < 0 ? 0 : left < tensor->rows ? left : tensor->rows;
}

static bool is_norm_weight(const char *name)
{
    return strstr(name, ".w") &&
           (!strncmp(name, "ln", 2) || !strncmp(name, "post", 4) || strstr(name, "_norm") != NULL);
}

/* Random numbers of a tensor's shard. A tied head draws the same numbers as wte. */
static struct spot_rng rng_of(const struct spot_bundle *bundle, const struct spot_shape *shape,
                              uint64_t seed, int tensor, int shard)
{
    uint64_t index = (uint64_t)bundle->index;
    struct spot_arena embed;
    struct spot_rng rng;

    if (spot_arena_is_copy(shape, &bundle->arena, tensor)) {
        spot_arena_of(shape, 0, &embed);
        tensor = spot_arena_find(&embed, "wte");
        index = 0;
    }
    spot_rng_init(&rng, seed,
                  (index * SPOT_TENSORS_MAX + (uint64_t)tensor) << 16 | (uint64_t)shard);
    return rng;
}

void spot_bundle_start(struct spot_bundle *bundle, const struct spot_shape *shape, uint64_t seed)
{
    const struct spot_arena *const a = &bundle->arena;
    const double residual_std = 0.02 / sqrt(2.0 * (double)shape->n_layer);

    for (int p = 0; p < SPOT_PLANES; p++)
        memset(bundle->plane[p], 0, a->n_elem * sizeof(float));
    for (int t = 0; t < SPOT_TENSORS_MAX; t++)
        bundle->exponent[t] = SPOT_EXPONENT_START;
    bundle->step = 0;
    for (int t = 0; t < a->n_tensor; t++) {
        const struct spot_tensor *const tensor = &a->tensor[t];
        const bool is_residual = !strcmp(tensor->name, "proj.w") || !strcmp(tensor->name, "down.w");

        for (int s = 0; s < (tensor->is_sharded ? a->n_shard : 1); s++) {
            float *const x = bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(a, t, s);
            const int64_t n = real_rows(shape, tensor, s) * tensor->cols;
            struct spot_rng rng = rng_of(bundle, shape, seed, t, s);

            if (tensor->is_decayed)
                fill_normal(x, n, is_residual ? residual_std : 0.02, &rng);
            else
                fill_constant(x, n, is_norm_weight(tensor->name) ? 1.0F : 0.0F);
        }
    }
}
