/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>

#include "stage_rig.h"
#include "suite.h"

/* Goal: an update is AdamW to the letter, leaves padding zero and sets the next step's exponents;
 * and a stage tells how much memory it takes before it does. */

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
    const int shape = _i < N_KIND ? 0 : FIRST_ANY - 1;
    const struct way way = { kinds[_i % N_KIND], 1, 2, 1, false, false, 0 };
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct model a, b;
    struct pipeline p[2];

    if (!is_possible(shape, &way))
        return;
    model_init(&a, shape);
    model_init(&b, shape);
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
            ck_assert_int_eq(spot_stage_sync(p->stage[0], SPOT_ALL_BUNDLES, NULL), 0);
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

START_TEST(on_a_device_what_is_computed_again_is_planned_once)
{
    /* of a layer, per row: GPT-2's 4C; 3C + C of T and H floats. Llama's 2F; Q + C */
    static const struct {
        int shape;
        size_t mlp, layer, n_head;
    } cases[] = { { 0, 96, 96, 4 }, { FIRST_LLAMA, 68, 64, 6 } };
    const char *const kind = _i / 2 ? "cuda-fp32" : "cuda-bf16";
    const size_t byte = _i / 2 ? 4 : 2, n_row = 26;
    const struct way way = { kind, 1, 1, 1, false, false, 0 };
    struct spot_stage_config config = { .shape = shapes[cases[_i % 2].shape],
                                        .bundle_begin = 1,
                                        .bundle_end = 3,
                                        .micro_batch = 2,
                                        .n_slot = 3,
                                        .n_microbatch = G,
                                        .n_thread = 1 };
    size_t all, mlp, layer;

    if (!is_possible(cases[_i % 2].shape, &way))
        return;
    config.kernel = spot_kernel_find(kind, NULL);
    all = spot_stage_memory(&config);
    config.recompute = SPOT_RECOMPUTE_MLP;
    mlp = spot_stage_memory(&config);
    config.recompute = SPOT_RECOMPUTE_LAYER;
    layer = spot_stage_memory(&config);
    /* of 2 layers in 3 slots one is left; each piece is rounded up to 256 bytes, and has
     * a guard of as many on the twin */
    ck_assert_uint_le(all - mlp - 5 * n_row * cases[_i % 2].mlp * byte + 5 * 256, 15 * 256);
    ck_assert_uint_le(mlp - layer -
                          5 * n_row * (cases[_i % 2].layer * byte + cases[_i % 2].n_head * 4) +
                          15 * 256,
                      45 * 256);
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

/* --- what a stage on a device keeps ------------------------------------------------ */

/* A function of the twin; a device has none. */
static void *of_twin(const char *name)
{
    void *const so = dlopen(getenv("SPOT_CUDA_MODULE"), RTLD_NOW | RTLD_NOLOAD);

    return so ? dlsym(so, name) : NULL;
}

/* Bytes that the twin's copies moved so far; of a device nothing is known. */
static bool is_counted(void)
{
    return of_twin("twin_copied");
}

static size_t copied(int kind)
{
    size_t (*count)(int);

    *(void **)&count = of_twin("twin_copied");
    return count(kind);
}
enum { UP = 1, DOWN = 2 };

static size_t planes_byte(const struct model *m, int b)
{
    return m->bundle[b].arena.n_elem * sizeof(float) * SPOT_PLANES;
}

static void step_once(struct model *m, struct spot_stage *stage)
{
    double loss;

    spot_stage_begin(stage);
    for (int k = 0; k < G; k++) {
        spot_stage_forward(stage, 0, m->token + (size_t)k * token_elem(m), NULL, NULL, &loss);
        spot_stage_backward(stage, 0, NULL, NULL);
    }
    for (int b = 0; b < m->n_bundle; b++)
        spot_stage_update(stage, b, &adamw, 1);
}

/* Of a stage that goes on in a new epoch nothing moves; of one whose one bundle came anew, that
 * bundle; and what it computes then is what a stage made anew does. */
START_TEST(a_stage_that_goes_on_copies_what_is_new)
{
    const struct way way = { "cuda-fp32", 1, 1, 1, false, false, 0 };
    struct spot_bundle other, *ptr[BUNDLES_MAX];
    struct model m, n;
    size_t before;

    if (!is_possible(0, &way) || !is_counted())
        return;
    model_init(&m, 0);
    model_init(&n, 0);
    struct spot_stage *const stage = stage_of(&m, &way, 0, m.n_bundle);
    struct spot_stage *fresh;

    step_once(&m, stage);
    before = copied(UP);
    ck_assert_int_eq(spot_stage_renew(stage, m.ptr, NULL), 0);
    ck_assert_uint_eq(copied(UP), before);
    /* bundle 1 came anew, of the step that all are at */
    fresh = stage_of(&n, &way, 0, n.n_bundle);
    step_once(&n, fresh);
    ck_assert_int_eq(spot_stage_sync(fresh, SPOT_ALL_BUNDLES, NULL), 0);
    other = n.bundle[1];
    memcpy(ptr, m.ptr, sizeof(ptr));
    ptr[1] = &other;
    spot_stage_forget(stage, 1);
    before = copied(UP);
    ck_assert_int_eq(spot_stage_renew(stage, ptr, NULL), 0);
    ck_assert_uint_eq(copied(UP), before); /* the device has that step */
    other.step = 0;
    spot_bundle_start(&other, &m.shape, 5);
    spot_stage_forget(stage, 1);
    before = copied(UP);
    ck_assert_int_eq(spot_stage_renew(stage, ptr, NULL), 0);
    ck_assert_uint_eq(copied(UP) - before, planes_byte(&m, 1));
    before = copied(DOWN);
    ck_assert_int_eq(spot_stage_sync(stage, SPOT_ALL_BUNDLES, NULL), 0);
    ck_assert_uint_eq(copied(DOWN) - before,
                      planes_byte(&m, 0) + planes_byte(&m, 2) + planes_byte(&m, 3));
    spot_stage_free(stage);
    spot_stage_free(fresh);
    model_release(&m);
    model_release(&n);
}
END_TEST

START_TEST(planes_are_page_locked_while_a_stage_is_over_them)
{
    const struct way way = { "cuda-fp32", 1, 1, 1, false, false, 0 };
    int (*is_locked)(const void *host);
    struct model m;

    *(void **)&is_locked = of_twin("twin_is_locked");
    if (!is_locked || !is_possible(0, &way))
        return;
    model_init(&m, 0);
    for (int round = 0; round < 2; round++) {
        struct spot_stage *const stage = stage_of(&m, &way, 0, m.n_bundle);
        const int64_t *const sum = spot_stage_sum(stage, 1);

        for (int at_end = 0; at_end < 2; at_end++) {
            if (at_end)
                spot_stage_free(stage);
            ck_assert_int_eq(is_locked(sum), !at_end);
            for (int b = 0; b < m.n_bundle; b++)
                for (int p = 0; p < SPOT_PLANES; p++) {
                    const float *const plane = m.bundle[b].plane[p];

                    ck_assert_int_eq(is_locked(plane), !at_end);
                    ck_assert_int_eq(is_locked(plane + m.bundle[b].arena.n_elem - 1), !at_end);
                }
        }
    }
    model_release(&m);
}
END_TEST

START_TEST(sums_of_the_host_go_to_the_device_once_a_step)
{
    const struct way way = { "cuda-fp32", 1, 1, 1, false, false, 0 };
    struct model m;
    size_t before, sums = 0;

    if (!is_possible(0, &way) || !is_counted())
        return;
    model_init(&m, 0);
    struct spot_stage *const stage = stage_of(&m, &way, 0, m.n_bundle);

    step_once(&m, stage);
    for (int b = 0; b < m.n_bundle; b++) {
        sums += m.bundle[b].arena.n_elem * sizeof(int64_t);
        spot_stage_sum(stage, b);
    }
    before = copied(UP);
    for (int b = 0; b < m.n_bundle; b++)
        spot_stage_norm2(stage, b);
    for (int b = 0; b < m.n_bundle; b++)
        spot_stage_update(stage, b, &adamw, 1);
    ck_assert_uint_eq(copied(UP) - before, sums);
    spot_stage_free(stage);
    model_release(&m);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    find_twin(argc > 0 ? argv[0] : "./");
    tcase_add_loop_test(tc, update_is_adamw_with_bias_correction_and_selective_decay, 0,
                        2 * N_KIND);
    tcase_add_loop_test(tc, exponents_follow_the_largest_sum_and_zero_sums_keep_them, 0, N_KIND);
    tcase_add_loop_test(tc, padding_stays_zero, 0, N_SHAPE * N_KIND);
    tcase_add_test(tc, memory_is_told_before_it_is_taken);
    tcase_add_loop_test(tc, on_a_device_what_is_computed_again_is_planned_once, 0, 4);
    tcase_add_loop_test(tc, absurd_shapes_are_refused_with_numbers_instead_of_a_kill, 0, 4);
    tcase_add_test(tc, a_stage_that_goes_on_copies_what_is_new);
    tcase_add_test(tc, planes_are_page_locked_while_a_stage_is_over_them);
    tcase_add_test(tc, sums_of_the_host_go_to_the_device_once_a_step);
    return run_suite("stage_update", tc);
}
