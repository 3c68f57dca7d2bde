/* SPDX-License-Identifier: MIT */
#include "host/state_pack.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct numbered {
    struct spot_state_piece piece;
    size_t i;
};

static int by_hash(const void *a, const void *b)
{
    const struct numbered *const x = a, *const y = b;
    const int order = memcmp(&x->piece.hash, &y->piece.hash, sizeof(x->piece.hash));

    return order ? order : (x->i > y->i) - (x->i < y->i);
}

static int by_number(const void *a, const void *b)
{
    const struct numbered *const x = a, *const y = b;

    return (x->i > y->i) - (x->i < y->i);
}

void spot_state_chunks_unite(struct spot_state_chunks *c)
{
    struct numbered *const all = spot_xcalloc(c->n + 1, sizeof(*all));
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        all[i] = (struct numbered){ c->piece[i], i };
    qsort(all, c->n, sizeof(*all), by_hash);
    for (size_t i = 0; i < c->n; i++)
        if (!n || !spot_hash128_equal(all[i].piece.hash, all[n - 1].piece.hash))
            all[n++] = all[i];
    qsort(all, n, sizeof(*all), by_number);
    for (size_t i = 0; i < n; i++)
        c->piece[i] = all[i].piece;
    c->n = n;
    free(all);
}

void spot_state_chunks_add(struct spot_state_chunks *c, const struct spot_state_record *record)
{
    size_t n;
    struct spot_state_piece *const piece = spot_state_record_pieces(record, &n);

    c->piece = spot_xrealloc(c->piece, c->n + n + 1, sizeof(*c->piece));
    if (n)
        memcpy(c->piece + c->n, piece, n * sizeof(*piece));
    c->n += n;
    free(piece);
}

size_t spot_state_pack_end(const struct spot_state_chunks *c, size_t pack_byte, size_t first,
                           size_t *n_byte)
{
    size_t i = first;

    for (*n_byte = 0; i < c->n && *n_byte < pack_byte; i++)
        *n_byte += c->piece[i].n_byte;
    return i;
}
