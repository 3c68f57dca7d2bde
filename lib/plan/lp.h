/* SPDX-License-Identifier: MIT */
/* lp.h - linear programs, with whole variables or without: the one door to lp_solve.
 *
 * Minimise cost * x under rows of sums and under bounds; every variable is at least 0 unless said
 * otherwise. The problem is kept here, so that an answer is checked in our own arithmetic:
 * whatever the solver says, what is not feasible to within 1e-6 of its terms is no answer.
 */
#ifndef SPOT_PLAN_LP_H
#define SPOT_PLAN_LP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_lp_sense { SPOT_LP_AT_MOST, SPOT_LP_AT_LEAST, SPOT_LP_EQUAL };

enum spot_lp_status {
    SPOT_LP_OPTIMAL,
    SPOT_LP_FOUND, /* a limit was hit with an answer in hand, or within the gap that was asked for
                    */
    SPOT_LP_INFEASIBLE,
    SPOT_LP_UNBOUNDED,
    SPOT_LP_FAILED, /* a limit was hit without, or numbers got out of hand */
};

struct spot_lp;

/* n_column variables of cost 0, continuous, in [0, INFINITY]. Never NULL. */
struct spot_lp *spot_lp_new(size_t n_column);
void spot_lp_free(struct spot_lp *lp);

void spot_lp_cost(struct spot_lp *lp, size_t column, double cost);
void spot_lp_range(struct spot_lp *lp, size_t column, double lower, double upper);
void spot_lp_whole(struct spot_lp *lp, size_t column);

/* sum of value[k] * x[column[k]], k < n, against `right`; columns differ. Returns the row. */
size_t spot_lp_row(struct spot_lp *lp, const size_t *column, const double *value, size_t n,
                   enum spot_lp_sense sense, double right);
void spot_lp_right(struct spot_lp *lp, size_t row, double right);

/* Solve. limit_s: of processor time, 0: as long as it takes; gap: as a share of the objective, 0:
 * to the end. May be called again after changes. */
enum spot_lp_status spot_lp_solve(struct spot_lp *lp, double limit_s, double gap);

/* Of the last answer: */
double spot_lp_objective(const struct spot_lp *lp); /* cost * x, summed here */
const double *spot_lp_x(const struct spot_lp *lp);  /* [n_column]; whole ones are whole numbers */
/* [rows], of a problem without whole variables: what one more on the right of a row adds to the
 * objective. */
const double *spot_lp_dual(const struct spot_lp *lp);

/* The largest violation of a row or a bound by x, as a share of 1 + the row's terms. */
double spot_lp_violation(const struct spot_lp *lp, const double *x);

/* A bound that `dual` proves, whatever made it: no x of the relaxed problem costs less. -INFINITY
 * where it proves nothing (a reduced cost below 0 on a variable without upper bound). */
double spot_lp_proven(const struct spot_lp *lp, const double *dual);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_LP_H */
