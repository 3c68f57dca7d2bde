/* SPDX-License-Identifier: MIT */
/* The tokens of a piece by merging pairs. */
#include <stdlib.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/bpe_state.h"

/* A run of bytes of the piece that is one token so far. */
struct spot_bpe_symbol {
    uint32_t id;
    uint32_t prev, next; /* NONE at the ends; id is NONE once merged into the left neighbour */
};

#define NONE UINT32_MAX

struct spot_bpe_merge *spot_bpe_place(const struct spot_bpe *bpe, uint32_t left, uint32_t right)
{
    const uint64_t key = spot_bpe_pair_key(left, right);
    size_t at = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & bpe->merge_mask;

    while (bpe->merge[at].pair != UINT64_MAX && bpe->merge[at].pair != key)
        at = (at + 1) & bpe->merge_mask;
    return &bpe->merge[at];
}

/* --- the pairs, lowest rank first, leftmost of equal ones -------------------- */

/* A heap of rank << 32 | place. An entry whose pair has another rank now is stale. The heap is
 * 4-ary, which halves cache misses for long pieces. */
enum { BELOW = 4 };

static void push(struct spot_bpe *bpe, uint64_t pair)
{
    size_t i = bpe->n_heap++;

    bpe->heap = spot_xgrow(bpe->heap, &bpe->heap_cap, bpe->n_heap, sizeof(*bpe->heap));
    for (; i > 0 && pair < bpe->heap[(i - 1) / BELOW]; i = (i - 1) / BELOW)
        bpe->heap[i] = bpe->heap[(i - 1) / BELOW];
    bpe->heap[i] = pair;
}

static uint64_t pop(struct spot_bpe *bpe)
{
    const uint64_t top = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
    size_t i = 0, child;

    for (; (child = BELOW * i + 1) < bpe->n_heap; i = child) {
        const size_t end = child + BELOW < bpe->n_heap ? child + BELOW : bpe->n_heap;

        for (size_t k = child + 1; k < end; k++)
            child = bpe->heap[k] < bpe->heap[child] ? k : child;
        if (bpe->heap[child] >= last)
            break;
        bpe->heap[i] = bpe->heap[child];
    }
    bpe->heap[i] = last;
    return top;
}

/* The merge of the pair that begins at a symbol; NULL: none. */
static const struct spot_bpe_merge *merge_at(const struct spot_bpe *bpe, uint32_t at)
{
    const struct spot_bpe_symbol *const s = bpe->symbol;
    const uint32_t next = at == NONE ? NONE : s[at].next;
    const struct spot_bpe_merge *const merge =
        next == NONE ? NULL : spot_bpe_place(bpe, s[at].id, s[next].id);

    return merge && merge->pair != UINT64_MAX ? merge : NULL;
}

static void push_pair_at(struct spot_bpe *bpe, uint32_t at)
{
    const struct spot_bpe_merge *const merge = merge_at(bpe, at);

    if (merge)
        push(bpe, (uint64_t)merge->rank << 32 | at);
}

/* --- a piece ------------------------------------------------------------------ */

static void add_symbol(struct spot_bpe *bpe, uint32_t *n, uint32_t id)
{
    bpe->symbol = spot_xgrow(bpe->symbol, &bpe->symbol_cap, *n + 1, sizeof(*bpe->symbol));
    bpe->symbol[*n] = (struct spot_bpe_symbol){ id, *n ? *n - 1 : NONE, NONE };
    if (*n)
        bpe->symbol[*n - 1].next = *n;
    ++*n;
}

/* Adds a character without a token: as its bytes, as the unknown token, or not at all. */
static void add_unknown(struct spot_bpe *bpe, uint32_t *n, const char *text, size_t length)
{
    bool has_bytes = true;

    for (size_t i = 0; i < length; i++)
        has_bytes = has_bytes && bpe->byte_id[(unsigned char)text[i]] != NONE;
    for (size_t i = 0; has_bytes && i < length; i++)
        add_symbol(bpe, n, bpe->byte_id[(unsigned char)text[i]]);
    bpe->has_lost = bpe->has_lost || (!has_bytes && bpe->unknown == NONE);
    if (has_bytes || bpe->unknown == NONE)
        return;
    if (!*n || !bpe->fuses_unknown || bpe->symbol[*n - 1].id != bpe->unknown)
        add_symbol(bpe, n, bpe->unknown);
}

static uint32_t add_symbols(struct spot_bpe *bpe, const char *text, size_t n)
{
    uint32_t n_symbol = 0;

    if (bpe->is_bytes) {
        for (size_t i = 0; i < n; i++)
            add_symbol(bpe, &n_symbol, bpe->byte_id[(unsigned char)text[i]]);
        return n_symbol;
    }
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t code, id;

        length = spot_utf8_char(text + at, n - at, &code);
        id = spot_bpe_by_bytes(bpe, text + at, length);
        if (id != NONE && code != UINT32_MAX)
            add_symbol(bpe, &n_symbol, id);
        else
            add_unknown(bpe, &n_symbol, text + at, length);
    }
    return n_symbol;
}

/* Returns the number of symbols: 0 for text without tokens. */
static uint32_t merge_piece(struct spot_bpe *bpe, const char *text, size_t length)
{
    const uint32_t n = add_symbols(bpe, text, length);
    struct spot_bpe_symbol *const s = bpe->symbol;

    bpe->n_heap = 0;
    for (uint32_t i = 0; i < n; i++)
        push_pair_at(bpe, i);
    while (bpe->n_heap) {
        const uint64_t pair = pop(bpe);
        const uint32_t at = (uint32_t)pair;
        const struct spot_bpe_merge *const merge = s[at].id == NONE ? NULL : merge_at(bpe, at);
        uint32_t next;

        if (!merge || merge->rank != pair >> 32)
            continue;
        next = s[at].next;
        s[at].id = merge->id;
        s[at].next = s[next].next;
        if (s[next].next != NONE)
            s[s[next].next].prev = at;
        s[next].id = NONE;
        push_pair_at(bpe, s[at].prev);
        push_pair_at(bpe, at);
    }
    return n;
}

void spot_bpe_merge_piece(struct spot_bpe *bpe, const char *text, size_t n, struct spot_tokens *out)
{
    for (uint32_t i = merge_piece(bpe, text, n) ? 0 : NONE; i != NONE; i = bpe->symbol[i].next)
        spot_bpe_append(out, bpe->symbol[i].id);
}
