/* SPDX-License-Identifier: MIT */
/* assign_inner.h - shared by the files behind assign.h: the problem in minimising form with no more
 * rows than columns, and a matching with its prices. */
#ifndef SPOT_PLAN_ASSIGN_ASSIGN_INNER_H
#define SPOT_PLAN_ASSIGN_ASSIGN_INNER_H

#include <stddef.h>

#include "plan/assign.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_turned {
    const struct spot_assign_problem *problem;
    int n, m; /* n <= m */
    bool is_turned;
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

    *cost = p->is_max ? -(spot_int128)p->cost[at] : p->cost[at];
    return p->cost[at] != SPOT_ASSIGN_FORBIDDEN;
}

/* 128-bit shortest augmenting paths: works for every input, and finds the violator. False if there
 * is no full matching; *answer then has the violator. */
bool spot_assign_wide(const struct spot_turned *t, struct spot_matching *matching,
                      struct spot_assignment *answer);

/* Groups of identical rows and of identical columns. */
struct spot_classes {
    int n_row_class, n_col_class;
    int *row_class, *col_class; /* [n], [m] */
    int *row_first, *col_first; /* the first line of each class */
    bool *tight;                /* [n_row_class * n_col_class] reduced cost 0 */
};

/* Solve by classes if there are few and the sums fit in 64 bits: true, with a matching whose prices
 * were verified. False: not applicable; use another method. Release the classes either way. */
bool spot_assign_classes(const struct spot_turned *t, struct spot_matching *matching,
                         struct spot_classes *classes);
void spot_classes_release(struct spot_classes *classes);

/* Change to the canonical optimal matching with unchanged prices; see assign.h. With `classes` (or
 * NULL) tight pairs are given by class. */
void spot_assign_settle(const struct spot_turned *t, struct spot_matching *matching,
                        const struct spot_classes *classes);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_INNER_H */
