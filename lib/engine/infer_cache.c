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
            f->sequence[i].n_summed = 0;
            f->sequence[i].adapter = 0;
            return i;
        }
    return spot_err_set(err, SPOT_EINFEASIBLE, "all %d sequences are used", f->config.n_sequence);
}

void spot_infer_adopt(struct spot_infer *f, int sequence, int adapter)
{
    assert(!f->sequence[sequence].length && adapter >= 0 && adapter <= f->config.n_lora);
    f->sequence[sequence].adapter = adapter;
}

static int take_page(struct spot_infer *f)
{
    int page;

    if (!f->n_free)
        spot_infer_evict(f);
    page = f->free_page[--f->n_free];
    f->n_holder[page] = 1;
    return page;
}

void spot_infer_hold_page(struct spot_infer *f, int page)
{
    if (!f->n_holder[page]++)
        spot_infer_unkeep(f, page);
}

void spot_infer_drop_page(struct spot_infer *f, int page)
{
    if (--f->n_holder[page])
        return;
    if (f->note[page].is_known)
        spot_infer_keep(f, page);
    else
        f->free_page[f->n_free++] = page;
}

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

/* Frees the last page first, so that in the list a kept page comes after those that continue it. */
static void drop_behind(struct spot_infer *f, struct spot_infer_sequence *s, int n_page)
{
    while (s->n_page > n_page)
        spot_infer_drop_page(f, s->page[--s->n_page]);
    if (s->n_known > n_page)
        s->n_known = n_page;
}

void spot_infer_close(struct spot_infer *f, int sequence)
{
    spot_infer_rewind(f, sequence, 0);
    f->sequence[sequence].is_open = false;
}

int64_t spot_infer_length(const struct spot_infer *f, int sequence)
{
    return f->sequence[sequence].length;
}

int spot_infer_free_pages(const struct spot_infer *f)
{
    return f->n_free + f->n_kept;
}

static int page_count(int64_t n_token)
{
    return (int)((n_token + SPOT_INFER_PAGE - 1) / SPOT_INFER_PAGE);
}

/* True if `first` is within an indexed page; only those are shared. */
static bool is_within_known(const struct spot_infer_sequence *s, int64_t first)
{
    return first % SPOT_INFER_PAGE && first / SPOT_INFER_PAGE < s->n_known;
}

int64_t spot_infer_pages_taken(const struct spot_infer *f, int sequence, int64_t first, int64_t end)
{
    const struct spot_infer_sequence *const s = &f->sequence[sequence];
    int64_t n = page_count(end) - page_count(first) + is_within_known(s, first);

    for (int page = page_count(first); page < s->n_page; page++)
        n -= f->n_holder[s->page[page]] == 1;
    return n;
}

void spot_infer_rewind(struct spot_infer *f, int sequence, int64_t first)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];
    const int last = (int)(first / SPOT_INFER_PAGE);

    drop_behind(f, s, page_count(first));
    if (is_within_known(s, first)) {
        const int known = s->page[last];

        s->page[last] = take_page(f);
        copy_page(f, s->page[last], known);
        memcpy(f->note[s->page[last]].token, f->note[known].token, sizeof(f->note->token));
        spot_infer_drop_page(f, known);
        s->n_known = last;
    }
    s->length = first < s->length ? first : s->length;
    s->n_told = first < s->n_told ? first : s->n_told;
}

void spot_infer_grow(struct spot_infer *f, int sequence, int64_t n_token)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];

    while (s->n_page < page_count(n_token))
        s->page[s->n_page++] = take_page(f);
    s->length = n_token;
}

int spot_infer_reserve(struct spot_infer *f, int sequence, int64_t n_token, struct spot_err *err)
{
    const int64_t n = spot_infer_pages_taken(f, sequence, 0, n_token > 0 ? n_token : 0);

    if (n_token < 0 || n_token > f->shape.seq)
        return spot_err_set(err, SPOT_EDATA, "a sequence has at most %lld tokens, not %lld",
                            (long long)f->shape.seq, (long long)n_token);
    if (n > spot_infer_free_pages(f))
        return spot_err_set(err, SPOT_EINFEASIBLE, "%lld pages are needed, %d are free",
                            (long long)n, spot_infer_free_pages(f));
    spot_infer_rewind(f, sequence, 0);
    spot_infer_grow(f, sequence, n_token);
    return 0;
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

/* A page of a sequence in the pool, with its layer and shard counted from this engine's first ones.
 * Callers count them in the model. */
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
