/* SPDX-License-Identifier: MIT */
/* Goal: what a change of the grid takes is its bytes over the links. Oracles: weights and caches by
 * hand; a grid that stays moves nothing; what cannot be planned takes what was said. */
#include <math.h>
#include <string.h>

#include "model/shape.h"
#include "sim/serve_move.h"
#include "suite.h"

static const char text[] =
    "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":4,\"width\":8,\"ffn\":32,\"heads\":2,"
    "\"vocab\":16},\"components\":[{\"name\":\"w\",\"byte_per_param\":4}],"
    "\"grid\":{\"D\":1,\"P\":1,\"M\":1}}";

static struct spot_layout layout;
static struct spot_job_serve serve = {
    .gpus = 1, .max_batch = 4, .prompt_token = 30, .output_token = 20
};
static struct spot_serve_moves moves = {
    .layout = &layout, .serve = &serve, .byte_per_s = 1000, .other_s = 77
};

static void setup(void)
{
    ck_assert_int_eq(spot_layout_parse(&layout, text, strlen(text), "t", NULL), 0);
}

static void teardown(void)
{
    spot_serve_moves_release(&moves);
    spot_layout_release(&layout);
}

static double weights_byte(void)
{
    double n = 0;

    for (int64_t b = 0; b < layout.model.n_layer + 2; b++)
        n += 4 * (double)spot_shape_bundle_params(&layout.model, b);
    return n;
}

/* Keys and values of 4 requests of 50 tokens in 4 layers. */
static const double cache_byte = 2. * 4 * 50 * 8 * 4 * 4;

START_TEST(a_lost_replica_is_weights_from_one_and_the_cache_from_the_other)
{
    const struct spot_serve_change c = {
        .from = { 2, 1, 1 }, .to = { 2, 1, 1 }, .instances = 2, .lost = 1, .gained = 1
    };

    ck_assert_double_eq_tol(spot_serve_move_s(&moves, &c), (weights_byte() + cache_byte) / 1000,
                            1e-3);
    ck_assert_double_eq(spot_serve_move_s(&moves, &c), spot_serve_move_s(&moves, &c));
    ck_assert_int_eq((int)moves.n_known, 1);
}
END_TEST

START_TEST(what_joins_takes_weights_alone_and_what_stays_takes_nothing)
{
    const struct spot_serve_change more = {
        .from = { 1, 1, 1 }, .to = { 2, 1, 1 }, .instances = 1, .gained = 1
    };
    const struct spot_serve_change same = { .from = { 2, 1, 1 },
                                            .to = { 2, 1, 1 },
                                            .instances = 3 };
    const struct spot_serve_change unused = {
        .from = { 1, 1, 1 }, .to = { 1, 1, 1 }, .instances = 3, .lost = 1
    };

    ck_assert_double_eq_tol(spot_serve_move_s(&moves, &more), weights_byte() / 1000, 1e-3);
    ck_assert_double_eq(spot_serve_move_s(&moves, &same), 0);
    ck_assert_double_eq(spot_serve_move_s(&moves, &unused), 0); /* none of those in use */
}
END_TEST

START_TEST(what_cannot_be_planned_takes_what_was_said)
{
    const struct spot_serve_change stages = { .from = { 1, 1, 1 },
                                              .to = { 1, 8, 1 },
                                              .instances = 8 };
    const struct spot_serve_change room = { .from = { 1, 1, 1 },
                                            .to = { 3, 1, 1 },
                                            .instances = 2 };

    ck_assert_double_eq(spot_serve_move_s(&moves, &stages), 77);
    ck_assert_double_eq(spot_serve_move_s(&moves, &room), 77);
}
END_TEST

int main(void)
{
    TCase *const tcase = tcase_create("move");

    tcase_add_checked_fixture(tcase, setup, teardown);
    add_tests(tcase);
    return run_case("serve_move", tcase);
}
