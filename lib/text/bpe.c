/* SPDX-License-Identifier: MIT */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "text/bpe_state.h"
#include "text/pretoken.h"

/* A run of bytes of the piece that is one token by now. */
struct spot_bpe_symbol {
    uint32_t id;
    uint32_t prev, next; /* NONE at the ends; id NONE once it is merged into its left one */
};

/* Two neighbours that may be merged: stale once either has become another token. */
struct spot_bpe_pair {
    uint32_t rank, at;
    uint32_t left, right, id;
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

static bool is_before(const struct spot_bpe_pair *a, const struct spot_bpe_pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(struct spot_bpe *bpe, struct spot_bpe_pair pair)
{
    size_t i = bpe->n_heap++;

    bpe->heap = spot_xgrow(bpe->heap, &bpe->heap_cap, bpe->n_heap, sizeof(*bpe->heap));
    for (; i > 0 && is_before(&pair, &bpe->heap[(i - 1) / 2]); i = (i - 1) / 2)
        bpe->heap[i] = bpe->heap[(i - 1) / 2];
    bpe->heap[i] = pair;
}

static struct spot_bpe_pair pop(struct spot_bpe *bpe)
{
    const struct spot_bpe_pair top = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
    size_t i = 0, child;

    for (; (child = 2 * i + 1) < bpe->n_heap; i = child) {
        if (child + 1 < bpe->n_heap && is_before(&bpe->heap[child + 1], &bpe->heap[child]))
            child++;
        if (!is_before(&bpe->heap[child], &last))
            break;
        bpe->heap[i] = bpe->heap[child];
    }
    bpe->heap[i] = last;
    return top;
}

static void push_pair_at(struct spot_bpe *bpe, uint32_t at)
{
    const struct spot_bpe_symbol *const s = bpe->symbol;
    const uint32_t next = at == NONE ? NONE : s[at].next;
    const struct spot_bpe_merge *merge;

    if (next == NONE)
        return;
    merge = spot_bpe_place(bpe, s[at].id, s[next].id);
    if (merge->pair != UINT64_MAX)
        push(bpe, (struct spot_bpe_pair){ merge->rank, at, s[at].id, s[next].id, merge->id });
}

/* --- a piece ------------------------------------------------------------------ */

static void merge_piece(struct spot_bpe *bpe, const char *text, uint32_t n)
{
    struct spot_bpe_symbol *s;

    bpe->symbol = spot_xgrow(bpe->symbol, &bpe->symbol_cap, n, sizeof(*bpe->symbol));
    s = bpe->symbol;
    for (uint32_t i = 0; i < n; i++)
        s[i] = (struct spot_bpe_symbol){ bpe->byte_id[(unsigned char)text[i]], i ? i - 1 : NONE,
                                         i + 1 < n ? i + 1 : NONE };
    bpe->n_heap = 0;
    for (uint32_t i = 0; i < n; i++)
        push_pair_at(bpe, i);
    while (bpe->n_heap) {
        const struct spot_bpe_pair p = pop(bpe);
        const uint32_t next = s[p.at].id == p.left ? s[p.at].next : NONE;

        if (next == NONE || s[next].id != p.right)
            continue;
        s[p.at].id = p.id;
        s[p.at].next = s[next].next;
        if (s[next].next != NONE)
            s[s[next].next].prev = p.at;
        s[next].id = NONE;
        push_pair_at(bpe, s[p.at].prev);
        push_pair_at(bpe, p.at);
    }
}

static void append(struct spot_tokens *out, uint32_t id)
{
    out->id = spot_xgrow(out->id, &out->cap, out->n + 1, sizeof(*out->id));
    out->id[out->n++] = id;
}

static void encode_piece(struct spot_bpe *bpe, const char *text, size_t n, struct spot_tokens *out)
{
    const size_t begin = out->n;
    struct spot_bpe_cached *seen = NULL;

    if (n <= SPOT_BPE_CACHED_BYTE) {
        seen = &bpe->cache[spot_hash64(text, n) % SPOT_BPE_CACHE];
        if (seen->n_byte == n && !memcmp(seen->text, text, n)) {
            for (size_t i = 0; i < seen->n_id; i++)
                append(out, seen->id[i]);
            return;
        }
    }
    merge_piece(bpe, text, (uint32_t)n);
    for (uint32_t i = 0; i != NONE; i = bpe->symbol[i].next)
        append(out, bpe->symbol[i].id);
    if (!seen || out->n - begin > SPOT_BPE_CACHED_ID)
        return;
    seen->n_byte = (uint8_t)n;
    seen->n_id = (uint8_t)(out->n - begin);
    memcpy(seen->text, text, n);
    memcpy(seen->id, out->id + begin, (out->n - begin) * sizeof(*out->id));
}

size_t spot_bpe_encode(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                       struct spot_tokens *out)
{
    size_t at = 0;

    while (at < n) {
        const size_t known = n - at < SPOT_BPE_PIECE_MAX ? n - at : SPOT_BPE_PIECE_MAX;
        const size_t length = spot_pretoken(text + at, known);

        if (!is_end && known < SPOT_BPE_PIECE_MAX && known < length + SPOT_PRETOKEN_LOOK)
            break;
        encode_piece(bpe, text + at, length, out);
        at += length;
    }
    return at;
}

int spot_bpe_stream(struct spot_bpe *bpe, FILE *in, const char *source, spot_bpe_take take,
                    void *user, struct spot_err *err)
{
    enum { CHUNK = 1 << 18 };
    struct spot_tokens tokens = { 0 };
    struct spot_buf text = { 0 };
    size_t got = 1, used;
    int rc = 0;

    while (!rc && got) {
        got = fread(spot_buf_more(&text, CHUNK), 1, CHUNK, in);
        if (ferror(in)) {
            rc = spot_err_sys(err, "cannot read %s", source);
            break;
        }
        text.n += got;
        tokens.n = 0;
        used = spot_bpe_encode(bpe, (const char *)text.data, text.n, !got, &tokens);
        memmove(text.data, text.data + used, text.n - used);
        text.n -= used;
        if (tokens.n)
            rc = take(user, tokens.id, tokens.n, err);
    }
    free(tokens.id);
    spot_buf_release(&text);
    return rc;
}

/* --- the vocabulary ------------------------------------------------------------- */

int64_t spot_bpe_vocab(const struct spot_bpe *bpe)
{
    return (int64_t)bpe->vocab;
}

const uint8_t *spot_bpe_token(const struct spot_bpe *bpe, uint32_t id, size_t *n_byte)
{
    if (id >= bpe->vocab || !bpe->token[id].is_there)
        return NULL;
    *n_byte = bpe->token[id].n_byte;
    return bpe->text.data + bpe->token[id].begin;
}

int64_t spot_bpe_find(const struct spot_bpe *bpe, const char *text)
{
    for (size_t id = 0; id < bpe->vocab; id++)
        if (bpe->token[id].is_there && bpe->token[id].n_byte == strlen(text) &&
            !memcmp(bpe->text.data + bpe->token[id].begin, text, strlen(text)))
            return (int64_t)id;
    return -1;
}

void spot_bpe_free(struct spot_bpe *bpe)
{
    if (!bpe)
        return;
    free(bpe->token);
    spot_buf_release(&bpe->text);
    free(bpe->merge);
    free(bpe->cache);
    free(bpe->symbol);
    free(bpe->heap);
    free(bpe);
}
