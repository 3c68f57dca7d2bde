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

void spot_infer_close(struct spot_infer *f, int sequence)
{
    struct spot_infer_sequence *const s = &f->sequence[sequence];

    while (s->n_page)
        f->free_page[f->n_free++] = s->page[--s->n_page];
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
        return spot_err_set(err, SPOT_EINFEASIBLE, "%d pages lack, %d are free", n_page - s->n_page,
                            f->n_free);
    while (s->n_page < n_page)
        s->page[s->n_page++] = f->free_page[--f->n_free];
    while (s->n_page > n_page)
        f->free_page[f->n_free++] = s->page[--s->n_page];
    s->length = n_token;
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

/* Layers and shards are counted in the model. */
static float *page_of(const struct spot_infer *f, int sequence, int64_t page, int layer, int shard)
{
    const int first = f->config.bundle_begin ? f->config.bundle_begin - 1 : 0;

    assert(page >= 0 && page < f->sequence[sequence].n_page);
    assert(layer >= first && layer < first + f->n_layer);
    assert(shard >= f->config.shard_begin && shard < f->config.shard_end);
    return spot_infer_page(f, f->sequence[sequence].page[page], layer - first,
                           shard - f->config.shard_begin);
}

void spot_infer_export(const struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       void *byte)
{
    memcpy(byte, page_of(f, sequence, page, layer, shard), spot_infer_page_byte(f));
}

void spot_infer_import(struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       const void *byte)
{
    memcpy(page_of(f, sequence, page, layer, shard), byte, spot_infer_page_byte(f));
}
