/* SPDX-License-Identifier: MIT */
/* Goal: what a generation costs is what was added to the steps that it was beside, whether it was
 * shorter than a step or longer, however much steps vary, when the machine becomes slower for other
 * reasons, and when a step is always due for one. */
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "suite.h"
#include "train/durable_lag.h"

/* A job whose steps take step_s and differ by `noise`; a generation takes so many steps, and adds
 * cost_s to each second of them. */
struct game {
    double step_s, noise, added_s; /* by a generation to each step that it is beside */
    double lasts;                  /* steps; less than one: over before the step is */
    double share;                  /* of the time, at most */
    int n_step;
};

struct outcome {
    double took_s, calm_s; /* all steps; without any generation */
    int n_saved, most_between;
};

static struct outcome play(const struct game *g, struct spot_save_cost *c, uint64_t seed)
{
    struct outcome o = { 0 };
    struct spot_rng rng;
    double left = 0, begun_s = -INFINITY;
    int last = 0;

    spot_rng_init(&rng, seed, 0);
    for (int k = 0; k < g->n_step; k++) {
        double step_s = g->step_s * (1 + g->noise * (2 * spot_rng_unit(&rng) - 1));

        o.calm_s += step_s;
        if (left <= 0 && !spot_save_cost_wants_calm(c) &&
            o.took_s - begun_s >= fmax(1, spot_save_cost_s(c) / g->share)) {
            spot_save_cost_begun(c);
            begun_s = o.took_s;
            left = g->lasts;
        }
        if (left > 0) {
            step_s += g->added_s;
            left -= 1;
            if (left <= 0) {
                spot_save_cost_ended(c);
                o.n_saved++;
                o.most_between = k - last > o.most_between ? k - last : o.most_between;
                last = k;
            }
        }
        o.took_s += step_s;
        spot_save_cost_step(c, step_s, left > 0, k > 0);
    }
    return o;
}

START_TEST(a_generation_shorter_than_a_step_costs_what_it_adds_to_it)
{
    struct spot_save_cost c = { 0 };
    const struct game g = {
        .step_s = 2, .noise = 0, .added_s = 0.4, .lasts = 0.7, .share = 0.05, .n_step = 200
    };
    const struct outcome o = play(&g, &c, 1);

    ck_assert_double_eq_tol(spot_save_cost_s(&c), 0.4, 1e-6);
    ck_assert_double_eq_tol(c.calm_s, 2, 1e-9);
    ck_assert_double_le((o.took_s - o.calm_s) / o.took_s, 0.07); /* the first ones taught it */
}
END_TEST

START_TEST(a_long_one_costs_the_sum_over_its_steps)
{
    struct spot_save_cost c = { 0 };
    const struct game g = { .step_s = 1, .added_s = 0.1, .lasts = 5, .share = 0.05, .n_step = 400 };

    play(&g, &c, 1);
    ck_assert_double_eq_tol(spot_save_cost_s(&c), 0.5, 1e-6);
}
END_TEST

START_TEST(noise_is_no_cost_and_hides_none)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct game g = { .step_s = 1, .noise = 0.3, .lasts = 0.5, .share = 0.05, .n_step = 2000 };
        struct spot_save_cost free_of = { 0 }, dear = { 0 };
        struct outcome o = play(&g, &free_of, seed);

        ck_assert_int_gt(o.n_saved, 150); /* of 2000 s; 400 if all were known */
        g.added_s = 0.5;
        o = play(&g, &dear, seed);
        ck_assert_double_le((o.took_s - o.calm_s) / o.took_s, 0.07);
        ck_assert_int_le(o.most_between, 40);
    }
}
END_TEST

START_TEST(a_machine_that_becomes_slower_is_not_taken_for_what_is_written)
{
    struct spot_save_cost c = { 0 };
    struct game g = { .step_s = 1, .lasts = 0.5, .share = 0.05, .n_step = 300 };
    struct outcome o;

    play(&g, &c, 1);
    g.step_s = 3;
    play(&g, &c, 2);
    ck_assert_double_eq_tol(c.calm_s, 3, 0.2);
    ck_assert_double_le(spot_save_cost_s(&c), 0.3);
    g.step_s = 0.5; /* and faster again */
    play(&g, &c, 3);
    ck_assert_double_eq_tol(c.calm_s, 0.5, 0.1);
    g.added_s = 0.5;
    o = play(&g, &c, 4);
    ck_assert_double_ge(spot_save_cost_s(&c), 0.4);
    ck_assert_int_gt(o.n_saved, 5);
}
END_TEST

START_TEST(unusual_steps_count_for_neither)
{
    struct spot_save_cost c = { 0 };

    for (int k = 0; k < 5; k++)
        spot_save_cost_step(&c, 100, false, false);
    ck_assert(c.calm_s == 0);
    spot_save_cost_step(&c, 1, false, true);
    spot_save_cost_begun(&c);
    spot_save_cost_step(&c, 100, true, false);
    spot_save_cost_ended(&c);
    spot_save_cost_step(&c, 2, false, true);
    ck_assert_double_gt(spot_save_cost_s(&c), 0);
    ck_assert_double_le(spot_save_cost_s(&c), 1);
}
END_TEST

START_TEST(where_each_step_has_one_a_step_of_calm_is_asked_for)
{
    struct spot_save_cost c = { 0 };
    int n = 0;

    for (; !spot_save_cost_wants_calm(&c); n++) {
        ck_assert_int_lt(n, 100);
        spot_save_cost_begun(&c);
        spot_save_cost_ended(&c);
        spot_save_cost_step(&c, 1, false, true);
    }
    ck_assert_int_gt(n, 1);
    spot_save_cost_step(&c, 1, false, false); /* be it known or not */
    ck_assert(!spot_save_cost_wants_calm(&c));
}
END_TEST

int main(void)
{
    return run_suite("save_cost", add_tests(tcase_create("cost")));
}
