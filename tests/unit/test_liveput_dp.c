/* SPDX-License-Identifier: MIT */
/* Goal: both optimisers find what exhaustive search finds. Oracles: all sequences of grids for the
 * published recurrence, and a plain recursion over all events and grids for the stochastic
 * program. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "liveput_rig.h"
#include "peers/parcae.h"

/* Best samples of a known future, every sequence tried. */
static double best_known(struct spot_cost_table *t, int n, int from, double carry_s,
                         const int *change, int n_step, double interval_s)
{
    const struct spot_cost_state state = { n, from, carry_s };
    const int n2 = n_step ? n + change[0] : 0, lost = n_step && change[0] < 0 ? -change[0] : 0;
    double best = 0;

    for (int to = 0; n_step && to < t->n_grid; to++) {
        double total, left, x;

        if (!fits(t, to, n2))
            continue;
        total = spot_cost_total_s(t, &state, to, spot_cost_row(t, n, from, lost)[to]);
        left = total > interval_s ? total - interval_s : 0;
        x = (left > 0 ? 0 : t->samples_per_s[to] * (interval_s - total)) +
            best_known(t, n2, to, left, change + 1, n_step - 1, interval_s);
        best = x > best ? x : best;
    }
    return best;
}

START_TEST(the_published_optimiser_finds_the_best_sequence)
{
    static const int future[][4] = { { 0, -1, 0, 0 }, { -1, -1, 1, 2 },  { 0, 0, -3, 3 },
                                     { -2, 0, 1, 0 }, { 0, -1, -1, -1 }, { -3, 1, 1, 1 } };
    struct fixture f;

    load(&f);
    for (size_t k = 0; k < sizeof(future) / sizeof(*future); k++)
        for (int from = 0; from < f.table.n_grid; from++) {
            int gained[4], lost[4];
            double value = 0, best;

            for (int i = 0; i < 4; i++) {
                gained[i] = future[k][i] > 0 ? future[k][i] : 0;
                lost[i] = future[k][i] < 0 ? -future[k][i] : 0;
            }
            /* intervals long enough that no migration outlasts one: then the recurrence with one
             * value per state is exact */
            spot_parcae_choose(&f.table, &(struct spot_cost_state){ 4, from, 0 }, gained, lost, 4,
                               60, &value);
            best = best_known(&f.table, 4, from, 0, future[k], 4, 60);
            ck_assert_double_le(fabs(value - best), 1e-9 * best);
        }
    unload(&f);
}
END_TEST

/* Which changes are known before a grid is chosen. */
enum notice { ALL, NONE, LOSSES };

static bool is_known(enum notice notice, int change)
{
    return notice == ALL || (notice == LOSSES && change < 0);
}

/* Expected samples of h more intervals, all events and grids tried. */
static double expectimax(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                         int from, int context, int h, enum notice notice);

static double after(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                    int from, int change, int to, int context, int h, enum notice notice)
{
    const int lost = change < 0 ? -change : 0;
    const double cost = spot_cost_row(t, n, from, lost)[to];

    return spot_cost_rate(t, n - lost, to) * (60 - cost) +
           expectimax(t, chain, n + change, to, spot_count_chain_after(context, change), h - 1,
                      notice);
}

static double expectimax(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                         int from, int context, int h, enum notice notice)
{
    struct spot_count_step s;
    double sum, known = 0, best = -INFINITY;

    if (!h)
        return 0;
    spot_count_chain_step(chain, n, context, &s);
    for (int change = -SPOT_CHAIN_SIZE_MAX; change <= SPOT_CHAIN_SIZE_MAX; change++) {
        const double prob = change < 0 ? s.lost[-change] : change ? s.gained[change] : s.still;

        if (prob <= 0 || !is_known(notice, change))
            continue;
        best = -INFINITY;
        for (int to = 0; to < t->n_grid; to++)
            if (fits(t, to, n + change))
                best = fmax(best, after(t, chain, n, from, change, to, context, h, notice));
        known += prob * best;
    }
    if (notice == ALL)
        return known;
    best = -INFINITY;
    for (int to = 0; to < t->n_grid; to++) {
        sum = 0;
        for (int change = -SPOT_CHAIN_SIZE_MAX; change <= SPOT_CHAIN_SIZE_MAX; change++) {
            const double prob = change < 0 ? s.lost[-change] : change ? s.gained[change] : s.still;

            if (prob > 0 && !is_known(notice, change))
                sum += prob *
                       after(t, chain, n, from, change, cut(t, to, n + change), context, h, notice);
        }
        best = fmax(best, sum);
    }
    return known + best;
}

/* Up to two warm spares, whose mirrors and moves take long enough to matter. */
static void load_warm(struct fixture *f)
{
    load(f);
    spot_cost_table_release(&f->table);
    f->job.cost.p2p[0].y = 0.002;
    f->job.cost.move_byte_per_param = 50;
    spot_cost_table_init(&f->table, &f->job, &f->throughput);
    f->table.warm = 2;
    ck_assert_double_lt(spot_cost_rate(&f->table, 4, spot_cost_grid(&f->table, 2, 1)),
                        spot_cost_rate(&f->table, 2, spot_cost_grid(&f->table, 2, 1)));
    ck_assert_double_gt(spot_cost_warm_saves_s(&f->table, 4, spot_cost_grid(&f->table, 1, 2), 1,
                                               spot_cost_grid(&f->table, 1, 2)),
                        0);
}

/* 0..2: by notice; 3..5: the same with warm spares. */
START_TEST(the_program_agrees_with_a_plain_recursion)
{
    const enum notice notice = (enum notice)(_i % 3);

    enum { H = 2 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;

    if (_i < 3)
        load(&f);
    else
        load_warm(&f);
    gentle_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, 60, notice == ALL);
    dp.sees_losses = notice == LOSSES;
    dp.is_finite = true;
    ck_assert_int_eq(spot_liveput_dp_solve(&dp, &chain, H), H);
    for (int from = 0; from < f.table.n_grid; from++)
        for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c++) {
            const double want = expectimax(&f.table, &chain, 4, from, c, H, notice);
            const double got =
                dp.value[((size_t)c * 5 + 4) * (size_t)(dp.n_grid + 1) + (size_t)dp.rank[from]];

            ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want),
                          "case %d, grid %d, context %d: %.12g, recursion %.12g", _i, from, c, got,
                          want);
        }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

START_TEST(a_run_that_ends_has_the_values_of_a_plain_recursion)
{
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;

    load(&f);
    gentle_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, 60, true);
    spot_liveput_dp_solve(&dp, &chain, 50);
    for (int left = 2; left >= 0; left--) {
        spot_liveput_dp_finish(&dp, &chain, left);
        for (int from = 0; from < f.table.n_grid; from++) {
            const double want = expectimax(&f.table, &chain, 4, from, 3, left, ALL);
            const double got =
                dp.value[((size_t)3 * 5 + 4) * (size_t)(dp.n_grid + 1) + (size_t)dp.rank[from]];

            ck_assert_double_le(fabs(got - want), 1e-9 * fabs(want));
        }
    }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

START_TEST(a_still_world_keeps_the_fastest_grid_and_never_pays)
{
    const int none = 0;
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    struct spot_count_step still = { .still = 1 };
    int d, p;

    load(&f);
    spot_count_chain_init(&chain, 4);
    spot_count_chain_fix(&chain, &still);
    spot_liveput_dp_init(&dp, &f.table, 60, true);
    spot_liveput_dp_solve(&dp, &chain, 200);
    spot_throughput_best(&f.throughput, 4, &d, &p);
    for (int from = 0; from < f.table.n_grid; from++) {
        const struct spot_liveput_choice c = spot_liveput_dp_after(
            &dp,
            &(struct spot_liveput_view){ .n = 4, .from = from, .n_known = 1, .change = &none });

        ck_assert_int_eq(c.grid, spot_cost_grid(&f.table, d, p)); /* a change pays off for ever */
    }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

START_TEST(the_chain_is_a_distribution_in_every_context_and_count)
{
    struct spot_count_chain chain;

    spot_count_chain_init(&chain, 12);
    for (int k = 0; k < 200; k++)
        spot_count_chain_observe(&chain, 6 + k * 7 % 5, 6 + (k + 1) * 7 % 5);
    for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c++)
        for (int n = 0; n <= 12; n++) {
            struct spot_count_step s;
            double sum;

            spot_count_chain_step(&chain, n, c, &s);
            sum = s.still;
            for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
                ck_assert(s.lost[k] >= 0 && s.gained[k] >= 0);
                ck_assert(k <= n || s.lost[k] == 0);
                ck_assert(n + k <= 12 || s.gained[k] == 0);
                sum += s.lost[k] + s.gained[k];
            }
            ck_assert_double_le(fabs(sum - 1), 1e-12);
        }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, the_program_agrees_with_a_plain_recursion, 0, 6);
    add_tests(tc);
    return run_case("liveput_dp", tc);
}
