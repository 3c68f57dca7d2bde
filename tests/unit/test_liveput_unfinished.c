/* SPDX-License-Identifier: MIT */
/* Goal: what an interval does not finish of a migration is carried over by the published rules, in
 * known futures and in the state. Oracle: a plain recursion over all events, grids and seconds
 * left. */
#include <math.h>

#include "liveput_rig.h"

/* Samples of a known future and then nothing; every sequence tried, to suspend included. */
static double best_way(struct spot_cost_table *t, int n, int from, double carry_s,
                       const int *change, int n_known, double interval_s, int *first)
{
    const struct spot_cost_state state = { n, from, carry_s };
    const int n2 = n_known ? n + change[0] : 0, lost = n_known && change[0] < 0 ? -change[0] : 0;
    double best;
    int next;

    if (!n_known)
        return 0;
    *first = SPOT_GRID_NONE;
    best = best_way(t, n2, SPOT_GRID_NONE, 0, change + 1, n_known - 1, interval_s, &next);
    for (int to = 0; to < t->n_grid; to++) {
        double total, left, x;

        if (!fits(t, to, n2))
            continue;
        total = spot_cost_total_s(t, &state, to, spot_cost_row(t, n, from, lost)[to]);
        left = total > interval_s ? total - interval_s : 0;
        x = (left > 0 ? 0 : t->samples_per_s[to] * (interval_s - total)) +
            best_way(t, n2, to, left, change + 1, n_known - 1, interval_s, &next);
        if (x > best) {
            best = x;
            *first = to;
        }
    }
    return best;
}

START_TEST(known_changes_are_planned_for_exactly_even_where_migrations_outlast_intervals)
{
    static const int future[][4] = { { 0, -1, 0, 0 }, { -1, -1, 1, 1 },  { 0, 0, -3, 3 },
                                     { -2, 0, 1, 0 }, { 0, -1, -1, -1 }, { -1, 0, 0, 0 } };
    static const double interval_s[] = { 4, 11, 60 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;

    load(&f);
    spot_count_chain_init(&chain, 4);
    spot_liveput_dp_init(&dp, &f.table, interval_s[_i], true);
    spot_liveput_dp_solve(&dp, &chain, 50); /* to be forgotten */
    spot_liveput_dp_finish(&dp, &chain, 0);
    for (size_t k = 0; k < sizeof(future) / sizeof(*future); k++)
        for (int from = 0; from < f.table.n_grid; from++)
            for (int n_known = 1; n_known <= 4; n_known++)
                for (double carry_s = 0; carry_s < 9; carry_s += 4) {
                    const struct spot_liveput_view view = { .n = 4,
                                                            .from = from,
                                                            .carry_s = carry_s,
                                                            .n_known = n_known,
                                                            .change = future[k] };
                    const struct spot_liveput_choice c = spot_liveput_dp_after(&dp, &view);
                    int first;
                    const double best = best_way(&f.table, 4, from, carry_s, future[k], n_known,
                                                 interval_s[_i], &first);

                    ck_assert_msg(fabs(c.samples - best) <= 1e-9 * fmax(1, fabs(best)),
                                  "future %zu, grid %d, %d known, %g s left: %.12g, search %.12g",
                                  k, from, n_known, carry_s, c.samples, best);
                }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

/* Expected samples of h more intervals with carry_s of a migration unfinished: the published rules
 * for what is left, all events and grids tried, to suspend included. */
struct owing {
    struct spot_cost_table *t;
    const struct spot_count_chain *chain;
    double interval_s;
    bool has_notice;
};

static double owing_max(const struct owing *o, int n, int from, double carry_s, int context, int h);

static double owing_after(const struct owing *o, int n, int from, double carry_s, int change,
                          int to, int context, int h)
{
    const struct spot_cost_state state = { n, from, carry_s };
    const int next = spot_count_chain_after(context, change);
    double total;

    if (to == SPOT_GRID_NONE)
        return owing_max(o, n + change, to, 0, next, h - 1);
    total = spot_cost_total_s(o->t, &state, to,
                              spot_cost_row(o->t, n, from, change < 0 ? -change : 0)[to]);
    return o->t->samples_per_s[to] * fmax(0, o->interval_s - total) +
           owing_max(o, n + change, to, fmax(0, total - o->interval_s), next, h - 1);
}

static double owing_max(const struct owing *o, int n, int from, double carry_s, int context, int h)
{
    struct spot_count_step s;
    double best[16] = { 0 }, most = -INFINITY, sum = 0;

    if (!h)
        return 0;
    spot_count_chain_step(o->chain, n, context, &s);
    for (int change = -1; change <= 1; change++) {
        const double prob = change < 0 ? s.lost[1] : change ? s.gained[1] : s.still;
        double here = -INFINITY;

        for (int to = SPOT_GRID_NONE; prob > 0 && to < o->t->n_grid; to++) {
            const int grid = to == SPOT_GRID_NONE ? to : cut(o->t, to, n + change);
            const double x = owing_after(o, n, from, carry_s, change, grid, context, h);

            if (to == grid)
                here = fmax(here, x);
            best[to + 1] += prob * x;
        }
        sum += prob > 0 ? prob * here : 0;
    }
    for (int i = 0; i <= o->t->n_grid; i++)
        most = fmax(most, best[i]);
    return o->has_notice ? sum : most;
}

START_TEST(what_an_interval_does_not_finish_is_in_the_state)
{
    enum { H = 3 };
    static const double interval_s[] = { 4, 7, 11, 14 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    const struct owing o = { &f.table, &chain, interval_s[_i / 2], _i % 2 };
    double matters = 0, coarse = 0;

    load(&f);
    gentle_chain(&chain);
    for (int fine = 0; fine < 2; fine++) {
        spot_liveput_dp_init(&dp, &f.table, o.interval_s, o.has_notice);
        dp.node_per_span = fine ? 257 : dp.node_per_span;
        spot_liveput_dp_finish(&dp, &chain, H);
        for (int from = 0; from < f.table.n_grid; from++)
            for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c += 4)
                for (int k = 0; k * 0.37 * o.interval_s <= fmin(dp.left_max_s, 8 * o.interval_s);
                     k++) {
                    const double left_s = k * 0.37 * o.interval_s;
                    const double want = owing_max(&o, 4, from, left_s, c, H);
                    const double free = owing_max(&o, 4, from, 0, c, H);
                    const double got = spot_liveput_owing(&dp, spot_liveput_dp_value(&dp, c, 4),
                                                          dp.rank[from], left_s);
                    const double off = fabs(got - want) / free;

                    if (!fine)
                        coarse = fmax(coarse, off);
                    else
                        ck_assert_msg(off <= 1e-3, "grid %d, context %d, %g s: %.9g, want %.9g",
                                      from, c, left_s, got, want);
                    if (left_s > 0)
                        matters = fmax(matters, (free - want) / free);
                }
        spot_liveput_dp_release(&dp);
    }
    ck_assert_double_gt(matters, 0.1);
    ck_assert_double_le(coarse, 0.03); /* of three intervals */
    unload(&f);
}
END_TEST

START_TEST(the_choice_with_a_migration_unfinished_is_the_best)
{
    enum { H = 2 };
    static const double interval_s[] = { 5, 9 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    const struct owing o = { &f.table, &chain, interval_s[_i], false };

    load(&f);
    gentle_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, o.interval_s, false);
    dp.node_per_span = 257;
    spot_liveput_dp_finish(&dp, &chain, H);
    for (int from = 0; from < f.table.n_grid; from++)
        for (double left_s = 0; left_s < 16; left_s += 1.7) {
            struct spot_count_step step;
            struct spot_liveput_choice c;
            double want;

            spot_count_chain_step(&chain, 4, 2, &step);
            c = spot_liveput_dp_before(&dp, 4, from, left_s, 2, &step);
            want = owing_max(&o, 4, from, left_s, 2, H + 1);
            ck_assert_msg(fabs(c.samples - want) <= 1e-3 * want, "grid %d, %g s: %.9g, want %.9g",
                          from, left_s, c.samples, want);
        }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(
        tc, known_changes_are_planned_for_exactly_even_where_migrations_outlast_intervals, 0, 3);
    tcase_add_loop_test(tc, what_an_interval_does_not_finish_is_in_the_state, 0, 8);
    tcase_add_loop_test(tc, the_choice_with_a_migration_unfinished_is_the_best, 0, 2);
    return run_case("liveput_unfinished", tc);
}
