/* SPDX-License-Identifier: MIT */
/* stage_rig.h - what the tests of stages share: models, ways to compute a step, chains of stages.
 */
#ifndef SPOT_TESTS_STAGE_RIG_H
#define SPOT_TESTS_STAGE_RIG_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "decoder_shapes.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"
#include "twin.h"

enum { G = 3, BUNDLES_MAX = 8 };

static const struct spot_shape shapes[] = {
    { .n_layer = 2, .width = 24, .n_head = 4, .seq = 13, .vocab = 19, .n_shard = 2 },
    { .n_layer = 1, .width = 64, .n_head = 8, .seq = 70, .vocab = 256, .n_shard = 8 },
    { .n_layer = 3,
      .width = 20,
      .n_head = 2,
      .seq = 5,
      .vocab = 7,
      .n_shard = 1,
      .norm_eps = 1e-6 },
    { .n_layer = 1,
      .width = 16,
      .n_head = 2,
      .seq = 97,
      .vocab = 256,
      .n_shard = 2,
      .norm_eps = 1e-3 },
    /* head dimensions 64 and 128 are the tensor cores' */
    { .n_layer = 1, .width = 128, .n_head = 2, .seq = 70, .vocab = 11, .n_shard = 2 },
    { .n_layer = 1, .width = 128, .n_head = 1, .seq = 75, .vocab = 11, .n_shard = 1 },
    { 2, 24, 6, 13, 19, 2, SPOT_DECODER_LLAMA, 2, 34, 10000, false, .norm_eps = 1e-3 },
    { 1, 64, 8, 70, 256, 4, SPOT_DECODER_LLAMA, 8, 172, 500000, false, .norm_eps = 0 },
    { 3, 20, 2, 5, 7, 1, SPOT_DECODER_LLAMA, 1, 9, 17, false, .norm_eps = 1e-6 },
    { 1, 128, 4, 97, 11, 2, SPOT_DECODER_LLAMA, 2, 300, 10000, false, .norm_eps = 0 },
    /* tensor cores, and query heads that share keys: several key heads in a shard, or one */
    { 1, 384, 6, 70, 11, 1, SPOT_DECODER_LLAMA, 2, 64, 10000, false, .norm_eps = 0 },
    { 1, 256, 4, 130, 11, 2, SPOT_DECODER_LLAMA, 2, 48, 10000, false, .norm_eps = 0 },
    { 1, 256, 2, 75, 11, 1, SPOT_DECODER_LLAMA, 1, 40, 500000, false, .norm_eps = 0 },
    /* a shard of a bias is 30 or 10 numbers: no multiple of 4, nor its offset */
    { .n_layer = 1, .width = 40, .n_head = 4, .seq = 7, .vocab = 19, .n_shard = 4 },
    SHAPE_HEAD_NORM,
    SHAPE_AROUND,
    SHAPE_CAPPED,
    SHAPE_AFTER,
    SHAPE_SCALED,
    SHAPE_WINDOW,
    SHAPE_ERF,
};
static const int micro_batches[] = {
    2, 1, 3, 2, 1, 1, 2, 1, 3, 1, 1, 1, 2, 2, 2, 1, 2, 2, 1, 1, 2
};
enum { N_SHAPE = sizeof(shapes) / sizeof(shapes[0]), FIRST_LLAMA = 6, FIRST_ANY = 14 };

static const struct spot_adamw adamw = { 1e-2, 0.9, 0.99, 1e-8, 0.1 };

/* How a step is computed; the result must not show it. */
struct way {
    const char *kernel;
    int n_stage, n_thread, n_slot;
    bool is_reversed;    /* order of the microbatches */
    bool is_two_holders; /* two replicas share the microbatches; their sums are added */
    int recompute;
};

struct model {
    struct spot_shape shape;
    int micro_batch, n_bundle;
    bool is_weighted;
    struct spot_bundle bundle[BUNDLES_MAX], *ptr[BUNDLES_MAX];
    uint32_t *token; /* [G][b * spot_stage_words] */
    double loss[G];
};

static inline size_t token_elem(const struct model *m)
{
    return (size_t)(m->micro_batch * spot_stage_words(&m->shape, m->is_weighted));
}

static inline void model_init(struct model *m, int i)
{
    struct spot_rng rng;
    struct spot_err err;

    memset(m, 0, sizeof(*m));
    m->shape = shapes[i];
    m->micro_batch = micro_batches[i];
    m->n_bundle = spot_shape_bundles(&m->shape);
    m->token = malloc(G * token_elem(m) * sizeof(*m->token));
    spot_rng_init(&rng, 7, (uint64_t)i);
    for (size_t k = 0; k < G * token_elem(m); k++)
        m->token[k] = (uint32_t)spot_rng_below(&rng, (uint64_t)m->shape.vocab);
    for (int b = 0; b < m->n_bundle; b++) {
        float *w;

        ck_assert_int_eq(spot_bundle_init(&m->bundle[b], &m->shape, b, &err), 0);
        m->ptr[b] = &m->bundle[b];
        spot_bundle_start(&m->bundle[b], &m->shape, 5);
        /* large, so that every part of the model matters */
        w = m->bundle[b].plane[SPOT_PLANE_MASTER];
        for (int t = 0; t < m->bundle[b].arena.n_tensor; t++)
            for (int s = 0; s < (m->bundle[b].arena.tensor[t].is_sharded ? m->shape.n_shard : 1);
                 s++)
                for (int64_t k = 0;
                     k < m->bundle[b].arena.tensor[t].rows * m->bundle[b].arena.tensor[t].cols; k++)
                    w[spot_arena_offset(&m->bundle[b].arena, t, s) + (size_t)k] +=
                        0.2F * (float)(spot_rng_unit(&rng) - 0.5);
    }
}

/* Give the losses factors: all 1, or drawn from [-2, 2) with a fifth of them 0. */
static inline void model_weigh(struct model *m, bool is_one)
{
    const size_t n = (size_t)m->shape.seq + 1, each = 2 * n - 1,
                 n_sequence = (size_t)(G * m->micro_batch);
    uint32_t *const word = malloc(n_sequence * each * sizeof(*word));
    struct spot_rng rng;

    spot_rng_init(&rng, 11, 0);
    for (size_t k = 0; k < n_sequence; k++) {
        memcpy(word + k * each, m->token + k * n, n * sizeof(*word));
        for (size_t i = n; i < each; i++) {
            const float drawn = spot_rng_below(&rng, 5) ? (float)(4 * spot_rng_unit(&rng) - 2) : 0,
                        factor = is_one ? 1 : drawn;

            memcpy(&word[k * each + i], &factor, sizeof(factor));
        }
    }
    free(m->token);
    m->token = word;
    m->is_weighted = true;
}

static inline void model_release(struct model *m)
{
    for (int b = 0; b < m->n_bundle; b++)
        spot_bundle_release(&m->bundle[b]);
    free(m->token);
}

static inline struct spot_stage_config config_of(const struct model *m, const struct way *way,
                                                 int begin, int end)
{
    return (struct spot_stage_config){ .shape = m->shape,
                                       .bundle_begin = begin,
                                       .bundle_end = end,
                                       .micro_batch = m->micro_batch,
                                       .n_slot = way->n_slot,
                                       .n_microbatch = G,
                                       .n_thread = way->n_thread,
                                       .recompute = way->recompute,
                                       .is_weighted = m->is_weighted,
                                       .kernel = spot_kernel_find(way->kernel, NULL) };
}

/* Not every kind runs on every CPU, nor every shape on every kind. */
static inline bool is_possible(int shape, const struct way *way)
{
    const struct model m = { .shape = shapes[shape], .micro_batch = micro_batches[shape] };
    const struct spot_stage_config config =
        config_of(&m, way, 0, spot_shape_bundles(&shapes[shape]));

    return config.kernel && !spot_stage_check(&config, 0, NULL);
}

/* What the twin computes in a blink. */
static inline bool is_quick(int shape, const struct way *way)
{
    return strncmp(way->kernel, "cuda", 4) != 0 || shapes[shape].seq < 20;
}

static inline struct spot_stage *stage_of(struct model *m, const struct way *way, int begin,
                                          int end)
{
    struct spot_err err = { 0 };
    const struct spot_stage_config config = config_of(m, way, begin, end);
    struct spot_stage *const stage = spot_stage_new(&config, m->ptr + begin, &err);

    ck_assert_msg(stage, "%s", err.msg);
    return stage;
}

/* A chain of stages, forward through all and back. */
struct pipeline {
    int n_stage;
    struct spot_stage *stage[BUNDLES_MAX];
    int begin[BUNDLES_MAX + 1];
    float *boundary[BUNDLES_MAX + 1];
};

static inline void pipeline_open(struct pipeline *p, struct model *m, const struct way *way)
{
    memset(p, 0, sizeof(*p));
    p->n_stage = way->n_stage;
    for (int i = 0; i <= p->n_stage; i++)
        p->begin[i] = m->n_bundle * i / p->n_stage;
    for (int i = 0; i < p->n_stage; i++) {
        p->stage[i] = stage_of(m, way, p->begin[i], p->begin[i + 1]);
        p->boundary[i] = i ? calloc(spot_stage_boundary_elem(p->stage[i]), sizeof(float)) : NULL;
        spot_stage_begin(p->stage[i]);
    }
    p->boundary[p->n_stage] = NULL;
}

static inline void pipeline_close(struct pipeline *p)
{
    for (int i = 0; i < p->n_stage; i++) {
        spot_stage_free(p->stage[i]);
        free(p->boundary[i]);
    }
}

static inline void pipeline_run(struct pipeline *p, struct model *m, int j, int slot)
{
    const uint32_t *const token = m->token + (size_t)j * token_elem(m);

    for (int i = 0; i < p->n_stage; i++)
        spot_stage_forward(p->stage[i], slot, token, p->boundary[i], p->boundary[i + 1],
                           &m->loss[j]);
    for (int i = p->n_stage - 1; i >= 0; i--)
        spot_stage_backward(p->stage[i], slot, p->boundary[i + 1], p->boundary[i]);
}

static inline struct spot_stage *holder(struct pipeline *p, int bundle)
{
    int i = 0;

    while (p->begin[i + 1] <= bundle)
        i++;
    return p->stage[i];
}

/* All G microbatches; returns the faults of all bundles in *fault. p[1] adds to p[0]'s sums. */
static inline void run_microbatches(struct pipeline p[2], struct model *m, const struct way *way,
                                    struct spot_stage_fault fault[])
{
    for (int k = 0; k < G; k++) {
        const int j = way->is_reversed ? G - 1 - k : k;

        pipeline_run(&p[way->is_two_holders && j == 1], m, j, k % way->n_slot);
    }
    for (int b = 0; b < m->n_bundle; b++) {
        fault[b] = spot_stage_fault(holder(&p[0], b), b);
        if (way->is_two_holders) {
            const struct spot_stage_fault other = spot_stage_fault(holder(&p[1], b), b);
            int64_t *const sum = spot_stage_sum(holder(&p[0], b), b);
            const int64_t *const add = spot_stage_sum(holder(&p[1], b), b);

            fault[b].overflow |= other.overflow;
            fault[b].nonfinite |= other.nonfinite;
            for (size_t e = 0; e < m->bundle[b].arena.n_elem; e++)
                sum[e] = (int64_t)((uint64_t)sum[e] + (uint64_t)add[e]);
        }
    }
}

/* One optimizer step, redone after a back-off as often as needed. Returns the redos. */
static inline int run_step(struct model *m, const struct way *way, bool is_updated)
{
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct pipeline p[2];
    int n_redo = -1;
    uint32_t overflow;

    pipeline_open(&p[0], m, way);
    if (way->is_two_holders)
        pipeline_open(&p[1], m, way);
    do {
        for (int r = 0; r <= way->is_two_holders; r++)
            for (int i = 0; i < p[r].n_stage; i++)
                spot_stage_begin(p[r].stage[i]);
        run_microbatches(p, m, way, fault);
        overflow = 0;
        for (int b = 0; b < m->n_bundle; b++) {
            ck_assert_uint_eq(fault[b].nonfinite, 0);
            overflow |= fault[b].overflow;
            spot_stage_back_off(holder(&p[0], b), b, fault[b].overflow);
        }
        n_redo++;
    } while (overflow && n_redo < 9);
    for (int b = 0; b < m->n_bundle && is_updated; b++)
        spot_stage_update(holder(&p[0], b), b, &adamw, 0.75);
    for (int i = 0; i < p[0].n_stage; i++)
        ck_assert_int_eq(spot_stage_sync(p[0].stage[i], SPOT_ALL_BUNDLES, NULL), 0);
    pipeline_close(&p[0]);
    if (way->is_two_holders)
        pipeline_close(&p[1]);
    return n_redo;
}

/* One kind of each backend and precision. */
static const char *const kinds[] = { "auto", "cuda-fp32", "cuda-bf16" };
enum { N_KIND = sizeof(kinds) / sizeof(kinds[0]) };

#endif /* SPOT_TESTS_STAGE_RIG_H */
