/* SPDX-License-Identifier: MIT */
/* assign_tight.h - the graph of tight pairs used by assign_settle.c, and searches in it.
 *
 * The optimal matchings are the full matchings of the tight pairs (reduced cost 0) that cover every
 * column whose price is not 0. An extra holder, "nobody", owns the unmatched columns and may own
 * any column of price 0, so that each of them is a perfect matching of holders and columns. Holders
 * can exchange columns exactly along a cycle of "g gives a column that x can take".
 */
#ifndef SPOT_PLAN_ASSIGN_ASSIGN_TIGHT_H
#define SPOT_PLAN_ASSIGN_ASSIGN_TIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/assign/assign_inner.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_tight {
    const struct spot_turned *t;
    int n, m, nobody;                 /* holders 0..n, columns 0..m-1; nobody = n */
    size_t n_word, m_word;            /* of a set of holders, of columns */
    uint64_t *takes;                  /* [(n + 1) * m_word] columns that a holder can take */
    uint64_t *takers;                 /* [m * n_word] holders that can take a column */
    int *holder;                      /* [m] */
    int *col_of;                      /* [n + 1]; of nobody: unused */
    int *contested, n_contested;      /* columns of price 0 that some row can take */
    uint64_t *open_holder, *open_col; /* searches visit only these */
    uint64_t *seen;                   /* [n_word] holders visited by the last search */
    uint64_t *unasked;                /* [m_word] columns whose holder it has not visited */
    int *queue, *via, *via_col;       /* [n + 1] of the search */
};

static inline bool spot_bit(const uint64_t *set, int k)
{
    return set[k / 64] >> (k % 64) & 1;
}
static inline void spot_bit_put(uint64_t *set, int k)
{
    set[k / 64] |= UINT64_C(1) << (k % 64);
}
static inline void spot_bit_drop(uint64_t *set, int k)
{
    set[k / 64] &= ~(UINT64_C(1) << (k % 64));
}

static inline uint64_t *spot_takes_of(const struct spot_tight *g, int r)
{
    return g->takes + (size_t)r * g->m_word;
}
static inline uint64_t *spot_takers_of(const struct spot_tight *g, int j)
{
    return g->takers + (size_t)j * g->n_word;
}

static inline void spot_own(struct spot_tight *g, int holder, int col)
{
    g->holder[col] = holder;
    if (holder != g->nobody)
        g->col_of[holder] = col;
}

/* `classes` may be NULL. All holders and columns are open. */
void spot_tight_init(struct spot_tight *g, const struct spot_turned *t,
                     const struct spot_matching *matching, const struct spot_classes *classes);
void spot_tight_release(struct spot_tight *g);

/* Which holders can be reached by a column that `root` gives up? Searches until `goal` is
 * visited and returns whether it was; with -1 it visits all. via_col[x] is what x would take
 * from via[x]. */
bool spot_tight_gifts(struct spot_tight *g, int root, int goal);

/* Which holders can give up a column such that `root` eventually receives one? As above, but
 * via_col[x] is what x would give to via[x]. */
bool spot_tight_wishes(struct spot_tight *g, int root, int goal);

/* Strongly connected components of the holders: a holder can take another's column only if both are
 * in the same component. Pairs across components are dropped. Component k is holder[begin[k]] ..
 * holder[begin[k + 1]]. Returns the number of components. */
int spot_tight_split(struct spot_tight *g, int *holder /* [n + 1] */, int *begin /* [n + 2] */);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_TIGHT_H */
