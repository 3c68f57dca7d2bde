/* SPDX-License-Identifier: MIT */
/* Sequences and their pages. */
#include <assert.h>
#include <string.h>

#include "engine/infer_state.h"

int spot_infer_open(struct spot_infer *f, struct spot_err *err)
{
    for (int i = 0; i < f->config.n_sequence; i++)
        if (!f->sequence[i].is_open) {
            f->sequence[i].is_open = true;
            f->sequence[i].length = 0;
            return i;
        }
    return spot_err_set(err, SPOT_EINFEASIBLE, "all %d sequences are used", f->config.n_sequence);
}

static int take_page(struct spot_infer *f)
{
    const int page = f->free_page[--f->n_free];

    f->n_holder[page] = 1;
    return page;
}

static void drop_page(struct spot_infer *f, int page)
{
    if (!--f->n_holder[page])
        f->free_page[f->n_free++] = page;
}

void spot_infer_close(struct spot_infer *f, int sequence)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];

    while (s->n_page)
        drop_page(f, s->page[--s->n_page]);
    s->is_open = false;
}

int64_t spot_infer_length(const struct spot_infer *f, int sequence)
{
    return f->sequence[sequence].length;
}

int spot_infer_free_pages(const struct spot_infer *f)
{
    return f->n_free;
}

int spot_infer_reserve(struct spot_infer *f, int sequence, int64_t n_token, struct spot_err *err)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];
    const int n_page = (int)((n_token + SPOT_INFER_PAGE - 1) / SPOT_INFER_PAGE);

    if (n_token < 0 || n_token > f->shape.seq)
        return spot_err_set(err, SPOT_EDATA, "a sequence has at most %lld tokens, not %lld",
                            (long long)f->shape.seq, (long long)n_token);
    if (n_page - s->n_page > f->n_free)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%d pages are needed, %d are free",
                            n_page - s->n_page, f->n_free);
    while (s->n_page < n_page)
        s->page[s->n_page++] = take_page(f);
    while (s->n_page > n_page)
        drop_page(f, s->page[--s->n_page]);
    s->length = n_token;
    return 0;
}

/* --- pages that several sequences have ------------------------------------------- */

/* All layers and shards of a page lie side by side. */
static void copy_page(const struct spot_infer *f, int to, int from)
{
    if (f->on) {
        f->on->copy_page(f, to, from);
        return;
    }
    memcpy(spot_infer_page(f, to, 0, 0), spot_infer_page(f, from, 0, 0),
           (size_t)f->n_layer * (size_t)f->n_shard * spot_infer_page_byte(f));
}

int spot_infer_share(struct spot_infer *f, int from, int to, int64_t n_token, struct spot_err *err)
{
    const struct spot_infer_sequence *const a = &f->sequence[from];
    struct spot_infer_sequence *const b = &f->sequence[to];
    const int n_full = (int)(n_token / SPOT_INFER_PAGE);

    if (!a->is_open || !b->is_open || b->n_page || n_token < 0 || n_token > a->length)
        return spot_err_set(err, SPOT_EDATA,
                            "%lld tokens of a sequence of %lld for one that has %lld",
                            (long long)n_token, (long long)a->length, (long long)b->length);
    if (n_token % SPOT_INFER_PAGE && !f->n_free)
        return spot_err_set(err, SPOT_EINFEASIBLE, "1 page is needed, 0 are free");
    for (; b->n_page < n_full; b->n_page++) {
        b->page[b->n_page] = a->page[b->n_page];
        f->n_holder[b->page[b->n_page]]++;
    }
    if (n_token % SPOT_INFER_PAGE) {
        b->page[b->n_page++] = take_page(f);
        copy_page(f, b->page[n_full], a->page[n_full]);
    }
    b->length = n_token;
    return 0;
}

int spot_infer_shared(const struct spot_infer *f, int sequence, int64_t page)
{
    const struct spot_infer_sequence *const s = &f->sequence[sequence];
    int n = 0;

    for (; page < s->n_page; page++)
        n += f->n_holder[s->page[page]] > 1;
    return n;
}

void spot_infer_unshare(struct spot_infer *f, int sequence, int64_t page)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];

    for (; page < s->n_page; page++) {
        const int shared = s->page[page];

        if (f->n_holder[shared] == 1)
            continue;
        s->page[page] = take_page(f);
        copy_page(f, s->page[page], shared);
        drop_page(f, shared);
    }
}

float *spot_infer_page(const struct spot_infer *f, int page, int layer, int shard)
{
    return f->pool + (((size_t)page * (size_t)f->n_layer + (size_t)layer) * (size_t)f->n_shard +
                      (size_t)shard) *
                         f->page_elem;
}

size_t spot_infer_page_byte(const struct spot_infer *f)
{
    return f->page_elem * sizeof(float);
}

/* Where a page of a sequence is in the pool, and its layer and shard among the own ones; they are
 * counted in the model. */
struct place {
    int page, layer, shard;
};

static struct place place_of(const struct spot_infer *f, int sequence, int64_t page, int layer,
                             int shard)
{
    const int first = f->config.bundle_begin ? f->config.bundle_begin - 1 : 0;

    assert(page >= 0 && page < f->sequence[sequence].n_page);
    assert(layer >= first && layer < first + f->n_layer);
    assert(shard >= f->config.shard_begin && shard < f->config.shard_end);
    return (struct place){ f->sequence[sequence].page[page], layer - first,
                           shard - f->config.shard_begin };
}

void spot_infer_export(const struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       void *byte)
{
    const struct place at = place_of(f, sequence, page, layer, shard);

    if (f->on)
        f->on->read_page(f, at.page, at.layer, at.shard, byte);
    else
        memcpy(byte, spot_infer_page(f, at.page, at.layer, at.shard), spot_infer_page_byte(f));
}

void spot_infer_import(struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       const void *byte)
{
    const struct place at = place_of(f, sequence, page, layer, shard);

    assert(f->n_holder[at.page] == 1);
    if (f->on)
        f->on->write_page(f, at.page, at.layer, at.shard, byte);
    else
        memcpy(spot_infer_page(f, at.page, at.layer, at.shard), byte, spot_infer_page_byte(f));
}

void spot_infer_import_end(struct spot_infer *f)
{
    if (f->on)
        f->on->wait(f);
}
