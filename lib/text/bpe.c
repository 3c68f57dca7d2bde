/* SPDX-License-Identifier: MIT */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "text/bpe_state.h"

#define NONE UINT32_MAX

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

uint32_t spot_bpe_by_bytes(const struct spot_bpe *bpe, const void *bytes, size_t n)
{
    return bpe->by_bytes[bucket(bpe, bytes, n)];
}

void spot_bpe_append(struct spot_tokens *out, uint32_t id)
{
    out->id = spot_xgrow(out->id, &out->cap, out->n + 1, sizeof(*out->id));
    out->id[out->n++] = id;
}

static bool is_enough(const struct spot_tokens *out)
{
    return out->most && out->n > out->most;
}

/* --- a piece ------------------------------------------------------------------ */

static void encode_piece(struct spot_bpe *bpe, const char *text, size_t n, struct spot_tokens *out)
{
    const size_t begin = out->n;
    struct spot_bpe_cached *seen = NULL;

    if (n <= SPOT_BPE_CACHED_BYTE) {
        seen = &bpe->cache[spot_hash64(text, n) % SPOT_BPE_CACHE];
        if (seen->n_byte == n && !memcmp(seen->text, text, n)) {
            for (size_t i = 0; i < seen->n_id; i++)
                spot_bpe_append(out, seen->id[i]);
            return;
        }
    }
    if (bpe->has_scores)
        spot_bpe_best_piece(bpe, text, n, out);
    else if (bpe->ignores_merges && spot_bpe_by_bytes(bpe, text, n) != NONE)
        spot_bpe_append(out, spot_bpe_by_bytes(bpe, text, n));
    else
        spot_bpe_merge_piece(bpe, text, n, out);
    if (!seen || !out->id || out->n - begin > SPOT_BPE_CACHED_ID)
        return;
    seen->n_byte = (uint8_t)n;
    seen->n_id = (uint8_t)(out->n - begin);
    memcpy(seen->text, text, n);
    memcpy(seen->id, out->id + begin, (out->n - begin) * sizeof(*out->id));
}

/* --- spaces as U+2581 ----------------------------------------------------------- */

static const char mark[] = "\xE2\x96\x81"; /* U+2581 */

/* Encodes a text as one piece, spaces written as U+2581, with the prefix. */
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

/* The same, but U+2581 in the text is encoded as its bytes, so that it does not become a space. */
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
            spot_bpe_append(out, bpe->byte_id[(unsigned char)mark[i]]);
        has_prefix = false;
        text = at += 3;
    }
    if (has_prefix || end > text)
        encode_spaced(bpe, text, (size_t)(end - text), has_prefix, out);
}

bool spot_bpe_drops_space(const struct spot_bpe *bpe)
{
    return bpe->drops == SPOT_BPE_DROPS_SPACE || (bpe->is_marked && bpe->prefix != SPOT_BPE_BARE);
}

/* True if the prefix U+2581 must be inserted before text[n], n > 0. */
static bool needs_prefix(const struct spot_bpe *bpe, const char *text, size_t n)
{
    if (bpe->is_inside || bpe->prefix == SPOT_BPE_EACH)
        return !bpe->is_inside;
    if (text[0] == ' ')
        return bpe->is_exact && spot_bpe_drops_space(bpe);
    return bpe->prefix != SPOT_BPE_BARE && (n < 3 || memcmp(text, mark, 3) != 0);
}

/* Where a text that is too long for one piece is cut: before its last word, or last character. */
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

/* --- steps -------------------------------------------------------------------------- */

/* True for a step that only applies at the start of a text, or of a part, if that has passed. */
static bool is_over(const struct spot_bpe *bpe, const struct spot_text_step *step, bool is_piece)
{
    return (step->is_first && bpe->is_inside) ||
           (step->type <= SPOT_STEP_SPACE && bpe->in_part && !is_piece);
}

/* Encodes text[n], or its complete pieces; returns the number of bytes encoded. */
static size_t encode_steps(struct spot_bpe *bpe, size_t i, bool is_piece, const char *text,
                           size_t n, bool is_end, struct spot_tokens *out)
{
    const struct spot_text_steps *const s = &bpe->steps;
    const size_t whole = n;
    size_t at = 0;

    for (; i < s->n && s->step[i].type != SPOT_STEP_SPLIT; i++)
        if (!is_over(bpe, &s->step[i], is_piece))
            text = spot_text_step_apply(&s->step[i], text, &n, &bpe->changed[i]);
    if (i == s->n && n)
        encode_piece(bpe, text, n, out);
    if (i == s->n)
        return whole;
    while (at < n && !is_enough(out)) {
        const size_t known = n - at < SPOT_BPE_PIECE_MAX ? n - at : SPOT_BPE_PIECE_MAX;
        bool is_out;
        const size_t length =
            spot_text_step_cut(&s->step[i], text + at, known, is_end || known < n - at, &is_out);

        if (!length)
            break;
        if (!is_out)
            (void)encode_steps(bpe, i + 1, true, text + at, length, true, out);
        bpe->is_inside = true;
        at += length;
    }
    return is_end ? whole : at;
}

/* Where to cut a long text that steps change: before a space that ends a word, since no token of a
 * public tokenizer spans that place. */
static size_t block_of(const char *text, size_t n, bool is_end)
{
    if (n <= SPOT_BPE_PIECE_MAX)
        return is_end ? n : 0;
    for (size_t i = SPOT_BPE_PIECE_MAX; i-- > 1;)
        if (text[i] == ' ' && (unsigned char)text[i - 1] > ' ')
            return i;
    return cut_of(text, SPOT_BPE_PIECE_MAX);
}

static size_t encode_blocks(struct spot_bpe *bpe, size_t step, const char *text, size_t n,
                            bool is_end, struct spot_tokens *out)
{
    const bool cuts_first = step < bpe->steps.n && bpe->steps.step[step].type == SPOT_STEP_SPLIT;
    size_t at = 0, length;

    if (cuts_first)
        return encode_steps(bpe, step, false, text, n, is_end, out);
    while (at < n && !is_enough(out) && (length = block_of(text + at, n - at, is_end))) {
        (void)encode_steps(bpe, step, false, text + at, length, true, out);
        bpe->is_inside = bpe->in_part = true;
        at += length;
    }
    return at;
}

void spot_bpe_encode_part(struct spot_bpe *bpe, size_t step, const char *text, size_t n,
                          struct spot_tokens *out)
{
    if (bpe->is_marked)
        (void)encode_whole(bpe, text, n, true, out);
    else
        (void)encode_blocks(bpe, step, text, n, true, out);
    bpe->in_part = false;
}

size_t spot_bpe_encode_nameless(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                                struct spot_tokens *out)
{
    const size_t used = bpe->is_marked ? encode_whole(bpe, text, n, is_end, out)
                                       : encode_blocks(bpe, 0, text, n, is_end, out);

    bpe->is_inside = !is_end && (bpe->is_inside || used);
    bpe->in_part = !is_end && (bpe->in_part || used);
    return used;
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
    bpe->is_inside = bpe->in_part = continues;
    bpe->ends_word = bpe->is_behind = false;
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
    bpe->is_exact = bpe->is_inside = bpe->in_part = bpe->ends_word = bpe->is_behind = false;
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
    bpe->normal_names = spot_names_new();
    for (int i = 0; i < 2; i++)
        bpe->plain_names[i] = spot_names_new();
    for (size_t i = 0; i < bpe->n_added; i++)
        spot_bpe_add_name(bpe, (uint32_t)i);
    for (size_t i = bpe->n_added; i-- > 0;)
        if (bpe->added[i].id < bpe->vocab)
            bpe->token[bpe->added[i].id].is_special = bpe->added[i].is_special;
    spot_names_index(bpe->names);
    for (int i = 0; i < 2; i++)
        spot_names_index(bpe->plain_names[i]);
    spot_names_index(bpe->normal_names);
    bpe->has_all_bytes = true;
    for (int byte = 0; byte < 256; byte++)
        bpe->has_all_bytes = bpe->has_all_bytes && bpe->byte_id[byte] != NONE;
    for (size_t id = 0; id < bpe->vocab; id++)
        if (bpe->token[id].n_byte > bpe->n_byte_max)
            bpe->n_byte_max = bpe->token[id].n_byte;
}

size_t spot_bpe_least_tokens(const struct spot_bpe *bpe, size_t n_byte)
{
    bool keeps = bpe->has_all_bytes && bpe->n_byte_max;

    /* writing spaces as U+2581 only adds bytes; other steps may shorten a text */
    for (size_t i = 0; i < bpe->steps.n; i++)
        keeps = keeps && bpe->steps.step[i].type != SPOT_STEP_NFC &&
                bpe->steps.step[i].type != SPOT_STEP_REPLACE &&
                bpe->steps.step[i].split != SPOT_SPLIT_REMOVED;
    return keeps ? n_byte / bpe->n_byte_max : 0;
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
    b->is_inside = b->in_part = b->ends_word = b->is_behind = false;
    b->spaced = (struct spot_buf){ 0 };
    memset(b->changed, 0, sizeof(b->changed));
    b->cache = spot_xcalloc(SPOT_BPE_CACHE, sizeof(*b->cache));
    b->symbol = NULL;
    b->heap = NULL;
    b->best = NULL;
    b->best_cap = b->symbol_cap = b->heap_cap = b->n_heap = 0;
    return b;
}

static void free_vocabulary(struct spot_bpe *bpe)
{
    for (size_t i = 0; i < bpe->n_added; i++)
        free(bpe->added[i].name);
    free(bpe->added);
    spot_names_free(bpe->names);
    for (int i = 0; i < 2; i++)
        spot_names_free(bpe->plain_names[i]);
    spot_names_free(bpe->normal_names);
    spot_text_steps_release(&bpe->steps);
    free(bpe->score);
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
    for (size_t i = 0; i <= SPOT_TEXT_STEPS_MAX; i++)
        spot_buf_release(&bpe->changed[i]);
    free(bpe->best);
    free(bpe->cache);
    free(bpe->symbol);
    free(bpe->heap);
    free(bpe);
}
