/* SPDX-License-Identifier: MIT */
/* assign_inner.h - shared by the files behind assign.h: the problem in minimising form with no more
 * rows than columns, and a matching with its prices.
 *
 * Costs are multiplied by `scale`, above the number of rows, and a pair that leaves a line in place
 * costs 1 less: of several optima the least one keeps most in place.
 */
#ifndef SPOT_PLAN_ASSIGN_ASSIGN_INNER_H
#define SPOT_PLAN_ASSIGN_ASSIGN_INNER_H

#include <stddef.h>

#include "plan/assign.h"
#include "plan/assign/assign_pairs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_turned {
    const struct spot_assign_problem *problem;
    int n, m; /* n <= m */
    bool is_turned;
    int scale;
    const int *stay; /* [n] column that keeps the row in place, -1: none */
};

struct spot_matching {
    int *col_of, *row_of; /* [n], [m], -1 unmatched */
    spot_int128 *u, *v;   /* [n], [m] */
};

/* False if the pair is forbidden. */
static inline bool spot_turned_cost(const struct spot_turned *t, int i, int j, spot_int128 *cost)
{
    const struct spot_assign_problem *p = t->problem;
    const size_t at = t->is_turned ? (size_t)j * (size_t)p->n_col + (size_t)i
                                   : (size_t)i * (size_t)p->n_col + (size_t)j;
    const spot_int128 c = p->is_max ? -(spot_int128)p->cost[at] : p->cost[at];

    *cost = c * t->scale - (t->stay[i] == j);
    return p->cost[at] != SPOT_ASSIGN_FORBIDDEN;
}

/* 64 bits, Jonker and Volgenant 1987, on lists of near columns. Returns false if there is no full
 * matching, or if a sum could leave the safe range. */
bool spot_assign_dense(const struct spot_turned *t, struct spot_matching *matching);

/* 128-bit shortest augmenting paths: works for every input, and finds the violator. False if there
 * is no full matching; *answer then has the violator. */
bool spot_assign_wide(const struct spot_turned *t, struct spot_matching *matching,
                      struct spot_assignment *answer);

/* Square, the costs given by `narrow`, whose unit the prices have; settled. Returns false if there
 * is no full matching, or if it took too many steps. */
bool spot_assign_tied(const struct spot_turned *t, const struct spot_narrow *narrow,
                      struct spot_matching *matching);

/* Change to the lexicographically smallest of the full matchings of these pairs, of which one is
 * chosen. The last row and column are the dummies. Needs takers and wishes. */
void spot_assign_order(struct spot_pairs *pairs);

/* Change to the lexicographically smallest of the optimal matchings, with unchanged prices. */
void spot_assign_settle(const struct spot_turned *t, struct spot_matching *matching);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_INNER_H */
