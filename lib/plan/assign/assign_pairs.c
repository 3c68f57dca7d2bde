/* SPDX-License-Identifier: MIT */
#include "plan/assign/assign_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

uint64_t *spot_pairs_takers(const struct spot_pairs *s, int col)
{
    return s->takers + (size_t)col * s->n_word;
}

void spot_pairs_init(struct spot_pairs *s, int n, int m)
{
    int *mem = spot_xcalloc(4 * (size_t)n + (size_t)m, sizeof *mem);

    *s = (struct spot_pairs){ .n = n, .m = m, .col_of = mem };
    s->n_word = ((size_t)n + 63) / 64;
    s->m_word = ((size_t)m + 63) / 64;
    s->takers = spot_xcalloc(((size_t)m + 2) * s->n_word, sizeof *s->takers);
    s->open = spot_pairs_takers(s, m);
    s->seen = s->open + s->n_word;
    s->wishes = spot_xcalloc((size_t)n * s->m_word, sizeof *s->wishes);
    s->queue = s->col_of + n;
    s->giver = s->queue + n;
    s->given = s->giver + n;
    s->holder = s->given + n;
    for (int i = 0; i < n; i++)
        s->col_of[i] = -1, spot_bit_put(s->open, i);
    for (int j = 0; j < m; j++)
        s->holder[j] = -1;
}

void spot_pairs_release(struct spot_pairs *s)
{
    free(s->col_of), free(s->takers), free(s->wishes);
}

void spot_pairs_give(struct spot_pairs *s, int giver, int col)
{
    const uint64_t *takers = spot_pairs_takers(s, col);

    for (size_t w = 0; w < s->n_word; w++)
        for (uint64_t new = takers[w] & s->open[w] & ~s->seen[w]; new; new &= new - 1) {
            const int x = (int)w * 64 + __builtin_ctzll(new);

            spot_bit_put(s->seen, x);
            s->giver[x] = giver;
            s->given[x] = col;
            s->queue[s->n_queue++] = x;
        }
}

bool spot_pairs_augment(struct spot_pairs *s, int col)
{
    int x = -1;

    s->n_queue = s->n_walked = 0;
    spot_pairs_give(s, -1, col);
    while (s->n_walked < s->n_queue && s->col_of[x = s->queue[s->n_walked]] >= 0) {
        spot_pairs_give(s, x, s->col_of[x]);
        s->n_walked++;
    }
    if (s->n_walked == s->n_queue)
        return false;
    for (int k = 0; k < s->n_queue; k++)
        spot_bit_drop(s->seen, s->queue[k]);
    while (x >= 0) {
        s->col_of[x] = s->given[x];
        s->holder[s->given[x]] = x;
        x = s->giver[x];
    }
    return true;
}
