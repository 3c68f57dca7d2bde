/* SPDX-License-Identifier: MIT */
/* lane: compute, first */
#include <check.h>
#include <math.h>

#include "common/xalloc.h"
#include "decoder_any_f64.h"
#include "stage_rig.h"
#include "suite.h"

/* Goal: the gradients are right (double precision oracle, finite differences), and the state after
 * some steps is the same bits for every thread count, slot, stage split, order and history. */

/* --- right numbers ---------------------------------------------------------- */

static struct f64_model oracle_of(const struct model *m)
{
    struct f64_model o = { .shape = m->shape,
                           .micro_batch = m->micro_batch,
                           .is_weighted = m->is_weighted };

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
} kernels[] = { { "portable", 2e-6, 1e-5, 1e-5 },    { "fma", 2e-6, 1e-5, 1e-5 },
                { "fma-bf16", 1e-2, 2e-2, 2e-2 },    { "cuda-fp32", 2e-6, 1e-5, 1e-5 },
                { "cuda-bf16", 1e-2, 2e-2, 2e-2 },   { "cuda-fp32-tp", 2e-6, 1e-5, 1e-5 },
                { "cuda-bf16-tp", 1e-2, 2e-2, 2e-2 } };
enum { N_KERNEL = sizeof(kernels) / sizeof(kernels[0]), FIRST_CUDA = 3 };

/* The oracle needs a moment for a shape: all kernels are held against the same numbers. On the twin
 * a shape meets one kind, and each kind shapes of either architecture. */
static bool is_drawn(int shape, int k)
{
    return k < FIRST_CUDA || is_long() || k == FIRST_CUDA + shape % 4;
}

/* Wide shapes are for what a kernel does with a matrix: one microbatch shows it. */
static int microbatches_of(int shape)
{
    return is_long() || shapes[shape].width < 100 ? G : 1;
}

static void check_gradients(struct model *m, const struct f64_model *o, const double *loss, int n,
                            int k)
{
    const struct way way = { kernels[k].name, 1, 2, 1, false, false, 0 };
    struct pipeline p;

    pipeline_open(&p, m, &way);
    for (int j = 0; j < n; j++)
        pipeline_run(&p, m, j, 0);
    for (int j = 0; j < n; j++)
        ck_assert_msg(fabs(m->loss[j] - loss[j]) < kernels[k].loss, "%s: loss %g, expected %g",
                      way.kernel, m->loss[j], loss[j]);
    for (int b = 0; b < m->n_bundle; b++) {
        double norm2 = 0;

        for (int t = 0; t < m->bundle[b].arena.n_tensor; t++) {
            const double e = tensor_error(m, b, t, spot_stage_sum(p.stage[0], b), o->grad[b]);

            ck_assert_msg(e < kernels[k].gradient, "%s, bundle %d %s: relative error %g",
                          way.kernel, b, m->bundle[b].arena.tensor[t].name, e);
        }
        for (size_t e = 0; e < m->bundle[b].arena.n_elem; e++)
            norm2 += o->grad[b][e] * o->grad[b][e] / G / G;
        ck_assert_double_eq_tol(spot_stage_norm2(p.stage[0], b) / norm2, 1, kernels[k].norm2);
    }
    pipeline_close(&p);
}

START_TEST(gradients_equal_those_of_the_double_precision_decoder)
{
    struct model m;
    struct f64_model o;
    const int n = microbatches_of(_i);
    double loss[G];
    int n_kernel = 0;

    model_init(&m, _i);
    o = oracle_of(&m);
    for (int j = 0; j < n; j++)
        loss[j] = f64_microbatch(&o, m.token + (size_t)j * token_elem(&m));
    for (int k = 0; k < N_KERNEL; k++) {
        const struct way way = { kernels[k].name, 1, 2, 1, false, false, 0 };

        if (!is_drawn(_i, k) || !is_possible(_i, &way))
            continue;
        check_gradients(&m, &o, loss, n, k);
        n_kernel++;
    }
    ck_assert_int_ge(n_kernel, 1);
    oracle_release(&o, &m);
    model_release(&m);
}
END_TEST

/* Along a random direction in a tensor; every number of it counts. */
static void check_direction(struct model *m, struct f64_model *o, int b, int t, const int64_t *sum)
{
    const struct spot_arena *const a = &m->bundle[b].arena;
    const struct spot_tensor *const tensor = &a->tensor[t];
    const double unit = ldexp(1, -m->bundle[b].exponent[t]), h = 1e-5;
    double *const way = f64_new((int64_t)a->n_elem), got = 0, size = 0, want = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, 3, (uint64_t)(b * 100 + t));
    for (int s = 0; s < (tensor->is_sharded ? a->n_shard : 1); s++)
        for (int64_t k = 0; k < tensor->rows * tensor->cols; k++) {
            const size_t e = spot_arena_offset(a, t, s) + (size_t)k;

            way[e] = spot_rng_below(&rng, 2) ? 1 : -1;
            got += way[e] * (double)sum[e] * unit;
            size += pow((double)sum[e] * unit, 2);
        }
    for (int side = 1; side >= -1; side -= 2) {
        for (size_t e = 0; e < a->n_elem; e++)
            o->weight[b][e] += (side > 0 ? 1 : -2) * h * way[e];
        for (int j = 0; j < G; j++)
            want += side * f64_any_loss(o, m->token + (size_t)j * token_elem(m)) / (2 * h);
    }
    for (size_t e = 0; e < a->n_elem; e++)
        o->weight[b][e] += h * way[e];
    free(way);
    ck_assert_msg(size > 0, "bundle %d %s: no gradient", b, tensor->name);
    ck_assert_msg(fabs(got - want) < 2e-5 * sqrt(size) + 1e-8,
                  "bundle %d %s: %g, expected %g, of %g", b, tensor->name, got, want, sqrt(size));
}

/* Losses and gradients of a model, which it releases, beside the decoder in double precision. */
static void check_differences(struct model *m, double tolerance)
{
    const struct way way = { "portable", 1, 2, 1, false, false, 0 };
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct pipeline p[2];
    struct f64_model o;

    o = oracle_of(m);
    pipeline_open(p, m, &way);
    run_microbatches(p, m, &way, fault);
    for (int j = 0; j < G; j++)
        ck_assert_double_eq_tol(m->loss[j], f64_any_loss(&o, m->token + (size_t)j * token_elem(m)),
                                tolerance);
    for (int b = 0; b < m->n_bundle; b++)
        for (int t = 0; t < m->bundle[b].arena.n_tensor; t++)
            check_direction(m, &o, b, t, spot_stage_sum(p->stage[0], b));
    pipeline_close(p);
    oracle_release(&o, m);
    model_release(m);
}

START_TEST(gradients_of_each_feature_equal_differences_of_the_loss)
{
    struct model m;

    model_init(&m, _i);
    check_differences(&m, 2e-6);
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

/* GPT-2, Llama, and one whose logits are scaled and capped. */
static const int weighed[] = { 0, FIRST_LLAMA, FIRST_ANY + 2 };
enum { N_WEIGHED = sizeof(weighed) / sizeof(weighed[0]) };

START_TEST(gradients_of_weighted_losses_equal_differences_of_their_sum)
{
    struct model m;

    model_init(&m, weighed[_i]);
    model_weigh(&m, false);
    check_differences(&m, 4e-6);
}
END_TEST

/* By another way: backward in double precision, all kinds of the CPU. */
START_TEST(gradients_of_weighted_losses_equal_those_of_the_double_precision_decoder)
{
    struct model m;
    struct f64_model o;
    double loss[G];

    model_init(&m, _i ? FIRST_LLAMA : 0);
    model_weigh(&m, false);
    o = oracle_of(&m);
    for (int j = 0; j < G; j++)
        loss[j] = f64_microbatch(&o, m.token + (size_t)j * token_elem(&m));
    for (int k = 0; k < FIRST_CUDA; k++)
        if (spot_kernel_find(kernels[k].name, NULL))
            check_gradients(&m, &o, loss, G, k);
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

START_TEST(weights_of_1_change_no_bit)
{
    for (int k = 0; k < FIRST_CUDA; k++)
        for (int n_stage = 1; n_stage <= 2; n_stage++) {
            const struct way way = { kernels[k].name, n_stage, 2, 1, false, false, 0 };
            struct model plain, one;

            if (!is_possible(weighed[_i], &way))
                continue;
            model_init(&plain, weighed[_i]);
            model_init(&one, weighed[_i]);
            model_weigh(&one, true);
            for (int step = 0; step < 2; step++) {
                run_step(&plain, &way, true);
                run_step(&one, &way, true);
            }
            assert_same_state(&plain, &one);
            model_release(&plain);
            model_release(&one);
        }
}
END_TEST

static const struct way ways[] = {
    { "portable", 1, 2, 1, false, false, 0 },
    { "portable", 1, 3, 3, true, false, 0 },
    { "portable", 2, 1, 2, false, false, 0 },
    { "portable", 3, 2, 3, true, true, 0 },
    { "fma", 1, 2, 1, false, false, 0 },
    { "fma", 1, 3, 3, true, false, 0 },
    { "fma", 2, 1, 2, false, true, 0 },
    { "fma", 3, 2, 3, true, true, 0 },
    { "portable", 1, 1, 1, false, false, 1 },
    { "portable", 3, 2, 2, true, false, 2 },
    { "fma", 2, 3, 3, true, true, 1 },
    { "fma", 1, 2, 2, true, false, 2 },
    { "fma-bf16", 2, 3, 3, true, true, 1 },
    { "fma-bf16", 1, 2, 2, true, false, 2 },
    { "fma-bf16", 3, 1, 1, false, true, 0 },
    { "auto", 1, 7, 2, false, false, 0 },
    { "auto", 2, 12, 1, true, false, 0 },
    { "cuda-fp32", 3, 1, 3, true, true, 0 },
    { "cuda-bf16", 2, 1, 2, true, true, 0 },
    { "cuda-bf16-tp", 3, 1, 1, false, true, 0 },
    { "cuda-fp32", 1, 1, 2, true, false, 1 },
    { "cuda-bf16", 2, 1, 3, false, false, 2 },
    { "cuda-fp32-tp", 1, 1, 2, false, false, 2 },
    { "cuda-bf16-tp", 2, 1, 1, true, true, 1 },
};
enum { N_WAY = sizeof(ways) / sizeof(ways[0]), FIRST_TWIN = 17 };

/* Whether way w is played on a shape: each kernel's are dealt out over the shapes, a third each (of
 * the twin's, half, over two shapes). */
static bool is_dealt(int shape, int w)
{
    if (!is_possible(shape, &ways[w]) || !is_quick(shape, &ways[w]))
        return false;
    if (is_long())
        return true;
    if (w < FIRST_TWIN)
        return (w + shape) % 3 == 0;
    return shape == 0 ? w % 2 == 0 : shape == FIRST_LLAMA && w % 2;
}

/* Ways of one kernel on a shape, and the plain one. */
struct race {
    struct model plain, model[N_WAY];
    int way[N_WAY], n;
};

static const char *const raced[] = { "portable",  "fma",       "fma-bf16",     "auto",
                                     "cuda-fp32", "cuda-bf16", "cuda-fp32-tp", "cuda-bf16-tp" };
enum { N_RACED = sizeof(raced) / sizeof(raced[0]) };

/* What the last stage leaves of its sums must not show. */
static void leave_rubbish(struct model *m)
{
    for (int b = 0; b < m->n_bundle; b++) {
        const size_t n = spot_bundle_sum_memory(&m->bundle[b].arena);
        int64_t *const sum = spot_alloc_aligned(n, 1);

        memset(sum, 0x5a, n);
        spot_bundle_leave_sum(&m->bundle[b], sum);
    }
}

static bool race_open(struct race *r, int shape, const char *kernel, bool (*is_in)(int, int))
{
    r->n = 0;
    for (int w = 0; w < N_WAY; w++)
        if (!strcmp(ways[w].kernel, kernel) && is_in(shape, w)) {
            r->way[r->n] = w;
            model_init(&r->model[r->n], shape);
            leave_rubbish(&r->model[r->n++]);
        }
    if (r->n)
        model_init(&r->plain, shape);
    return r->n > 0;
}

/* One step of all; the plain way's redos. */
static int race_step(struct race *r)
{
    const struct way plain = { ways[r->way[0]].kernel, 1, 1, 1, false, false, 0 };
    const int n_redo = run_step(&r->plain, &plain, true);

    for (int i = 0; i < r->n; i++) {
        ck_assert_int_eq(run_step(&r->model[i], &ways[r->way[i]], true), n_redo);
        assert_same_state(&r->plain, &r->model[i]);
    }
    return n_redo;
}

static void race_close(struct race *r)
{
    for (int i = 0; i < r->n; i++)
        model_release(&r->model[i]);
    model_release(&r->plain);
}

START_TEST(state_is_the_same_bits_for_every_way_to_compute_it)
{
    const int n_step = is_long() ? 3 : 2;
    struct race r;

    if (!race_open(&r, _i / N_RACED, raced[_i % N_RACED], is_dealt))
        return;
    for (int step = 0; step < n_step; step++)
        ck_assert_int_eq(race_step(&r), 0);
    ck_assert_int_eq(r.plain.bundle[1].step, n_step);
    race_close(&r);
}
END_TEST

START_TEST(attention_of_five_products_has_the_bits_of_seven)
{
    const struct way way = { "cuda-bf16", 1, 1, 1, false, false, 0 };
    const int64_t dim = spot_shape_head_dim(&shapes[_i]);
    struct model seven, five;

    if ((dim != 64 && dim != 128) || !is_possible(_i, &way))
        return;
    model_init(&seven, _i);
    model_init(&five, _i);
    run_step(&seven, &way, false);
    setenv("SPOT_CUDA_ATTENTION", "five", 1);
    run_step(&five, &way, false);
    unsetenv("SPOT_CUDA_ATTENTION");
    assert_same_state(&seven, &five);
    model_release(&seven);
    model_release(&five);
}
END_TEST

/* Of the twin's, the first of each kernel. */
static bool is_split(int shape, int w)
{
    return is_possible(shape, &ways[w]) && (w <= FIRST_TWIN + 2 || w == 19 || is_long());
}

START_TEST(overflow_backs_off_to_the_same_state_for_every_split)
{
    struct race r;

    if (!race_open(&r, 0, raced[_i], is_split))
        return;
    for (int i = -1; i < r.n; i++) {
        struct model *const m = i < 0 ? &r.plain : &r.model[i];

        for (int k = 0; k < m->n_bundle; k++)
            m->bundle[k].exponent[k] = 75;
    }
    ck_assert_int_ge(race_step(&r), 1);
    race_close(&r);
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

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    find_twin(argc > 0 ? argv[0] : "./");
    tcase_add_loop_test(tc, gradients_equal_those_of_the_double_precision_decoder, 0, FIRST_ANY);
    tcase_add_loop_test(tc, gradients_of_each_feature_equal_differences_of_the_loss, FIRST_ANY,
                        N_SHAPE);
    tcase_add_loop_test(tc, gradients_equal_finite_differences_of_the_loss, 0, 4);
    tcase_add_loop_test(tc, gradients_of_weighted_losses_equal_differences_of_their_sum, 0,
                        N_WEIGHED);
    tcase_add_loop_test(
        tc, gradients_of_weighted_losses_equal_those_of_the_double_precision_decoder, 0, 2);
    tcase_add_loop_test(tc, weights_of_1_change_no_bit, 0, N_WEIGHED);
    tcase_add_loop_test(tc, state_is_the_same_bits_for_every_way_to_compute_it, 0,
                        N_SHAPE * N_RACED);
    tcase_add_loop_test(tc, attention_of_five_products_has_the_bits_of_seven, 0, N_SHAPE);
    tcase_add_loop_test(tc, overflow_backs_off_to_the_same_state_for_every_split, 0, N_RACED);
    tcase_add_loop_test(tc, a_value_that_is_no_number_is_flagged_where_it_arises, 0, 3 * N_KIND);
    tcase_add_loop_test(tc, faults_are_forgotten_when_a_step_begins, 0, N_KIND);
    tcase_add_loop_test(tc, kinds_of_kernel_agree_within_rounding, 0, N_SHAPE);
    return run_suite("stage", tc);
}
