/* SPDX-License-Identifier: MIT */
/* Pages found by their tokens.
 *
 * An indexed page is identified by the indexed page before it and its own tokens, that is by all
 * tokens up to its end, which are compared and not only hashed. The page before must therefore
 * exist as long as this one. It does: a sequence that holds a page holds all before it, and drops
 * the last one first, so kept pages are evicted before those that precede them. The predecessor of
 * a first page is the number of its adapter, so adapters do not share pages.
 */
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "engine/infer_state.h"

void spot_infer_begin_index(struct spot_infer *f)
{
    f->note = spot_xcalloc((size_t)f->config.n_page, sizeof(*f->note));
    for (f->n_bucket = 1; f->n_bucket < f->config.n_page; f->n_bucket *= 2)
        ;
    f->bucket = spot_xcalloc((size_t)f->n_bucket, sizeof(*f->bucket));
    f->oldest = f->newest = -1;
}

static int *bucket_of(const struct spot_infer *f, int before, const uint32_t *token)
{
    uint32_t key[SPOT_INFER_PAGE + 1] = { (uint32_t)before };

    memcpy(key + 1, token, SPOT_INFER_PAGE * sizeof(*token));
    return &f->bucket[spot_hash64(key, sizeof(key)) & (uint64_t)(f->n_bucket - 1)];
}

/* -1: none. */
static int find_page(const struct spot_infer *f, int before, const uint32_t *token)
{
    int page = *bucket_of(f, before, token) - 1;

    while (page >= 0 && (f->note[page].before != before ||
                         memcmp(f->note[page].token, token, sizeof(f->note->token)) != 0))
        page = f->note[page].next;
    return page;
}

static void add_to_index(struct spot_infer *f, int page, int before)
{
    struct spot_infer_note *const note = &f->note[page];
    int *const bucket = bucket_of(f, before, note->token);

    note->before = before;
    note->is_known = true;
    note->next = *bucket - 1;
    *bucket = page + 1;
}

static void remove_from_index(struct spot_infer *f, int page)
{
    struct spot_infer_note *const note = &f->note[page];
    int *const bucket = bucket_of(f, note->before, note->token);
    int at = *bucket - 1;

    note->is_known = false;
    if (at == page) {
        *bucket = note->next + 1;
        return;
    }
    while (f->note[at].next != page)
        at = f->note[at].next;
    f->note[at].next = note->next;
}

/* --- pages without a holder ------------------------------------------------- */

void spot_infer_keep(struct spot_infer *f, int page)
{
    struct spot_infer_note *const note = &f->note[page];

    note->older = f->newest;
    note->newer = -1;
    *(f->newest < 0 ? &f->oldest : &f->note[f->newest].newer) = page;
    f->newest = page;
    if (++f->n_kept > f->config.n_kept)
        spot_infer_evict(f);
}

void spot_infer_unkeep(struct spot_infer *f, int page)
{
    const struct spot_infer_note *const note = &f->note[page];

    *(note->older < 0 ? &f->oldest : &f->note[note->older].newer) = note->newer;
    *(note->newer < 0 ? &f->newest : &f->note[note->newer].older) = note->older;
    f->n_kept--;
}

void spot_infer_evict(struct spot_infer *f)
{
    const int page = f->oldest;

    spot_infer_unkeep(f, page);
    remove_from_index(f, page);
    f->free_page[f->n_free++] = page;
}

int spot_infer_kept(const struct spot_infer *f)
{
    return f->n_kept;
}

void spot_infer_forget(struct spot_infer *f)
{
    while (f->n_kept)
        spot_infer_evict(f);
}

/* The page that precedes the next page to index, as part of its identity. */
static int before_next(const struct spot_infer_sequence *s)
{
    return s->n_known ? s->page[s->n_known - 1] : -1 - s->adapter;
}

/* --- pages that are computed --------------------------------------------------- */

void spot_infer_note(struct spot_infer *f, int sequence, int64_t first, const uint32_t *token,
                     int64_t n_token)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];

    if (!token || s->n_told != first)
        return; /* a page can be indexed only after the one before it */
    for (int64_t i = 0; i < n_token; i++) {
        const int64_t at = first + i;

        f->note[s->page[at / SPOT_INFER_PAGE]].token[at % SPOT_INFER_PAGE] = token[i];
    }
    s->n_told = first + n_token;
}

/* If another sequence has already computed an equal page, that one is used: equal tokens give equal
 * bits.
 */
void spot_infer_know(struct spot_infer *f, int sequence)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];
    const int n_full = (int)(s->n_told / SPOT_INFER_PAGE);

    for (; s->n_known < n_full; s->n_known++) {
        const int page = s->page[s->n_known], before = before_next(s);
        const int same = find_page(f, before, f->note[page].token);

        if (same < 0) {
            add_to_index(f, page, before);
            continue;
        }
        spot_infer_hold_page(f, same);
        spot_infer_drop_page(f, page);
        s->page[s->n_known] = same;
    }
}

void spot_infer_tell(struct spot_infer *f, int sequence, const uint32_t *token)
{
    spot_infer_note(f, sequence, 0, token, f->sequence[sequence].length);
    spot_infer_know(f, sequence);
}

/* --- pages that are found ------------------------------------------------------ */

/* True if all pages of the sequence are full and indexed, so that indexed pages can extend it. */
static bool can_continue(const struct spot_infer_sequence *s)
{
    return s->is_open && s->length == (int64_t)s->n_known * SPOT_INFER_PAGE;
}

int64_t spot_infer_find(const struct spot_infer *f, int sequence, const uint32_t *token,
                        int64_t n_token, int64_t n_page)
{
    const struct spot_infer_sequence *const s = &f->sequence[sequence];
    int64_t n = s->length;
    int before = before_next(s);

    if (!can_continue(s))
        return n;
    while (n + SPOT_INFER_PAGE <= n_token) {
        const bool is_copied = n + SPOT_INFER_PAGE == n_token; /* the last token must be computed */
        const int page = find_page(f, before, token + n);

        if (page < 0)
            break;
        n_page -= is_copied + !f->n_holder[page]; /* held until it is copied */
        if (n_page < 0)
            break;
        n += SPOT_INFER_PAGE - is_copied;
        before = page;
    }
    return n;
}

int spot_infer_reuse(struct spot_infer *f, int sequence, const uint32_t *token, int64_t n,
                     struct spot_err *err)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];

    while (can_continue(s) && s->length < n) {
        const int page = find_page(f, before_next(s), token + s->length);
        const bool is_whole = s->length + SPOT_INFER_PAGE <= n;

        if (page < 0)
            break;
        spot_infer_hold_page(f, page);
        s->page[s->n_page++] = page;
        s->n_known++;
        s->length += SPOT_INFER_PAGE;
        s->n_told = s->length;
        if (!is_whole)
            spot_infer_rewind(f, sequence, n);
    }
    return s->length == n
               ? 0
               : spot_err_set(err, SPOT_EDATA, "%lld tokens of a sequence are here, not %lld",
                              (long long)s->length, (long long)n);
}
