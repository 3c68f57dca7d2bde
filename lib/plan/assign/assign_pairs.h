/* SPDX-License-Identifier: MIT */
/* assign_pairs.h - matchings of pairs that are given as bit sets, for the files behind assign.h. */
#ifndef SPOT_PLAN_ASSIGN_ASSIGN_PAIRS_H
#define SPOT_PLAN_ASSIGN_ASSIGN_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_pairs {
    int n, m;              /* rows, columns */
    size_t n_word, m_word; /* words of a set of rows, of columns */
    uint64_t *takers;      /* [m][n_word] rows that may have the column */
    uint64_t *wishes;      /* [n][m_word] the same by rows, for those who ask */
    uint64_t *open, *seen; /* [n_word] rows that a search may enter, and those it did */
    int *col_of, *holder;  /* [n], [m] the matching, -1 for none */
    /* The rows seen, in order, and by whom and as taker of which column. */
    int *queue, *giver, *given, n_queue, n_walked;
};

static inline bool spot_bit_has(const uint64_t *set, int k)
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

/* No pairs, none chosen, all rows open. */
void spot_pairs_init(struct spot_pairs *s, int n, int m);
void spot_pairs_release(struct spot_pairs *s);
uint64_t *spot_pairs_takers(const struct spot_pairs *s, int col);

/* Queue the open rows that may have the column and have not been seen. */
void spot_pairs_give(struct spot_pairs *s, int giver, int col);

/* Let column `col`, which has no row, have one, by exchanges along a shortest walk to a row that is
 * free. If it cannot, the rows seen stay so: they can have no other columns than those that they
 * have and `col`, and no later walk gains from them. */
bool spot_pairs_augment(struct spot_pairs *s, int col);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_PAIRS_H */
