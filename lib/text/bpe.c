/* SPDX-License-Identifier: MIT */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/bpe_state.h"
#include "text/pretoken.h"

/* A run of bytes of the piece that is one token by now. */
struct spot_bpe_symbol {
    uint32_t id;
    uint32_t prev, next; /* NONE at the ends; id NONE once it is merged into its left one */
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

/* A heap of rank << 32 | place. A place whose pair has another rank by now is stale. Each entry has
 * four below it, so that a long piece misses the cache half as often. */
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

static size_t bucket(const struct spot_bpe *bpe, const void *bytes, size_t n)
{
    size_t at = (size_t)spot_hash64(bytes, n) & bpe->by_bytes_mask;

    for (; bpe->by_bytes[at] != NONE; at = (at + 1) & bpe->by_bytes_mask) {
        const struct spot_bpe_token *const t = &bpe->token[bpe->by_bytes[at]];

        if (t->n_byte == n && !memcmp(bpe->text.data + t->begin, bytes, n))
            break;
    }
    return at;
}

/* The token of the vocabulary with these bytes; NONE: there is none. */
static uint32_t id_of(const struct spot_bpe *bpe, const void *bytes, size_t n)
{
    return bpe->by_bytes[bucket(bpe, bytes, n)];
}

/* The symbol of a character that is no token: its bytes, or the unknown one, or nothing. */
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

    if (bpe->kind != SPOT_BPE_LLAMA2) {
        for (size_t i = 0; i < n; i++)
            add_symbol(bpe, &n_symbol, bpe->byte_id[(unsigned char)text[i]]);
        return n_symbol;
    }
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t code, id;

        length = spot_utf8_char(text + at, n - at, &code);
        id = id_of(bpe, text + at, length);
        if (id != NONE && code != UINT32_MAX)
            add_symbol(bpe, &n_symbol, id);
        else
            add_unknown(bpe, &n_symbol, text + at, length);
    }
    return n_symbol;
}

/* Returns how many symbols there were: none of text without a token. */
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

static void append(struct spot_tokens *out, uint32_t id)
{
    out->id = spot_xgrow(out->id, &out->cap, out->n + 1, sizeof(*out->id));
    out->id[out->n++] = id;
}

static bool is_enough(const struct spot_tokens *out)
{
    return out->most && out->n > out->most;
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
    if (bpe->ignores_merges && id_of(bpe, text, n) != NONE)
        append(out, id_of(bpe, text, n));
    else
        for (uint32_t i = merge_piece(bpe, text, n) ? 0 : NONE; i != NONE; i = bpe->symbol[i].next)
            append(out, bpe->symbol[i].id);
    if (!seen || !out->id || out->n - begin > SPOT_BPE_CACHED_ID)
        return;
    seen->n_byte = (uint8_t)n;
    seen->n_id = (uint8_t)(out->n - begin);
    memcpy(seen->text, text, n);
    memcpy(seen->id, out->id + begin, (out->n - begin) * sizeof(*out->id));
}

static const char mark[] = "\xE2\x96\x81"; /* U+2581 */

/* Text of one piece: each space a character of its own, and one before it all. */
static void encode_spaced(struct spot_bpe *bpe, const char *text, size_t n, bool has_prefix,
                          struct spot_tokens *out)
{
    bpe->spaced.n = 0;
    if (has_prefix)
        spot_buf_add(&bpe->spaced, mark, 3);
    while (n) {
        const char *const found = memchr(text, ' ', n);
        const size_t length = found ? (size_t)(found - text) : n;

        spot_buf_add(&bpe->spaced, text, length);
        if (found)
            spot_buf_add(&bpe->spaced, mark, 3);
        text += length + (found != NULL);
        n -= length + (found != NULL);
    }
    encode_piece(bpe, (const char *)bpe->spaced.data, bpe->spaced.n, out);
}

/* The same, where U+2581 must not become a space: it is written as its bytes. */
static void encode_exact(struct spot_bpe *bpe, const char *text, size_t n, bool has_prefix,
                         struct spot_tokens *out)
{
    const char *const end = text + n;

    for (const char *at = text; bpe->has_all_bytes && end - at >= 3;) {
        at = memchr(at, (unsigned char)mark[0], (size_t)(end - at) - 2);
        if (!at)
            break;
        if (memcmp(at, mark, 3) != 0) {
            at++;
            continue;
        }
        if (has_prefix || at > text)
            encode_spaced(bpe, text, (size_t)(at - text), has_prefix, out);
        for (int i = 0; i < 3; i++)
            append(out, bpe->byte_id[(unsigned char)mark[i]]);
        has_prefix = false;
        text = at += 3;
    }
    if (has_prefix || end > text)
        encode_spaced(bpe, text, (size_t)(end - text), has_prefix, out);
}

bool spot_bpe_drops_space(const struct spot_bpe *bpe)
{
    return bpe->kind == SPOT_BPE_LLAMA2 && (bpe->strips || bpe->prefix != SPOT_BPE_BARE);
}

/* Before text[n], n > 0. */
static bool needs_prefix(const struct spot_bpe *bpe, const char *text, size_t n)
{
    if (bpe->is_inside || bpe->prefix == SPOT_BPE_EACH)
        return !bpe->is_inside;
    if (text[0] == ' ')
        return bpe->is_exact && spot_bpe_drops_space(bpe);
    return bpe->prefix != SPOT_BPE_BARE && (n < 3 || memcmp(text, mark, 3) != 0);
}

/* Where a text too long for one piece is cut: before its last word, or its last character. */
static size_t cut_of(const char *text, size_t n)
{
    for (size_t i = n; i-- > 1;)
        if (text[i] == ' ' && text[i - 1] != ' ')
            return i;
    while (n > 1 && ((unsigned char)text[n - 1] & 0xC0) == 0x80)
        n--;
    return n > 1 ? n - 1 : n;
}

static size_t encode_whole(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                           struct spot_tokens *out)
{
    size_t at = 0;

    while (at < n && !is_enough(out)) {
        const bool is_last = n - at <= SPOT_BPE_PIECE_MAX;
        const size_t length = is_last ? n - at : cut_of(text + at, SPOT_BPE_PIECE_MAX);
        const bool has_prefix = needs_prefix(bpe, text, n);

        if (is_last && !is_end)
            break;
        (bpe->is_exact ? encode_exact : encode_spaced)(bpe, text + at, length, has_prefix, out);
        bpe->is_inside = true;
        at += length;
    }
    return at;
}

static size_t encode_pieces(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                            struct spot_tokens *out)
{
    size_t at = 0;

    while (at < n && !is_enough(out)) {
        const size_t known = n - at < SPOT_BPE_PIECE_MAX ? n - at : SPOT_BPE_PIECE_MAX;
        size_t reach, length;

        if (bpe->kind == SPOT_BPE_LLAMA3)
            length = spot_pretoken_llama3(text + at, known, &reach);
        else
            length = reach = spot_pretoken(text + at, known);
        if (!is_end && known < SPOT_BPE_PIECE_MAX && known < reach + SPOT_PRETOKEN_LOOK)
            break;
        encode_piece(bpe, text + at, length, out);
        at += length;
    }
    return at;
}

size_t spot_bpe_encode(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                       struct spot_tokens *out)
{
    const size_t used =
        (bpe->kind == SPOT_BPE_LLAMA2 ? encode_whole : encode_pieces)(bpe, text, n, is_end, out);

    bpe->is_inside = !is_end && (bpe->is_inside || used);
    return used;
}

/* The longest added token whose name is here; NULL: none. */
static const struct spot_bpe_added *added_at(const struct spot_bpe *bpe, const char *text, size_t n)
{
    uint32_t i;

    return spot_names_longest(bpe->names, text, n, &i) ? &bpe->added[i] : NULL;
}

void spot_bpe_encode_named(struct spot_bpe *bpe, const char *text, size_t n,
                           struct spot_tokens *out)
{
    size_t begin = 0;

    for (size_t at = 0; at <= n; at++) {
        const struct spot_bpe_added *const added = at < n ? added_at(bpe, text + at, n - at) : NULL;

        if (!added && at < n)
            continue;
        /* what is first in the text only is not so behind a token */
        bpe->is_inside = begin > 0 && bpe->prefix == SPOT_BPE_FIRST;
        spot_bpe_encode(bpe, text + begin, at - begin, true, out);
        if (!added)
            break;
        append(out, added->id);
        begin = at + strlen(added->name);
        at = begin - 1;
        if (is_enough(out))
            break;
    }
    bpe->is_inside = false;
}

int spot_bpe_stream(struct spot_bpe *bpe, FILE *in, const char *source, bool continues,
                    spot_bpe_take take, void *user, struct spot_err *err)
{
    enum { CHUNK = 1 << 18 };
    struct spot_tokens tokens = { 0 };
    struct spot_buf text = { 0 };
    size_t got = 1, used;
    int rc = 0;

    bpe->is_exact = true;
    bpe->has_lost = false;
    bpe->is_inside = continues;
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
        if (bpe->has_lost)
            rc = spot_err_set(err, SPOT_EDATA,
                              "%s: a character has no token, nor its bytes, and there is no "
                              "unknown token",
                              source);
        else if (tokens.n)
            rc = take(user, tokens.id, tokens.n, err);
    }
    bpe->is_exact = bpe->is_inside = false;
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

bool spot_bpe_is_unknown(const struct spot_bpe *bpe, uint32_t id)
{
    return id == bpe->unknown && !bpe->has_all_bytes;
}

bool spot_bpe_is_special(const struct spot_bpe *bpe, uint32_t id)
{
    return id < bpe->vocab && bpe->token[id].is_special;
}

void spot_bpe_index(struct spot_bpe *bpe)
{
    size_t size = 16;

    while (size < 2 * bpe->vocab)
        size *= 2;
    bpe->by_bytes_mask = size - 1;
    bpe->by_bytes = spot_xcalloc(size, sizeof(*bpe->by_bytes));
    memset(bpe->by_bytes, 0xFF, size * sizeof(*bpe->by_bytes));
    for (uint32_t id = 0; id < bpe->vocab; id++)
        if (bpe->token[id].is_there)
            bpe->by_bytes[bucket(bpe, bpe->text.data + bpe->token[id].begin,
                                 bpe->token[id].n_byte)] = id;
}

void spot_bpe_index_added(struct spot_bpe *bpe)
{
    bpe->names = spot_names_new();
    for (size_t i = 0; i < bpe->n_added; i++)
        spot_names_add(bpe->names, bpe->added[i].name, (uint32_t)i);
    for (size_t i = bpe->n_added; i-- > 0;)
        if (bpe->added[i].id < bpe->vocab)
            bpe->token[bpe->added[i].id].is_special = bpe->added[i].is_special;
    spot_names_index(bpe->names);
    bpe->has_all_bytes = true;
    for (int byte = 0; byte < 256; byte++)
        bpe->has_all_bytes = bpe->has_all_bytes && bpe->byte_id[byte] != NONE;
    for (size_t id = 0; id < bpe->vocab; id++)
        if (bpe->token[id].n_byte > bpe->n_byte_max)
            bpe->n_byte_max = bpe->token[id].n_byte;
}

size_t spot_bpe_least_tokens(const struct spot_bpe *bpe, size_t n_byte)
{
    return bpe->has_all_bytes && bpe->n_byte_max ? n_byte / bpe->n_byte_max : 0;
}

int64_t spot_bpe_find(const struct spot_bpe *bpe, const char *text)
{
    for (size_t id = 0; id < bpe->vocab; id++)
        if (bpe->token[id].is_there && bpe->token[id].n_byte == strlen(text) &&
            !memcmp(bpe->text.data + bpe->token[id].begin, text, strlen(text)))
            return (int64_t)id;
    return -1;
}

struct spot_bpe *spot_bpe_share(const struct spot_bpe *bpe)
{
    struct spot_bpe *const b = spot_xcalloc(1, sizeof(*b));

    *b = *bpe;
    b->is_shared = true;
    b->is_inside = false;
    b->spaced = (struct spot_buf){ 0 };
    b->cache = spot_xcalloc(SPOT_BPE_CACHE, sizeof(*b->cache));
    b->symbol = NULL;
    b->heap = NULL;
    b->symbol_cap = b->heap_cap = b->n_heap = 0;
    return b;
}

static void free_vocabulary(struct spot_bpe *bpe)
{
    for (size_t i = 0; i < bpe->n_added; i++)
        free(bpe->added[i].name);
    free(bpe->added);
    spot_names_free(bpe->names);
    free(bpe->by_bytes);
    free(bpe->token);
    spot_buf_release(&bpe->text);
    free(bpe->merge);
}

void spot_bpe_free(struct spot_bpe *bpe)
{
    if (!bpe)
        return;
    if (!bpe->is_shared)
        free_vocabulary(bpe);
    spot_buf_release(&bpe->spaced);
    free(bpe->cache);
    free(bpe->symbol);
    free(bpe->heap);
    free(bpe);
}
