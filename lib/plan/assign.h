/* SPDX-License-Identifier: MIT */
/* assign.h - the linear assignment problem, solved exactly in integers, with a certificate.
 *
 * Choose pairs (row, column), each row and column at most once, as many as the shorter side has
 * lines, of minimum (or maximum) total cost. Every answer carries dual prices u, v that prove it:
 * when minimising, u[i] + v[j] <= cost[i][j] on allowed pairs with equality on the chosen ones, 0
 * on unmatched lines, <= 0 on the whole longer side, and sum(u) + sum(v) = cost. When maximising
 * all signs are reversed. The certificate is verified before the answer is returned.
 *
 * Of several optima the one returned keeps the most rows i on column `stay[i]` (the identity by
 * default) and among these is lexicographically smallest, row by row, unmatched last.
 *
 * Potentials are kept in 64 bits where that is provably sufficient and in 128 bits otherwise.
 * Method: Jonker and Volgenant 1987 (column reduction, reduction transfer, augmenting row
 * reduction, shortest augmenting paths) on lists of each row's cheapest columns. A square of 64
 * rows and more with few different costs at equal steps takes a byte for each, and matchings of all
 * pairs of reduced cost 0.
 */
#ifndef SPOT_PLAN_ASSIGN_H
#define SPOT_PLAN_ASSIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/narrow.h"

#ifdef __cplusplus
extern "C" {
#endif

__extension__ typedef __int128 spot_int128;

enum { SPOT_ASSIGN_SIDE_MAX = 16384 };

/* A pair that may not be chosen. Every other int64_t is a cost. */
#define SPOT_ASSIGN_FORBIDDEN INT64_MIN

struct spot_assign_problem {
    int n_row, n_col;    /* 0..SPOT_ASSIGN_SIDE_MAX */
    const int64_t *cost; /* [n_row * n_col], row-major; NULL: narrow, of a square to minimise */
    bool is_max;         /* maximise */
    const int *stay;     /* [n_row], the column that leaves row i in place, -1 for none; each
                            column at most once; NULL: column i */
    const struct spot_narrow *narrow;
};

struct spot_assignment {
    bool is_feasible;
    spot_int128 cost;
    int *col_of_row;    /* [n_row], -1 unmatched */
    spot_int128 *u, *v; /* [n_row], [n_col] */
    /* When infeasible, why (Hall): lines of the shorter side that together have too few partners on
     * the other side; both sides are listed, ascending. */
    int *bad_row, *bad_col;
    int n_bad_row, n_bad_col;
};

/* Returns 0, with is_feasible false if no full matching exists; or -1 with *err (SPOT_EDATA) if a
 * side is larger than the limit. Release with spot_assignment_release. */
int spot_assign(const struct spot_assign_problem *problem, struct spot_assignment *answer,
                struct spot_err *err);
void spot_assignment_release(struct spot_assignment *answer);

/* The same with another objective: minimise the largest single cost (or maximise the smallest),
 * then the sum. *largest: that cost, 0 if no pair is chosen. `answer` is proved as above for the
 * pairs up to *largest; `proof` is infeasible: its bad rows and columns show that the pairs below
 * *largest have no full matching. Release both. */
int spot_assign_bottleneck(const struct spot_assign_problem *problem, int64_t *largest,
                           struct spot_assignment *answer, struct spot_assignment *proof,
                           struct spot_err *err);

/* *largest alone: the cost that the best full matching of the shorter side cannot avoid, 0 if there
 * is no pair. False if there is no such matching. */
bool spot_assign_threshold(const struct spot_assign_problem *problem, int64_t *largest);

/* True if the certificate is valid. O(rows * columns), independent of how the answer was found. */
bool spot_assign_verify(const struct spot_assign_problem *problem,
                        const struct spot_assignment *answer);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_H */
