/* SPDX-License-Identifier: MIT */
/* Goal: the door to lp_solve gives optima, and proves them in our own arithmetic. Oracles: every
 * whole point of small boxes; the bound that the duals prove. */
#include <math.h>

#include "common/rng.h"
#include "plan/lp.h"
#include "suite.h"

enum { COLUMNS = 4, ROWS = 3, TOP = 4 };

struct problem {
    double cost[COLUMNS], value[ROWS][COLUMNS], right[ROWS];
    enum spot_lp_sense sense[ROWS];
};

static struct problem draw(uint64_t seed)
{
    struct problem p;
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 1);
    for (int j = 0; j < COLUMNS; j++)
        p.cost[j] = (double)spot_rng_below(&rng, 21) - 8;
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS; j++)
            p.value[i][j] = (double)spot_rng_below(&rng, 11) - 4;
        p.sense[i] = i < 2 ? (enum spot_lp_sense)spot_rng_below(&rng, 2) : SPOT_LP_AT_MOST;
        p.right[i] = (double)spot_rng_below(&rng, 21) - 4;
    }
    return p;
}

static struct spot_lp *build(const struct problem *p, bool is_whole)
{
    static const size_t column[] = { 0, 1, 2, 3 };
    struct spot_lp *lp = spot_lp_new(COLUMNS);

    for (size_t j = 0; j < COLUMNS; j++) {
        spot_lp_cost(lp, j, p->cost[j]);
        spot_lp_range(lp, j, 0, TOP);
        if (is_whole)
            spot_lp_whole(lp, j);
    }
    for (int i = 0; i < ROWS; i++)
        spot_lp_row(lp, column, p->value[i], COLUMNS, p->sense[i], p->right[i]);
    return lp;
}

static double least_of_all(const struct problem *p)
{
    double best = INFINITY;

    for (int k = 0; k < 5 * 5 * 5 * 5; k++) {
        const double x[COLUMNS] = { k % 5, k / 5 % 5, k / 25 % 5, k / 125 };
        double sum = 0;
        bool is_in = true;

        for (int i = 0; i < ROWS; i++) {
            double row = 0;

            for (int j = 0; j < COLUMNS; j++)
                row += p->value[i][j] * x[j];
            is_in &= p->sense[i] == SPOT_LP_AT_MOST ? row <= p->right[i] : row >= p->right[i];
        }
        for (int j = 0; j < COLUMNS; j++)
            sum += p->cost[j] * x[j];
        if (is_in && sum < best)
            best = sum;
    }
    return best;
}

START_TEST(whole_optima_are_the_best_of_all_points)
{
    int infeasible = 0;

    for (uint64_t seed = 0; seed < 400; seed++) {
        const struct problem p = draw(seed);
        const double best = least_of_all(&p);
        struct spot_lp *lp = build(&p, true);
        const enum spot_lp_status status = spot_lp_solve(lp, 0, 0);

        infeasible += isinf(best);
        ck_assert_int_eq(status, isinf(best) ? SPOT_LP_INFEASIBLE : SPOT_LP_OPTIMAL);
        if (!isinf(best))
            ck_assert_double_eq_tol(spot_lp_objective(lp), best, 1e-9);
        spot_lp_free(lp);
    }
    ck_assert_int_gt(infeasible, 10);
    ck_assert_int_lt(infeasible, 300);
}
END_TEST

START_TEST(duals_prove_the_optimum_of_what_is_continuous)
{
    int solved = 0;

    for (uint64_t seed = 0; seed < 400; seed++) {
        const struct problem p = draw(seed);
        struct spot_lp *lp = build(&p, false);
        static const double nothing[ROWS];

        if (spot_lp_solve(lp, 0, 0) == SPOT_LP_OPTIMAL) {
            solved++;
            ck_assert_double_le(spot_lp_violation(lp, spot_lp_x(lp)), 1e-9);
            ck_assert_double_eq_tol(spot_lp_proven(lp, spot_lp_dual(lp)), spot_lp_objective(lp),
                                    1e-7);
            ck_assert_double_le(spot_lp_proven(lp, nothing), spot_lp_objective(lp) + 1e-9);
            ck_assert_double_le(spot_lp_objective(lp), least_of_all(&p) + 1e-9);
        }
        spot_lp_free(lp);
    }
    ck_assert_int_gt(solved, 100);
}
END_TEST

START_TEST(unbounded_and_violated_are_said)
{
    struct spot_lp *lp = spot_lp_new(1);
    static const size_t column[] = { 0 };
    static const double one[] = { 1 }, two[] = { 2 };

    spot_lp_cost(lp, 0, -1);
    ck_assert_int_eq(spot_lp_solve(lp, 0, 0), SPOT_LP_UNBOUNDED);
    spot_lp_row(lp, column, one, 1, SPOT_LP_AT_MOST, 1);
    ck_assert_int_eq(spot_lp_solve(lp, 0, 0), SPOT_LP_OPTIMAL);
    ck_assert_double_eq_tol(spot_lp_dual(lp)[0], -1, 1e-12);
    ck_assert_double_gt(spot_lp_violation(lp, two), 0.1);
    spot_lp_free(lp);
}
END_TEST

START_TEST(a_row_may_name_its_columns_in_any_order_and_be_solved_again)
{
    static const size_t column[] = { 2, 0, 1 };
    static const double value[] = { 1, 5, 3 }; /* x2 + 5 x0 + 3 x1 >= right */
    struct spot_lp *lp = spot_lp_new(3);
    size_t row;

    for (size_t j = 0; j < 3; j++)
        spot_lp_cost(lp, j, j == 0 ? 4 : 10);
    row = spot_lp_row(lp, column, value, 3, SPOT_LP_AT_LEAST, 10);
    for (int again = 0; again < 3; again++) {
        spot_lp_right(lp, row, 10 + 5 * again);
        ck_assert_int_eq(spot_lp_solve(lp, 0, 0), SPOT_LP_OPTIMAL);
        ck_assert_double_eq_tol(spot_lp_objective(lp), 8 + 4 * again, 1e-9); /* x0 alone */
        ck_assert_double_eq_tol(spot_lp_proven(lp, spot_lp_dual(lp)), 8 + 4 * again, 1e-9);
    }
    spot_lp_free(lp);
}
END_TEST

/* Rows, bounds and right sides come and go, answers of the old basis between them; a program that
 * is built anew with all of them is the oracle. */
START_TEST(solved_again_it_answers_as_if_it_were_new)
{
    static const size_t column[] = { 0, 1, 2, 3 };
    int optimal = 0, none = 0;

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct problem p = draw(seed);
        struct spot_lp *lp = build(&p, false);
        struct spot_rng rng;

        spot_rng_init(&rng, seed, 2);
        for (int again = 0; again < 12; again++) {
            const size_t j = spot_rng_below(&rng, COLUMNS), i = spot_rng_below(&rng, ROWS);
            const double lower = (double)spot_rng_below(&rng, 2);
            const double upper = lower + (double)spot_rng_below(&rng, TOP);
            double extra[COLUMNS];
            struct spot_lp *fresh;
            enum spot_lp_status is;
            size_t extra_row = 0;

            p.right[i] += (double)spot_rng_below(&rng, 7) - 3;
            fresh = build(&p, false);
            spot_lp_right(lp, i, p.right[i]);
            for (size_t k = 0; k < COLUMNS; k++)
                extra[k] = (double)spot_rng_below(&rng, 5) - 2;
            spot_lp_range(lp, j, lower, upper);
            spot_lp_range(fresh, j, lower, upper);
            if (again % 3 == 2) {
                extra_row = spot_lp_row(lp, column, extra, COLUMNS, SPOT_LP_AT_MOST, 3);
                spot_lp_row(fresh, column, extra, COLUMNS, SPOT_LP_AT_MOST, 3);
            }
            is = spot_lp_solve(lp, 0, 0);
            ck_assert_int_eq(is, spot_lp_solve(fresh, 0, 0));
            if (is == SPOT_LP_OPTIMAL) {
                ck_assert_double_eq_tol(spot_lp_objective(lp), spot_lp_objective(fresh), 1e-7);
                ck_assert_double_eq_tol(spot_lp_proven(lp, spot_lp_dual(lp)),
                                        spot_lp_objective(fresh), 1e-6);
            }
            optimal += is == SPOT_LP_OPTIMAL;
            none += is == SPOT_LP_INFEASIBLE;
            spot_lp_free(fresh);
            if (again % 3 == 2)
                spot_lp_right(lp, extra_row, 1e6); /* it stays and binds no more */
            spot_lp_range(lp, j, 0, TOP);
        }
        spot_lp_free(lp);
    }
    ck_assert_int_gt(optimal, 500);
    ck_assert_int_gt(none, 50);
}
END_TEST

/* Sums of many columns that must be met exactly: the tree of it does not end. */
START_TEST(what_takes_too_long_is_given_up)
{
    enum { WIDE = 60, TALL = 30 };
    size_t column[WIDE];
    double value[WIDE];
    struct spot_lp *lp = spot_lp_new(WIDE);
    struct spot_rng rng;
    enum spot_lp_status status;

    spot_rng_init(&rng, 7, 0);
    for (size_t j = 0; j < WIDE; j++) {
        spot_lp_cost(lp, j, 1 + (double)spot_rng_below(&rng, 100) / 8);
        spot_lp_whole(lp, j);
        column[j] = j;
    }
    for (int i = 0; i < TALL; i++) {
        for (size_t j = 0; j < WIDE; j++)
            value[j] = (double)spot_rng_below(&rng, 3) * (1 + (double)spot_rng_below(&rng, 997));
        spot_lp_row(lp, column, value, WIDE, SPOT_LP_AT_LEAST,
                    5e4 + (double)spot_rng_below(&rng, 50000));
    }
    status = spot_lp_solve(lp, 1e-3, 0); /* a hundredth of what its end takes */
    ck_assert(status == SPOT_LP_FOUND || status == SPOT_LP_FAILED);
    spot_lp_free(lp);
}
END_TEST

int main(void)
{
    return run_suite("lp", add_tests(tcase_create("lp")));
}
