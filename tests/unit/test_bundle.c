/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/initial_weights.h"
#include "shard/bundle.h"
#include "suite.h"

/* Goal: the initial state is a pure function of shape, seed and bundle, follows GPT-2's
 * distribution, and is the same on every machine (recorded bits). */

static const struct spot_shape shape = {
    .n_layer = 3, .width = 96, .n_head = 4, .seq = 40, .vocab = 64, .n_shard = 4
};

static void start(struct spot_bundle *b, int index, uint64_t seed)
{
    struct spot_err err;

    ck_assert_int_eq(spot_bundle_init(b, &shape, index, &err), 0);
    spot_bundle_start(b, &shape, seed);
}

START_TEST(start_is_a_pure_function_of_shape_seed_and_bundle)
{
    struct spot_bundle a, b, c, d;

    start(&a, 2, 1);
    start(&b, 2, 1);
    start(&c, 2, 2);
    start(&d, 3, 1);
    /* what was in the bundle before does not matter */
    b.step = 7;
    b.exponent[0] = 1;
    for (int p = 0; p < SPOT_PLANES; p++)
        for (size_t e = 0; e < b.arena.n_elem; e++)
            b.plane[p][e] = 3;
    spot_bundle_start(&b, &shape, 1);
    for (int p = 0; p < SPOT_PLANES; p++)
        ck_assert_mem_eq(a.plane[p], b.plane[p], a.arena.n_elem * sizeof(float));
    ck_assert_mem_eq(a.exponent, b.exponent, sizeof(a.exponent));
    ck_assert_int_eq(b.step, 0);
    ck_assert_mem_ne(a.plane[0], c.plane[0], a.arena.n_elem * sizeof(float));
    ck_assert_mem_ne(a.plane[0], d.plane[0], a.arena.n_elem * sizeof(float));
    spot_bundle_release(&a);
    spot_bundle_release(&b);
    spot_bundle_release(&c);
    spot_bundle_release(&d);
}
END_TEST

static void check_normal(const struct spot_bundle *b, const char *name, double std)
{
    const int t = spot_arena_find(&b->arena, name);
    const int64_t n = b->arena.tensor[t].rows * b->arena.tensor[t].cols;
    double sum = 0, square = 0, fourth = 0;

    for (int64_t i = 0; i < n; i++) {
        const double x =
            b->plane[SPOT_PLANE_MASTER][spot_arena_offset(&b->arena, t, 0) + (size_t)i] / std;

        sum += x / (double)n;
        square += x * x / (double)n;
        fourth += x * x * x * x / (double)n;
    }
    /* five standard errors of mean, variance and fourth moment of n normal values */
    ck_assert_double_lt(fabs(sum), 5 / sqrt((double)n));
    ck_assert_double_lt(fabs(square - 1), 5 * sqrt(2.0 / (double)n));
    ck_assert_double_lt(fabs(fourth - 3), 5 * sqrt(96.0 / (double)n));
}

START_TEST(rows_beyond_the_vocabulary_are_zero)
{
    const struct spot_shape odd = {
        .n_layer = 1, .width = 8, .n_head = 4, .seq = 2, .vocab = 1025, .n_shard = 4
    }; /* 1152 rows, 288 in a shard */

    for (int index = 0; index <= 2; index += 2) {
        struct spot_bundle b;
        int64_t n_zero = 0;
        int t;

        ck_assert_int_eq(spot_bundle_init(&b, &odd, index, NULL), 0);
        spot_bundle_start(&b, &odd, 1);
        t = spot_arena_find(&b.arena, index ? "head.w" : "wte");
        for (int64_t r = 0; r < 1152; r++)
            for (int64_t c = 0; c < 8; c++) {
                const size_t at =
                    spot_arena_offset(&b.arena, t, (int)(r / 288)) + (size_t)(r % 288 * 8 + c);

                ck_assert(r < 1025 || b.plane[SPOT_PLANE_MASTER][at] == 0);
                n_zero += b.plane[SPOT_PLANE_MASTER][at] == 0;
            }
        ck_assert_int_eq(n_zero, 8 * (1152 - 1025));
        spot_bundle_release(&b);
    }
}
END_TEST

START_TEST(weights_follow_the_distribution_of_gpt2)
{
    struct spot_bundle e, l, h;

    start(&e, 0, 1);
    start(&l, 1, 1);
    start(&h, 4, 1);
    check_normal(&e, "wte", 0.02);
    check_normal(&e, "wpe", 0.02);
    check_normal(&l, "qkv.w", 0.02);
    check_normal(&l, "up.w", 0.02);
    check_normal(&l, "proj.w", 0.02 / sqrt(6));
    check_normal(&l, "down.w", 0.02 / sqrt(6));
    check_normal(&h, "head.w", 0.02);
    for (int64_t i = 0; i < shape.width; i++) {
        ck_assert(l.plane[0][spot_arena_offset(&l.arena, spot_arena_find(&l.arena, "ln1.w"), 0) +
                             (size_t)i] == 1);
        ck_assert(l.plane[0][spot_arena_offset(&l.arena, spot_arena_find(&l.arena, "down.b"), 0) +
                             (size_t)i] == 0);
    }
    spot_bundle_release(&e);
    spot_bundle_release(&l);
    spot_bundle_release(&h);
}
END_TEST

START_TEST(shards_of_a_tensor_differ)
{
    struct spot_bundle b;
    int t;

    start(&b, 1, 1);
    t = spot_arena_find(&b.arena, "up.w");
    ck_assert_mem_ne(b.plane[0] + spot_arena_offset(&b.arena, t, 0),
                     b.plane[0] + spot_arena_offset(&b.arena, t, 1), 64 * sizeof(float));
    spot_bundle_release(&b);
}
END_TEST

START_TEST(planes_are_aligned_and_release_may_be_repeated)
{
    struct spot_bundle b;

    start(&b, 1, 1);
    for (int p = 0; p < SPOT_PLANES; p++)
        ck_assert_uint_eq((uintptr_t)b.plane[p] % 64, 0);
    spot_bundle_release(&b);
    spot_bundle_release(&b);
}
END_TEST

/* FNV-1a over the bits of a plane. */
static uint64_t digest(const float *x, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        h = (h ^ bits) * UINT64_C(0x100000001b3);
    }
    return h;
}

START_TEST(start_has_the_recorded_bits)
{
    static const uint64_t recorded[] = { UINT64_C(14278520918205687720),
                                         UINT64_C(15932405833964640719),
                                         UINT64_C(15791888427783763275) };
    static const int index[] = { 0, 1, 4 };
    struct spot_bundle b;

    start(&b, index[_i], 42);
    ck_assert_uint_eq(digest(b.plane[0], b.arena.n_elem), recorded[_i]);
    spot_bundle_release(&b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, start_has_the_recorded_bits, 0, 3);
    add_tests(tc);
    return run_suite("bundle", tc);
}
