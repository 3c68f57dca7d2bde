/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "decoder_f64.h"
#include "engine/stage.h"

/* Goal: the gradients are right (double precision oracle, finite differences), and the state after
 * some steps is the same bits for every thread count, slot, stage split, order and history. */

enum { G = 3, BUNDLES_MAX = 8 };

static const struct spot_shape shapes[] = {
    { .n_layer = 2, .width = 24, .n_head = 4, .seq = 13, .vocab = 19, .n_shard = 2 },
    { .n_layer = 1, .width = 64, .n_head = 8, .seq = 70, .vocab = 256, .n_shard = 8 },
    { .n_layer = 3, .width = 20, .n_head = 2, .seq = 5, .vocab = 7, .n_shard = 1 },
    { .n_layer = 1, .width = 16, .n_head = 2, .seq = 97, .vocab = 256, .n_shard = 2 },
    /* head dimensions 64 and 128 are the tensor cores' */
    { .n_layer = 1, .width = 128, .n_head = 2, .seq = 70, .vocab = 11, .n_shard = 2 },
    { .n_layer = 1, .width = 128, .n_head = 1, .seq = 75, .vocab = 11, .n_shard = 1 },
    { 2, 24, 6, 13, 19, 2, SPOT_ARCH_LLAMA, 2, 34, 10000, false },
    { 1, 64, 8, 70, 256, 4, SPOT_ARCH_LLAMA, 8, 172, 500000, false },
    { 3, 20, 2, 5, 7, 1, SPOT_ARCH_LLAMA, 1, 9, 17, false },
    { 1, 128, 4, 97, 11, 2, SPOT_ARCH_LLAMA, 2, 300, 10000, false },
};
static const int micro_batches[] = { 2, 1, 3, 2, 1, 1, 2, 1, 3, 1 };
enum { N_SHAPE = sizeof(shapes) / sizeof(shapes[0]), FIRST_LLAMA = 6 };

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
    struct spot_bundle bundle[BUNDLES_MAX], *ptr[BUNDLES_MAX];
    uint32_t *token; /* [G][b * (T + 1)] */
    double loss[G];
};

static size_t token_elem(const struct model *m)
{
    return (size_t)m->micro_batch * ((size_t)m->shape.seq + 1);
}

static void model_init(struct model *m, int i)
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

static void model_release(struct model *m)
{
    for (int b = 0; b < m->n_bundle; b++)
        spot_bundle_release(&m->bundle[b]);
    free(m->token);
}

static struct spot_stage_config config_of(const struct model *m, const struct way *way, int begin,
                                          int end)
{
    return (struct spot_stage_config){ .shape = m->shape,
                                       .bundle_begin = begin,
                                       .bundle_end = end,
                                       .micro_batch = m->micro_batch,
                                       .n_slot = way->n_slot,
                                       .n_microbatch = G,
                                       .n_thread = way->n_thread,
                                       .recompute = way->recompute,
                                       .kernel = spot_kernel_find(way->kernel, NULL) };
}

/* Not every kind runs on every CPU, nor every shape on every kind. */
static bool is_possible(int shape, const struct way *way)
{
    const struct model m = { .shape = shapes[shape], .micro_batch = micro_batches[shape] };
    const struct spot_stage_config config =
        config_of(&m, way, 0, spot_shape_bundles(&shapes[shape]));

    return config.kernel && !spot_stage_check(&config, 0, NULL);
}

/* What the twin computes in a blink. */
static bool is_quick(int shape, const struct way *way)
{
    return strncmp(way->kernel, "cuda", 4) != 0 || shapes[shape].seq < 20;
}

static struct spot_stage *stage_of(struct model *m, const struct way *way, int begin, int end)
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

static void pipeline_open(struct pipeline *p, struct model *m, const struct way *way)
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

static void pipeline_close(struct pipeline *p)
{
    for (int i = 0; i < p->n_stage; i++) {
        spot_stage_free(p->stage[i]);
        free(p->boundary[i]);
    }
}

static void pipeline_run(struct pipeline *p, struct model *m, int j, int slot)
{
    const uint32_t *const token = m->token + (size_t)j * token_elem(m);

    for (int i = 0; i < p->n_stage; i++)
        spot_stage_forward(p->stage[i], slot, token, p->boundary[i], p->boundary[i + 1],
                           &m->loss[j]);
    for (int i = p->n_stage - 1; i >= 0; i--)
        spot_stage_backward(p->stage[i], slot, p->boundary[i + 1], p->boundary[i]);
}

static struct spot_stage *holder(struct pipeline *p, int bundle)
{
    int i = 0;

    while (p->begin[i + 1] <= bundle)
        i++;
    return p->stage[i];
}

/* All G microbatches; returns the faults of all bundles in *fault. p[1] adds to p[0]'s sums. */
static void run_microbatches(struct pipeline p[2], struct model *m, const struct way *way,
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
static int run_step(struct model *m, const struct way *way, bool is_updated)
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
        ck_assert_int_eq(spot_stage_sync(p[0].stage[i], NULL), 0);
    pipeline_close(&p[0]);
    if (way->is_two_holders)
        pipeline_close(&p[1]);
    return n_redo;
}

/* --- right numbers ---------------------------------------------------------- */

static struct f64_model oracle_of(const struct model *m)
{
    struct f64_model o = { .shape = m->shape, .micro_batch = m->micro_batch };

    o.weight = calloc((size_t)m->n_bundle, sizeof(*o.weight));
    o.grad = calloc((size_t)m->n_bundle, sizeof(*o.grad));
    ck_assert(o.weight && o.grad);
    for (int b = 0; b < m->n_bundle; b++) {
        const size_t n = m->bundle[b].arena.n_elem;

        o.weight[b] = f64_new((int64_t)n);
        o.grad[b] = f64_new((int64_t)n);
        for (size_t e = 0; e < n; e++)
            o.weight[b][e] = m->bundle[b].plane[SPOT_PLANE_MASTER][e];
    }
    return o;
}

static void oracle_release(struct f64_model *o, const struct model *m)
{
    for (int b = 0; b < m->n_bundle; b++) {
        free(o->weight[b]);
        free(o->grad[b]);
    }
    free(o->weight);
    free(o->grad);
}

/* |got - want| / |want| of one tensor over all its shards, want and got from gradient sums. */
static double tensor_error(const struct model *m, int b, int t, const int64_t *sum,
                           const double *want)
{
    const struct spot_arena *const a = &m->bundle[b].arena;
    const double unit = ldexp(1, -m->bundle[b].exponent[t]);
    double error = 0, size = 0;

    for (int s = 0; s < (a->tensor[t].is_sharded ? a->n_shard : 1); s++)
        for (int64_t k = 0; k < a->tensor[t].rows * a->tensor[t].cols; k++) {
            const size_t e = spot_arena_offset(a, t, s) + (size_t)k;

            error += pow((double)sum[e] * unit - want[e], 2);
            size += want[e] * want[e];
        }
    return sqrt(error / size);
}

/* Kinds, and how near they come: to the loss, to a gradient (relative, per tensor), its norm. */
static const struct {
    const char *name;
    double loss, gradient, norm2;
} kernels[] = { { "portable", 2e-6, 1e-5, 1e-5 },
                { "fma", 2e-6, 1e-5, 1e-5 },
                { "cuda-fp32", 2e-6, 1e-5, 1e-5 },
                { "cuda-bf16", 1e-2, 2e-2, 2e-2 } };
enum { N_KERNEL = sizeof(kernels) / sizeof(kernels[0]) };

/* One kind of each backend and precision. */
static const char *const kinds[] = { "auto", "cuda-fp32", "cuda-bf16" };
enum { N_KIND = sizeof(kinds) / sizeof(kinds[0]) };

START_TEST(gradients_equal_those_of_the_double_precision_decoder)
{
    const int k = _i % N_KERNEL;
    const struct way way = { kernels[k].name, 1, 2, 1, false, false, 0 };
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct model m;
    struct pipeline p[2];
    struct f64_model o;

    if (!is_possible(_i / N_KERNEL, &way))
        return;
    model_init(&m, _i / N_KERNEL);
    o = oracle_of(&m);
    pipeline_open(p, &m, &way);
    run_microbatches(p, &m, &way, fault);
    for (int j = 0; j < G; j++)
        ck_assert_double_eq_tol(m.loss[j], f64_microbatch(&o, m.token + (size_t)j * token_elem(&m)),
                                kernels[k].loss);
    for (int b = 0; b < m.n_bundle; b++) {
        double norm2 = 0;

        for (int t = 0; t < m.bundle[b].arena.n_tensor; t++) {
            const double e = tensor_error(&m, b, t, spot_stage_sum(p->stage[0], b), o.grad[b]);

            ck_assert_msg(e < kernels[k].gradient, "bundle %d %s: relative error %g", b,
                          m.bundle[b].arena.tensor[t].name, e);
        }
        for (size_t e = 0; e < m.bundle[b].arena.n_elem; e++)
            norm2 += o.grad[b][e] * o.grad[b][e] / G / G;
        ck_assert_double_eq_tol(spot_stage_norm2(p->stage[0], b) / norm2, 1, kernels[k].norm2);
    }
    pipeline_close(p);
    oracle_release(&o, &m);
    model_release(&m);
}
END_TEST

START_TEST(gradients_equal_finite_differences_of_the_loss)
{
    const struct way way = { _i % 2 ? "cuda-fp32" : "portable", 1, 1, 1, false, false, 0 };
    const int shape = _i < 2 ? 0 : FIRST_LLAMA;
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct spot_rng rng;
    struct model m;
    struct pipeline p[2];
    struct f64_model o;

    if (!is_possible(shape, &way))
        return;
    model_init(&m, shape);
    o = oracle_of(&m);
    pipeline_open(p, &m, &way);
    run_microbatches(p, &m, &way, fault);
    spot_rng_init(&rng, 1, 0);
    for (int b = 0; b < m.n_bundle; b++)
        for (int t = 0; t < m.bundle[b].arena.n_tensor; t++) {
            const struct spot_tensor *const tensor = &m.bundle[b].arena.tensor[t];
            const int shard = tensor->is_sharded ? 1 : 0;
            const size_t e = spot_arena_offset(&m.bundle[b].arena, t, shard) +
                             (size_t)spot_rng_below(&rng, (uint64_t)(tensor->rows * tensor->cols));
            const double got =
                (double)spot_stage_sum(p->stage[0], b)[e] * ldexp(1, -m.bundle[b].exponent[t]);
            /* each bundle has its array. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
            const double w = o.weight[b][e], h = 1e-5;
            double want = 0;

            for (int j = 0; j < G; j++) {
                const uint32_t *const token = m.token + (size_t)j * token_elem(&m);

                o.weight[b][e] = w + h;
                want += f64_microbatch(&o, token) / (2 * h);
                o.weight[b][e] = w - h;
                want -= f64_microbatch(&o, token) / (2 * h);
            }
            o.weight[b][e] = w;
            ck_assert_msg(fabs(got - want) < 1e-5 * fabs(want) + 1e-6, "%s: %g, expected %g",
                          tensor->name, got, want);
        }
    pipeline_close(p);
    oracle_release(&o, &m);
    model_release(&m);
}
END_TEST

/* --- same bits ---------------------------------------------------------------- */

static void assert_same_state(const struct model *a, const struct model *b)
{
    for (int k = 0; k < a->n_bundle; k++) {
        const size_t byte = a->bundle[k].arena.n_elem * sizeof(float);

        ck_assert_int_eq(a->bundle[k].step, b->bundle[k].step);
        ck_assert_mem_eq(a->bundle[k].exponent, b->bundle[k].exponent,
                         sizeof(a->bundle[k].exponent));
        for (int p = 0; p < SPOT_PLANES; p++)
            ck_assert_mem_eq(a->bundle[k].plane[p], b->bundle[k].plane[p], byte);
    }
    ck_assert_mem_eq(a->loss, b->loss, sizeof(a->loss));
}

static const struct way ways[] = {
    { "portable", 1, 2, 1, false, false, 0 }, { "portable", 1, 3, 3, true, false, 0 },
    { "portable", 2, 1, 2, false, false, 0 }, { "portable", 3, 2, 3, true, true, 0 },
    { "fma", 1, 2, 1, false, false, 0 },      { "fma", 1, 3, 3, true, false, 0 },
    { "fma", 2, 1, 2, false, true, 0 },       { "fma", 3, 2, 3, true, true, 0 },
    { "portable", 1, 1, 1, false, false, 1 }, { "portable", 3, 2, 2, true, false, 2 },
    { "fma", 2, 3, 3, true, true, 1 },        { "fma", 1, 2, 2, true, false, 2 },
    { "auto", 1, 7, 2, false, false, 0 },     { "auto", 2, 12, 1, true, false, 0 },
    { "cuda-fp32", 3, 1, 3, true, true, 0 },  { "cuda-bf16", 2, 1, 2, true, true, 0 },
};
enum { N_WAY = sizeof(ways) / sizeof(ways[0]) };

START_TEST(state_is_the_same_bits_for_every_way_to_compute_it)
{
    const struct way *const way = &ways[_i % N_WAY];
    const struct way plain = { way->kernel, 1, 1, 1, false, false, 0 };
    struct model a, b;

    if (!is_possible(_i / N_WAY, way) || !is_quick(_i / N_WAY, way))
        return;
    model_init(&a, _i / N_WAY);
    model_init(&b, _i / N_WAY);
    for (int step = 0; step < 3; step++) {
        ck_assert_int_eq(run_step(&a, &plain, true), 0);
        ck_assert_int_eq(run_step(&b, way, true), 0);
        assert_same_state(&a, &b);
    }
    ck_assert_int_eq(a.bundle[1].step, 3);
    model_release(&a);
    model_release(&b);
}
END_TEST

START_TEST(overflow_backs_off_to_the_same_state_for_every_split)
{
    const struct way *const way = &ways[_i];
    const struct way plain = { way->kernel, 1, 1, 1, false, false, 0 };
    struct model a, b;
    int n_redo;

    if (!is_possible(0, way))
        return;
    model_init(&a, 0);
    model_init(&b, 0);
    for (int k = 0; k < a.n_bundle; k++)
        a.bundle[k].exponent[k] = b.bundle[k].exponent[k] = 75;
    n_redo = run_step(&a, &plain, true);
    ck_assert_int_ge(n_redo, 1);
    ck_assert_int_eq(run_step(&b, way, true), n_redo);
    assert_same_state(&a, &b);
    model_release(&a);
    model_release(&b);
}
END_TEST

START_TEST(a_value_that_is_no_number_is_flagged_where_it_arises)
{
    const float bad[] = { NAN, INFINITY, -INFINITY };
    const struct way way = { kinds[_i / 3], 2, 2, 1, false, false, 0 };
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct model m;
    struct pipeline p[2];

    if (!is_possible(0, &way))
        return;
    model_init(&m, 0);
    m.bundle[m.n_bundle - 1].plane[SPOT_PLANE_MASTER][0] = bad[_i % 3]; /* lnf.w */
    pipeline_open(p, &m, &way);
    run_microbatches(p, &m, &way, fault);
    ck_assert(!isfinite(m.loss[0]));
    for (int b = 0; b < m.n_bundle; b++)
        ck_assert_uint_ne(fault[b].nonfinite, 0);
    pipeline_close(p);
    model_release(&m);
}
END_TEST

START_TEST(faults_are_forgotten_when_a_step_begins)
{
    const struct way way = { kinds[_i], 1, 1, 1, false, false, 0 };
    struct model m;
    struct pipeline p[2];
    struct spot_stage_fault fault[BUNDLES_MAX];

    if (!is_possible(0, &way))
        return;
    model_init(&m, 0);
    m.bundle[1].exponent[0] = 120;
    pipeline_open(p, &m, &way);
    run_microbatches(p, &m, &way, fault);
    ck_assert_uint_eq(fault[1].overflow, 1);
    ck_assert_uint_eq(fault[0].overflow | fault[2].overflow, 0);
    spot_stage_begin(p->stage[0]);
    ck_assert_uint_eq(spot_stage_fault(p->stage[0], 1).overflow, 0);
    for (size_t e = 0; e < m.bundle[1].arena.n_elem; e++)
        ck_assert_int_eq(spot_stage_sum(p->stage[0], 1)[e], 0);
    pipeline_close(p);
    model_release(&m);
}
END_TEST

/* --- update ------------------------------------------------------------------- */

/* Double-precision AdamW over the same fixed-point gradients. */
static void oracle_update(const struct spot_bundle *before, const int64_t *sum, int t, size_t e,
                          double scale, double want[SPOT_PLANES])
{
    const double n = (double)before->step + 1;
    const double g = ldexp((double)sum[e], -before->exponent[t]) / G * scale;
    const double m = adamw.beta1 * before->plane[SPOT_PLANE_M][e] + (1 - adamw.beta1) * g;
    const double v = adamw.beta2 * before->plane[SPOT_PLANE_V][e] + (1 - adamw.beta2) * g * g;
    const double w = before->plane[SPOT_PLANE_MASTER][e];
    const double decay = before->arena.tensor[t].is_decayed ? adamw.weight_decay : 0;

    want[SPOT_PLANE_M] = m;
    want[SPOT_PLANE_V] = v;
    want[SPOT_PLANE_MASTER] =
        w - adamw.lr *
                (m / (1 - pow(adamw.beta1, n)) / (sqrt(v / (1 - pow(adamw.beta2, n))) + adamw.eps) +
                 decay * w);
}

static void check_update(const struct spot_bundle *before, const struct spot_bundle *after,
                         const int64_t *sum, double scale)
{
    for (int t = 0; t < before->arena.n_tensor; t++)
        for (int s = 0; s < (before->arena.tensor[t].is_sharded ? before->arena.n_shard : 1); s++)
            for (int64_t k = 0; k < before->arena.tensor[t].rows * before->arena.tensor[t].cols;
                 k++) {
                const size_t e = spot_arena_offset(&before->arena, t, s) + (size_t)k;
                double want[SPOT_PLANES];

                oracle_update(before, sum, t, e, scale, want);
                ck_assert_double_eq_tol(after->plane[SPOT_PLANE_M][e], want[SPOT_PLANE_M],
                                        1e-6 * fabs((double)before->plane[SPOT_PLANE_M][e]) +
                                            1e-6 * fabs(want[SPOT_PLANE_M]) + 1e-12);
                ck_assert_double_eq_tol(after->plane[SPOT_PLANE_V][e], want[SPOT_PLANE_V],
                                        1e-6 * want[SPOT_PLANE_V] + 1e-18);
                ck_assert_double_eq_tol(after->plane[SPOT_PLANE_MASTER][e], want[SPOT_PLANE_MASTER],
                                        1e-6);
            }
}

START_TEST(update_is_adamw_with_bias_correction_and_selective_decay)
{
    const struct way way = { kinds[_i], 1, 2, 1, false, false, 0 };
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct model a, b;
    struct pipeline p[2];

    if (!is_possible(0, &way))
        return;
    model_init(&a, 0);
    model_init(&b, 0);
    pipeline_open(p, &a, &way);
    for (int step = 0; step < 3; step++) {
        spot_stage_begin(p->stage[0]);
        run_microbatches(p, &a, &way, fault);
        for (int k = 0; k < a.n_bundle; k++) {
            for (int plane = 0; plane < SPOT_PLANES; plane++)
                memcpy(b.bundle[k].plane[plane], a.bundle[k].plane[plane],
                       a.bundle[k].arena.n_elem * sizeof(float));
            memcpy(b.bundle[k].exponent, a.bundle[k].exponent, sizeof(b.bundle[k].exponent));
            b.bundle[k].step = a.bundle[k].step;
            spot_stage_update(p->stage[0], k, &adamw, 0.5);
            ck_assert_int_eq(spot_stage_sync(p->stage[0], NULL), 0);
            check_update(&b.bundle[k], &a.bundle[k], spot_stage_sum(p->stage[0], k), 0.5);
            ck_assert_int_eq(a.bundle[k].step, step + 1);
        }
    }
    pipeline_close(p);
    model_release(&a);
    model_release(&b);
}
END_TEST

START_TEST(exponents_follow_the_largest_sum_and_zero_sums_keep_them)
{
    const struct way way = { kinds[_i], 1, 1, 1, false, false, 0 };
    struct model m;
    struct pipeline p[2];
    int64_t *sum;

    if (!is_possible(0, &way))
        return;
    model_init(&m, 0);
    pipeline_open(p, &m, &way);
    sum = spot_stage_sum(p->stage[0], 1);
    sum[3] = -(INT64_C(1) << 30);
    sum[4] = INT64_C(5);
    spot_stage_update(p->stage[0], 1, &adamw, 1);
    /* 2^30 is below 2^31; G = 3 leaves 51 bits, 10 of them headroom: 40 + 51 - 10 - 31 */
    ck_assert_int_eq(m.bundle[1].exponent[0], 50);
    for (int t = 1; t < m.bundle[1].arena.n_tensor; t++)
        ck_assert_int_eq(m.bundle[1].exponent[t], 40);
    pipeline_close(p);
    model_release(&m);
}
END_TEST

START_TEST(padding_stays_zero)
{
    const struct way way = { kinds[_i % N_KIND], 1, 2, 1, false, false, 0 };
    struct model m;

    if (!is_possible(_i / N_KIND, &way) || !is_quick(_i / N_KIND, &way))
        return;
    model_init(&m, _i / N_KIND);
    for (int step = 0; step < 2; step++)
        run_step(&m, &way, true);
    for (int b = 0; b < m.n_bundle; b++) {
        const struct spot_arena *const a = &m.bundle[b].arena;
        bool *const is_used = calloc(a->n_elem, sizeof(*is_used));

        for (int t = 0; t < a->n_tensor; t++)
            for (int s = 0; s < (a->tensor[t].is_sharded ? a->n_shard : 1); s++)
                for (int64_t k = 0; k < a->tensor[t].rows * a->tensor[t].cols; k++)
                    is_used[spot_arena_offset(a, t, s) + (size_t)k] = true;
        for (size_t e = 0; e < a->n_elem; e++)
            for (int p = 0; p < SPOT_PLANES && !is_used[e]; p++)
                ck_assert(m.bundle[b].plane[p][e] == 0);
        free(is_used);
    }
    model_release(&m);
}
END_TEST

/* --- memory -------------------------------------------------------------------- */

START_TEST(memory_is_told_before_it_is_taken)
{
    struct spot_err err = { 0 };
    struct spot_stage_config config = { .shape = shapes[0],
                                        .bundle_begin = 1,
                                        .bundle_end = 3,
                                        .micro_batch = 2,
                                        .n_slot = 1,
                                        .n_microbatch = G,
                                        .n_thread = 1,
                                        .kernel = spot_kernel_find("auto", &err) };
    const size_t one = spot_stage_memory(&config);
    size_t two, three;

    config.n_slot = 2;
    two = spot_stage_memory(&config);
    config.n_slot = 3;
    three = spot_stage_memory(&config);
    ck_assert_uint_gt(two, one);
    /* a slot more costs the same each time, but for rounding of the list of slots */
    ck_assert_uint_le(
        three - two > two - one ? (three - two) - (two - one) : (two - one) - (three - two), 64);
    /* of 2 layers in 3 slots one is left, and it is of no slot: [26 * 4C], but for rounding */
    config.recompute = SPOT_RECOMPUTE_MLP;
    two = three - spot_stage_memory(&config);
    ck_assert_uint_le(two - 5 * 26 * 96 * sizeof(float) + 6 * 64, 12 * 64);
    config.recompute = SPOT_RECOMPUTE_LAYER; /* and [26 * (3C + C + 2H + 2 + 2)] */
    three -= two + spot_stage_memory(&config);
    ck_assert_uint_le(three - 5 * 26 * 108 * sizeof(float) + 36 * 64, 72 * 64);
    config.recompute = SPOT_RECOMPUTE_NONE;
    ck_assert_int_eq(spot_stage_check(&config, 1 << 30, &err), 0);
    ck_assert_int_eq(spot_stage_check(&config, 1 << 20, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, "a stage of bundles 1 to 2 needs "));
    ck_assert_ptr_nonnull(strstr(err.msg, " GB of memory, 0.00105 GB are available"));
}
END_TEST

START_TEST(absurd_shapes_are_refused_with_numbers_instead_of_a_kill)
{
    /* 2^40 parameters, 2^31 slots: neither walks for hours nor overflows */
    static const struct {
        struct spot_shape shape;
        int micro_batch, n_slot;
    } cases[] = {
        { { .n_layer = 4, .width = 24, .n_head = 4, .seq = 13, .vocab = 20, .n_shard = 2 },
          2,
          INT32_MAX },
        { { .n_layer = 4, .width = 24, .n_head = 4, .seq = 1 << 20, .vocab = 20, .n_shard = 2 },
          INT32_MAX,
          INT32_MAX },
        { { .n_layer = 16,
            .width = 65536,
            .n_head = 1024,
            .seq = 1 << 20,
            .vocab = 1 << 20,
            .n_shard = 1 },
          1,
          1 },
        { { .n_layer = 4096,
            .width = 4096,
            .n_head = 1024,
            .seq = 1024,
            .vocab = 256,
            .n_shard = 16 },
          INT32_MAX,
          INT32_MAX }
    };
    struct spot_err err = { 0 };
    struct spot_stage_config config = { .shape = cases[_i].shape,
                                        .bundle_end = spot_shape_bundles(&cases[_i].shape),
                                        .micro_batch = cases[_i].micro_batch,
                                        .n_slot = cases[_i].n_slot,
                                        .n_microbatch = 1,
                                        .n_thread = 1,
                                        .kernel = spot_kernel_find("auto", &err) };

    ck_assert_int_eq(spot_shape_check(&config.shape, &err), 0);
    ck_assert_int_eq(spot_stage_check(&config, 0, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, " needs "));
    ck_assert_ptr_null(spot_stage_new(&config, NULL, &err));
}
END_TEST

START_TEST(kinds_of_kernel_agree_within_rounding)
{
    const struct way portable = { "portable", 1, 1, 1, false, false, 0 };
    const struct way fma = { "fma", 1, 1, 1, false, false, 0 };
    struct spot_err err;
    struct model a, b;

    if (!spot_kernel_find("fma", &err))
        return;
    model_init(&a, _i);
    model_init(&b, _i);
    run_step(&a, &portable, false);
    run_step(&b, &fma, false);
    for (int j = 0; j < G; j++)
        ck_assert_double_eq_tol(a.loss[j], b.loss[j], 1e-5);
    model_release(&a);
    model_release(&b);
}
END_TEST

/* The sources of the CUDA module, compiled for the CPU, lie beside this program; a module
 * that the user names goes first. Its fibers are
 * more than ThreadSanitizer follows. */
static void find_twin(const char *program)
{
    struct spot_err err;
    char path[4096];
    const char *const end = strrchr(program, '/');

    snprintf(path, sizeof(path), "%.*s/spot_cuda_twin.so", end ? (int)(end - program) : 1,
             end ? program : ".");
#ifndef __SANITIZE_THREAD__
    setenv("SPOT_CUDA_MODULE", path, 0);
    if (!spot_kernel_find("cuda", &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
#endif
}

int main(int argc, char **argv)
{
    Suite *suite = suite_create("stage");
    TCase *tc = tcase_create("core");
    SRunner *runner;
    int failed;

    find_twin(argc > 0 ? argv[0] : "./");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, gradients_equal_those_of_the_double_precision_decoder, 0,
                        N_KERNEL * N_SHAPE);
    tcase_add_loop_test(tc, gradients_equal_finite_differences_of_the_loss, 0, 4);
    tcase_add_loop_test(tc, state_is_the_same_bits_for_every_way_to_compute_it, 0, N_SHAPE * N_WAY);
    tcase_add_loop_test(tc, overflow_backs_off_to_the_same_state_for_every_split, 0, N_WAY);
    tcase_add_loop_test(tc, a_value_that_is_no_number_is_flagged_where_it_arises, 0, 3 * N_KIND);
    tcase_add_loop_test(tc, faults_are_forgotten_when_a_step_begins, 0, N_KIND);
    tcase_add_loop_test(tc, update_is_adamw_with_bias_correction_and_selective_decay, 0, N_KIND);
    tcase_add_loop_test(tc, exponents_follow_the_largest_sum_and_zero_sums_keep_them, 0, N_KIND);
    tcase_add_loop_test(tc, padding_stays_zero, 0, N_SHAPE * N_KIND);
    tcase_add_test(tc, memory_is_told_before_it_is_taken);
    tcase_add_loop_test(tc, absurd_shapes_are_refused_with_numbers_instead_of_a_kill, 0, 4);
    tcase_add_loop_test(tc, kinds_of_kernel_agree_within_rounding, 0, N_SHAPE);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
