/* SPDX-License-Identifier: MIT */
/* Goal: what is told of a job before it begins is true: how often it is moved, what it pays, with
 * which chance it is late where nobody sells on demand. Oracle: sums over chains without tables. */
#include <math.h>
#include <string.h>

#include "sim/deadline_ahead.h"
#include "suite.h"

START_TEST(runs_are_those_of_the_chance_to_stay)
{
    const double end[SPOT_RUN_STAGES] = { 0.3, 0.1, 0.05, 0.02, 0.02, 0.01, 0.004 };
    struct spot_run_dist dist = { 0 };
    double stays[40], s = 1, ticks = 0;

    for (size_t i = 0; i < 40; i++)
        stays[i] = s *= 1 - end[spot_run_stage(i + 1)];
    spot_run_dist_fit_stays(&dist, stays, 40);
    for (size_t j = 0; j < 6; j++) /* the sixth is of ages 32 to 63, of which 8 were told */
        ck_assert_double_eq_tol(dist.end_prob[1][j], end[j], 1e-12);
    ck_assert_double_eq_tol(dist.end_prob[1][6], end[5], 1e-12);
    s = 1;
    for (size_t i = 1; i < 100000; i++) {
        ticks += s;
        s *= 1 - dist.end_prob[1][spot_run_stage(i)];
    }
    ck_assert_double_eq_tol(spot_run_dist_mean_end(&dist, true), 1 / ticks, 1e-9);
}
END_TEST

static struct spot_run_dist chain(double up_ends, double away_ends)
{
    struct spot_run_dist d;

    for (size_t j = 0; j < SPOT_RUN_STAGES; j++) {
        d.end_prob[1][j] = up_ends;
        d.end_prob[0][j] = away_ends;
    }
    return d;
}

static struct spot_market one_place(double work_s, double deadline_s, double restart_s,
                                    double on_demand)
{
    return (struct spot_market){
        .work_s = work_s,
        .deadline_s = deadline_s,
        .tick_s = 600,
        .restart_s = { restart_s },
        .restart_prob = { 1 },
        .n_restart = 1,
        .n_place = 1,
        .place = { { .spot_usd_per_h = 1, .on_demand_usd_per_h = on_demand, .speed = 1 } },
    };
}

static struct spot_deadline_outlook look(const struct spot_market *m,
                                         const struct spot_run_dist *law)
{
    const double there[1] = { 1 };
    const struct spot_deadline_ahead ahead = {
        .market = m,
        .law = law,
        .has_spot = there,
        .now = { .left_s = m->work_s, .is_new = true, .has_spot = { true }, .age = { 1 } },
        .first = { SPOT_DEADLINE_SPOT, 0 },
        .plays = 4000,
        .seed = 7
    };
    struct spot_deadline_outlook out;
    struct spot_err err;

    ck_assert_msg(!spot_deadline_look_ahead(&ahead, &out, &err), "%s", err.msg);
    return out;
}

/* P(late) of who runs whenever spot is there. */
static double late(double a, double b, int ticks, int left, bool is_up)
{
    double p[2][64] = { { 0 } };

    p[is_up][left] = 1;
    for (int t = 0; t < ticks; t++) {
        double next[2][64] = { { 0 } };

        for (int l = 0; l <= left; l++)
            for (int up = 0; up < 2; up++) {
                const int then = up && l ? l - 1 : l;
                const double end = up ? a : b;

                next[!up][then] += end * p[up][l];
                next[up][then] += (1 - end) * p[up][l];
            }
        memcpy(p, next, sizeof(p));
    }
    return 1 - p[0][0] - p[1][0];
}

START_TEST(where_nobody_sells_on_demand_the_chance_to_be_late_is_told)
{
    const struct spot_market m = one_place(20 * 600, 26 * 600, 0, INFINITY);
    const struct spot_run_dist law = chain(0.1, 0.4);
    const double exact = late(0.1, 0.4, 26, 20, true);
    const struct spot_deadline_outlook out = look(&m, &law);

    ck_assert_double_eq_tol(out.late, exact, 4 * sqrt(exact * (1 - exact) / 4000));
    ck_assert_double_eq(out.on_demand, 0);
    ck_assert_double_le(out.usd, 20.0 / 6);
}
END_TEST

START_TEST(cost_and_moves_are_those_of_the_program)
{
    struct spot_market m = one_place(40 * 600, 300 * 600, 600, 3);
    const struct spot_run_dist law = chain(0.1, 0.4);
    const struct spot_deadline_outlook out = look(&m, &law);
    struct spot_market_table table;
    struct spot_err err;
    const struct spot_market_now now = {
        .left_s = m.work_s, .is_new = true, .has_spot = { true }, .age = { 1 }
    };

    m.place[0].dist = law;
    ck_assert(!spot_market_solve(&table, &m, &now, NULL, &err));
    ck_assert_double_eq_tol(out.usd, table.usd, 0.01);
    spot_market_release(&table);
    /* nothing is pressing: of 40 ticks and one of each launch .1 are lost, but the last */
    ck_assert_double_eq_tol(out.moves, 4 / 0.9, 4 * sqrt(4.4 * 1.3 / 4000));
    ck_assert_double_eq_tol(out.usd, (41 + out.moves) / 6, 1e-9);
    ck_assert_double_eq(out.late, 0);
    ck_assert_uint_le(out.few, 2);
    ck_assert_uint_ge(out.many, 6);
}
END_TEST

int main(void)
{
    return run_suite("deadline_ahead", add_tests(tcase_create("deadline_ahead")));
}
