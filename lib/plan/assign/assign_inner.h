/* SPDX-License-Identifier: MIT */
/* assign_inner.h - what the files behind assign.h share: the problem turned so that it minimises
 * and has no more rows than columns, and a matching of it with its prices. */
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

/* 128-bit shortest augmenting paths: right for every input, and the one that finds the violator.
 * False if there is no full matching; *answer then has it. */
bool spot_assign_wide(const struct spot_turned *t, struct spot_matching *matching,
                      struct spot_assignment *answer);

/* Rows and columns that are equal throughout. */
struct spot_classes {
    int n_row_class, n_col_class;
    int *row_class, *col_class; /* [n], [m] */
    int *row_first, *col_first; /* the first line of each class */
    bool *tight;                /* [n_row_class * n_col_class] reduced cost 0 */
};

/* Solve by classes where there are few and the sums fit 64 bits: true, with a matching whose prices
 * were verified. False: this method does not apply; try another. Release the classes either way. */
bool spot_assign_classes(const struct spot_turned *t, struct spot_matching *matching,
                         struct spot_classes *classes);
void spot_classes_release(struct spot_classes *classes);

/* Move to the canonical one of the optimal matchings, prices unchanged; see assign.h. With
 * `classes` (or NULL) tight pairs are known by class. */
void spot_assign_settle(const struct spot_turned *t, struct spot_matching *matching,
                        const struct spot_classes *classes);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_INNER_H */
