/* SPDX-License-Identifier: MIT */
/* lp.h - linear programs, with integer variables or without: the only user of lp_solve.
 *
 * Minimise cost * x subject to rows of sums and bounds; variables are >= 0 by default. The problem
 * is kept here, so that an answer is checked in our own arithmetic: an answer of the solver that is
 * not feasible to within 1e-6 of its terms is rejected.
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
    SPOT_LP_FOUND, /* a limit was reached with an answer, or the requested gap was met */
    SPOT_LP_INFEASIBLE,
    SPOT_LP_UNBOUNDED,
    SPOT_LP_FAILED, /* a limit was reached without an answer, or numerical failure */
};

struct spot_lp;

/* n_column variables of cost 0, continuous, in [0, INFINITY]. Never NULL. */
struct spot_lp *spot_lp_new(size_t n_column);
void spot_lp_free(struct spot_lp *lp);

void spot_lp_cost(struct spot_lp *lp, size_t column, double cost);
void spot_lp_range(struct spot_lp *lp, size_t column, double lower, double upper);
void spot_lp_whole(struct spot_lp *lp, size_t column);

/* Row: the sum of value[k] * x[column[k]], k < n, compared with `right`; columns differ. Returns
 * its index. */
size_t spot_lp_row(struct spot_lp *lp, const size_t *column, const double *value, size_t n,
                   enum spot_lp_sense sense, double right);
void spot_lp_right(struct spot_lp *lp, size_t row, double right);

/* Solve. limit_s: of processor time, 0: no limit; gap: as a share of the objective, 0: to
 * optimality. May be called again after changes. */
enum spot_lp_status spot_lp_solve(struct spot_lp *lp, double limit_s, double gap);

/* For the last answer: */
double spot_lp_objective(const struct spot_lp *lp); /* cost * x, computed here */
const double *
spot_lp_x(const struct spot_lp *lp); /* [n_column]; integer variables have integer values */
/* [rows], of a problem without integer variables: change of the objective per unit of a row's right
 * side. */
const double *spot_lp_dual(const struct spot_lp *lp);

/* The largest violation of a row or a bound by x, as a share of 1 + the row's terms. */
double spot_lp_violation(const struct spot_lp *lp, const double *x);

/* A lower bound that `dual` proves, whatever its origin: no x of the relaxed problem costs less.
 * -INFINITY if it proves nothing (a reduced cost below 0 on a variable without upper bound). */
double spot_lp_proven(const struct spot_lp *lp, const double *dual);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_LP_H */
