/* SPDX-License-Identifier: MIT */
/* Goal: what a message says of a model counts only if the model has it. */
#include "train/model_wire.h"

#include <check.h>
#include <math.h>

#include "shard/arena.h"
#include "suite.h"

static const struct spot_shape shape = {
    .n_layer = 2, .width = 16, .n_head = 2, .seq = 8, .vocab = 256, .n_shard = 2
};

START_TEST(a_set_of_tensors_is_of_those_that_the_bundle_has)
{
    for (int b = 0; b < spot_shape_bundles(&shape); b++) {
        struct spot_arena arena;

        spot_arena_of(&shape, b, &arena);
        for (int t = 0; t < 32; t++) {
            const bool has = t < arena.n_tensor;
            struct spot_buf out = { 0 };
            struct spot_wire_in in;

            spot_put_u32(&out, UINT32_C(1) << t);
            in = spot_wire_in(out.data, out.n);
            ck_assert_uint_eq(spot_get_tensors(&in, &shape, (uint32_t)b),
                              has ? UINT32_C(1) << t : 0);
            ck_assert_int_eq(in.bad, !has);
            spot_buf_release(&out);
        }
    }
}
END_TEST

START_TEST(a_bundle_is_below_their_number)
{
    static const struct {
        uint32_t told;
        bool is_bad;
    } row[] = { { 0, false }, { 3, false }, { 4, true }, { UINT32_MAX, true } };

    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct spot_buf out = { 0 };
        struct spot_wire_in in;

        spot_put_u32(&out, row[i].told);
        in = spot_wire_in(out.data, out.n);
        ck_assert_uint_eq(spot_get_bundle(&in, 4), row[i].is_bad ? 0 : row[i].told);
        ck_assert_int_eq(in.bad, row[i].is_bad);
        spot_buf_release(&out);
    }
}
END_TEST

START_TEST(a_duration_is_a_number_that_a_clock_may_show)
{
    static const struct {
        double told_s;
        bool is_bad;
    } row[] = { { 0, false },  { 12.5, false },    { -1e-9, true },
                { 1e6, true }, { INFINITY, true }, { NAN, true } };

    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct spot_buf out = { 0 };
        struct spot_wire_in in;

        spot_put_f64(&out, row[i].told_s);
        in = spot_wire_in(out.data, out.n);
        ck_assert_double_eq(spot_get_duration(&in), row[i].is_bad ? 0 : row[i].told_s);
        ck_assert_int_eq(in.bad, row[i].is_bad);
        spot_buf_release(&out);
    }
}
END_TEST

int main(void)
{
    return run_suite("model_wire", add_tests(tcase_create("model_wire")));
}
