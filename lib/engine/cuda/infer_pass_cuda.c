/* SPDX-License-Identifier: MIT */
/* A run of the serving engine on a device: the passes of engine/cpu/infer_pass.c, one kernel after
 * the other on one stream. */
#include <string.h>

#include "engine/cuda/infer_cuda.h"
#include "engine/tree.h"

struct pass {
    struct spot_cuda_infer *d;
    const struct spot_infer *f;
    int64_t n, n_row; /* tokens and rows of logits, with those of padding */
    size_t n_meta;
    bool has_choices; /* tokens are chosen on the device */
    int bundle, layer;
    int64_t most; /* largest position */
    /* offsets in meta, on the device */
    const uint32_t *token;
    const int32_t *position, *item, *row, *tile, *page;
    const int32_t *tile_host;
    int64_t n_tile;
};

/* --- sizes --- */

int64_t spot_cuda_infer_chunk(int64_t n_in, int64_t n_out)
{
    enum { ROOM_ELEM = 16 << 20, TILE = 8, TILES = 64 };
    const int64_t one = (int64_t)spot_cuda_skinny_elem(1, n_in, n_out), n = ROOM_ELEM / one;
    const int64_t whole = n < TILES ? TILE : TILES; /* tokens that a kernel processes together */

    return n > whole ? n / whole * whole : whole;
}

int64_t spot_cuda_infer_page_stride(const struct spot_infer *f)
{
    return f->shape.seq / SPOT_INFER_PAGE + 1;
}

size_t spot_cuda_infer_meta_elem(const struct spot_infer *f)
{
    return 4 * (size_t)f->config.token_max + 1 + (size_t)f->config.logit_max +
           (size_t)f->config.n_sequence * (size_t)spot_cuda_infer_page_stride(f);
}

size_t spot_cuda_infer_host_elem(const struct spot_infer *f)
{
    const struct spot_shape *const s = &f->shape;
    const size_t hidden = (size_t)f->config.token_max * (size_t)s->width;
    const size_t logits = (size_t)f->config.logit_max * (size_t)f->n_shard *
                          (size_t)(spot_shape_vocab_rows(s) / s->n_shard);

    return hidden > logits ? hidden : logits;
}

/* --- the description of a run --- */

/* Tokens of padding begin sequences of their own in the page behind the others, which is written by
 * all of them and is read by them alone. */
static void tell_tokens(struct pass *p, int32_t *to)
{
    const struct spot_infer *const f = p->f;
    const size_t n = (size_t)p->n;

    for (size_t t = 0; t < n; t++) {
        const bool is_there = t < (size_t)f->n_token;
        const struct spot_infer_item *const item = is_there ? &f->item[f->token_item[t]] : NULL;
        const int64_t position = is_there ? f->token_position[t] : 0;

        to[t] =
            f->config.bundle_begin || !is_there ? 0 : (int32_t)item->token[position - item->first];
        to[n + t] = (int32_t)position;
        to[2 * n + t] = is_there ? f->token_item[t] : (int32_t)t;
        p->most = position > p->most ? position : p->most;
    }
}

static void tell_pages(const struct pass *p, int32_t *page)
{
    const struct spot_infer *const f = p->f;
    const size_t stride = (size_t)spot_cuda_infer_page_stride(f);

    for (int i = 0; i < f->n_item; i++) {
        const struct spot_infer_sequence *const s = &f->sequence[f->item[i].sequence];

        for (int k = 0; k < s->n_page; k++)
            page[(size_t)i * stride + (size_t)k] = s->page[k];
    }
    for (int64_t i = f->n_token; i < p->n; i++)
        page[(size_t)i * stride] = f->config.n_page;
}

/* Hidden states of the stage before; zeros for padding. */
static void tell_input(const struct pass *p)
{
    const struct spot_infer *const f = p->f;
    const size_t C = (size_t)f->shape.width, n = (size_t)f->n_token;

    memcpy(p->d->host, f->in, n * C * sizeof(float));
    memset(p->d->host + n * C, 0, ((size_t)p->n - n) * C * sizeof(float));
}

/* Describes the run in the host's memory: token [N], position [N], item [N], row [R], tile [N + 1],
 * page [n_item][stride], one after the other. */
static void tell(struct pass *p)
{
    struct spot_cuda_infer *const d = p->d;
    const struct spot_infer *const f = p->f;
    const size_t n = (size_t)p->n, n_row = (size_t)p->n_row;
    const size_t n_item = (size_t)f->n_item + n - (size_t)f->n_token;
    int32_t *const to = d->meta_host, *const row = to + 3 * n, *const tile = row + n_row,
                   *const page = tile + n + 1;

    tell_tokens(p, to);
    for (size_t r = 0; r < n_row; r++)
        row[r] = r < (size_t)f->n_row ? f->row_token[r] : (int32_t)r;
    p->n_tile = spot_cuda_paged_tiles(tile, to + 2 * n, p->n, f->n_head / f->n_kv_head);
    p->tile_host = tile;
    tell_pages(p, page);
    if (f->config.bundle_begin)
        tell_input(p);
    p->n_meta = (size_t)(page - to) + n_item * (size_t)spot_cuda_infer_page_stride(f);
    p->token = (const uint32_t *)d->meta;
    p->position = d->meta + n;
    p->item = d->meta + 2 * n;
    p->row = d->meta + 3 * n;
    p->tile = p->row + n_row;
    p->page = p->tile + n + 1;
}

/* --- products --- */

/* A tensor of this bundle and own shard. */
static const void *own(const struct pass *p, const char *name, int shard)
{
    const struct spot_infer *const f = p->f;
    const int b = p->bundle - f->image_begin, t = spot_arena_find(&f->arena[b], name);

    if (t < 0)
        return NULL;
    shard = f->arena[b].tensor[t].is_sharded ? f->config.shard_begin + shard : 0;
    return p->d->tensor[(b * SPOT_TENSORS_MAX + t) * (int)f->shape.n_shard + shard];
}

static void multiply(const struct pass *p, struct spot_cuda_skinny all, int64_t n)
{
    const int64_t chunk = spot_cuda_infer_chunk(all.n_in, all.n_out);

    all.real = p->d->real;
    all.partial = p->d->partial;
    for (int64_t at = 0; at < n; at += chunk) {
        struct spot_cuda_skinny some = all;

        some.x += at * all.x_stride;
        some.y += at * all.y_stride;
        some.n_token = n - at < chunk ? n - at : chunk;
        spot_cuda_skinny(&some, p->d->stream);
    }
}

/* Outputs are sharded: y [n][S][n_out] from x [n][C]. */
static void by_outputs(const struct pass *p, const char *weight, const char *bias, const float *x,
                       float *y, int64_t n_out, int64_t n)
{
    const int64_t C = p->f->shape.width, S = p->f->n_shard;

    for (int s = 0; s < S; s++)
        multiply(p,
                 (struct spot_cuda_skinny){ .w = own(p, weight, s),
                                            .x = x,
                                            .bias = own(p, bias, s),
                                            .y = y + s * n_out,
                                            .n_in = C,
                                            .n_out = n_out,
                                            .x_stride = C,
                                            .y_stride = S * n_out },
                 n);
}

/* Replaces the sum of the first of n shards by the sum of all, in the order of the tree. */
static void sum_shards(const struct pass *p, float *sum, int n)
{
    const int half = spot_tree_half(n);
    const int64_t n_elem = p->n * p->f->shape.width;
    float *const other = sum + half * n_elem;

    if (n < 2)
        return;
    sum_shards(p, sum, half);
    sum_shards(p, other, n - half);
    spot_cuda_add(SPOT_F32, sum, sum, other, (size_t)n_elem, p->d->stream);
}

/* Level by level up the tree, from device to device: both members add the same two numbers. */
static int join_members(const struct pass *p, size_t n, struct spot_err *err)
{
    const struct spot_infer *const f = p->f;
    const uint32_t M = (uint32_t)(f->shape.n_shard / f->n_shard);

    for (uint32_t bit = 1; bit < M; bit *= 2) {
        if (f->config.swap(f->config.user, bit, p->d->sum, p->d->other, n, p->d->stream, err))
            return -1;
        spot_cuda_add(SPOT_F32, p->d->sum, p->d->sum, p->d->other, n, p->d->stream);
    }
    return 0;
}

/* Exchanges through the host if devices do not reach each other; the caller supplies the
 * transport. */
static int exchange(const struct pass *p, struct spot_err *err)
{
    const struct spot_infer *const f = p->f;
    const size_t n = (size_t)(p->n * f->shape.width);

    if (f->n_shard == f->shape.n_shard)
        return 0;
    if (f->config.swap)
        return join_members(p, n, err);
    spot_device_download(p->d->dev, p->d->host, p->d->sum, n * sizeof(float));
    if (spot_device_status(p->d->dev, err) ||
        f->config.exchange(f->config.user, p->d->host, n, err))
        return -1;
    spot_device_upload(p->d->dev, p->d->sum, p->d->host, n * sizeof(float));
    spot_device_wait(p->d->dev); /* the next exchange reuses the buffer */
    return 0;
}

/* Inputs are sharded: x [N][C] += bias + sum over shards of y [N][S][n_in]. */
static int by_inputs(const struct pass *p, const char *weight, const char *bias, const float *y,
                     int64_t n_in, struct spot_err *err)
{
    const int64_t C = p->f->shape.width, S = p->f->n_shard;

    for (int s = 0; s < S; s++)
        multiply(p,
                 (struct spot_cuda_skinny){ .w = own(p, weight, s),
                                            .x = y + s * n_in,
                                            .y = p->d->sum + s * p->n * C,
                                            .n_in = n_in,
                                            .n_out = C,
                                            .x_stride = S * n_in,
                                            .y_stride = C },
                 p->n);
    sum_shards(p, p->d->sum, (int)S);
    if (exchange(p, err))
        return -1;
    spot_cuda_infer_settle(p->d->x, p->d->sum, own(p, bias, 0), p->n, C, p->d->stream);
    return 0;
}

/* --- a layer --- */

static void norm(const struct pass *p, const float *x, const char *weight, const char *bias,
                 int64_t n)
{
    const struct spot_shape *const s = &p->f->shape;

    spot_cuda_norm(SPOT_F32, NULL, p->d->norm, p->d->stat, x, NULL, own(p, weight, 0),
                   s->kind.norm == SPOT_NORM_RMS ? NULL : own(p, bias, 0),
                   (float)spot_shape_norm_eps(s), n, s->width, p->d->stream);
}

static void attend(const struct pass *p)
{
    const struct spot_infer *const f = p->f;
    const struct spot_cuda_paged paged = { .dim = f->head_dim,
                                           .n_head = f->n_head,
                                           .n_kv_head = f->n_kv_head,
                                           .n_shard = f->n_shard,
                                           .n_layer = f->n_layer,
                                           .layer = p->layer,
                                           .qkv = p->d->qkv,
                                           .att = p->d->att,
                                           .pool = p->d->pool,
                                           .page = p->page,
                                           .item = p->item,
                                           .position = p->position,
                                           .turn = spot_shape_rotary(&f->shape) ? p->d->turn : NULL,
                                           .partial = p->d->paged,
                                           .page_stride = spot_cuda_infer_page_stride(f),
                                           .n_token = p->n,
                                           .seq = f->shape.seq,
                                           .tile = p->tile,
                                           .tile_host = p->tile_host,
                                           .n_tile = p->n_tile };

    spot_cuda_paged_place(&paged, p->d->stream);
    spot_cuda_paged_attend(&paged, p->most, p->d->stream);
}

static int layer(const struct pass *p, struct spot_err *err)
{
    const struct spot_infer *const f = p->f;
    const struct spot_shape *const s = &f->shape;
    const int64_t S = s->n_shard, ffn = spot_shape_ffn(s) / S;
    struct spot_cuda_infer *const d = p->d;

    norm(p, d->x, "ln1.w", "ln1.b", p->n);
    by_outputs(p, "qkv.w", "qkv.b", d->norm, d->qkv, spot_shape_qkv(s) / S, p->n);
    attend(p);
    if (by_inputs(p, "proj.w", "proj.b", d->att, f->n_head * f->head_dim, err))
        return -1;
    norm(p, d->x, "ln2.w", "ln2.b", p->n);
    by_outputs(p, "up.w", "up.b", d->norm, d->pre, spot_shape_pre(s) / S, p->n);
    if (s->kind.is_gated)
        spot_cuda_swiglu(SPOT_F32, d->act, d->pre, p->n, ffn * f->n_shard, f->n_shard, d->stream);
    else
        spot_cuda_gelu(SPOT_F32, d->act, d->pre, (size_t)(p->n * ffn * f->n_shard), d->stream);
    return by_inputs(p, "down.w", "down.b", d->act, ffn, err);
}

/* --- first and last stage --- */

static void enter(const struct pass *p)
{
    const struct spot_infer *const f = p->f;
    const struct spot_shape *const s = &f->shape;
    const int64_t C = s->width;

    spot_device_upload(p->d->dev, p->d->meta, p->d->meta_host, p->n_meta * sizeof(int32_t));
    if (f->config.bundle_begin) {
        spot_device_upload(p->d->dev, p->d->x, p->d->host, (size_t)(p->n * C) * sizeof(float));
        return;
    }
    spot_cuda_infer_embed(p->d->real, p->d->x, p->d->embed, spot_shape_vocab_rows(s) / s->n_shard,
                          own(p, "wpe", 0), p->token, p->position, p->n, C, p->d->stream);
}

static void head(const struct pass *p)
{
    const struct spot_infer *const f = p->f;
    const int64_t C = f->shape.width;
    const int64_t rows = spot_shape_vocab_rows(&f->shape) / f->shape.n_shard;
    struct spot_cuda_infer *const d = p->d;

    for (int64_t at = 0; at < p->n_row; at += p->n) { /* as many rows as the buffer has */
        const int64_t n = p->n_row - at < p->n ? p->n_row - at : p->n;

        spot_cuda_infer_pick(d->sum, d->x, p->row + at, n, C, d->stream);
        norm(p, d->sum, "lnf.w", "lnf.b", n);
        by_outputs(p, "head.w", "head.b", d->norm, d->logit + at * f->n_shard * rows, rows, n);
    }
}

static bool is_last(const struct spot_infer *f)
{
    return f->config.bundle_end == spot_shape_bundles(&f->shape);
}

/* --- results --- */

/* Row i to the host, of the own shards; those of other members stay unchanged. */
static void give_row(const struct spot_infer *f, int64_t i, const float *row, int64_t rows)
{
    const int64_t V = f->shape.vocab;

    for (int64_t s = 0; s < f->n_shard; s++) {
        const int64_t first = (f->config.shard_begin + s) * rows;
        const int64_t n = V - first < rows ? V - first : rows;

        if (n > 0)
            memcpy(f->logit + i * V + first, row + s * rows, (size_t)n * sizeof(float));
    }
}

/* Copies those rows whose tokens were not chosen on the device, neighbours at once. */
static int give_logits(const struct pass *p, struct spot_err *err)
{
    const struct spot_infer *const f = p->f;
    const int64_t rows = spot_shape_vocab_rows(&f->shape) / f->shape.n_shard,
                  row = f->n_shard * rows;
    struct spot_cuda_infer *const d = p->d;
    int64_t end;

    memset(d->is_needed, true, (size_t)f->n_row);
    if (p->has_choices)
        spot_cuda_infer_take_choices(d, d->is_needed);
    for (int64_t i = 0; i < f->n_row; i = end) {
        for (end = i + 1; end < f->n_row && d->is_needed[end] == d->is_needed[i];)
            end++;
        if (d->is_needed[i])
            spot_device_fetch(d->dev, d->host + i * row, d->logit + i * row,
                              (size_t)((end - i) * row) * sizeof(float));
    }
    spot_device_wait(d->dev);
    if (spot_device_status(d->dev, err))
        return -1;
    for (int64_t i = 0; i < f->n_row; i++)
        if (d->is_needed[i])
            give_row(f, i, d->host + i * row, rows);
    return 0;
}

static int leave(const struct pass *p, struct spot_err *err)
{
    const size_t n_byte = (size_t)(p->f->n_token * p->f->shape.width) * sizeof(float);

    spot_device_download(p->d->dev, p->d->host, p->d->x, n_byte);
    if (spot_device_status(p->d->dev, err))
        return -1;
    memcpy(p->f->out, p->d->host, n_byte);
    return 0;
}

/* --- a run --- */

/* Queues all of it, and reads of the host only what `tell` wrote. */
static int compute(void *user, struct spot_err *err)
{
    struct pass p = *(const struct pass *)user;
    const struct spot_infer *const f = p.f;

    p.bundle = f->config.bundle_begin;
    enter(&p);
    p.bundle = f->config.bundle_begin ? f->config.bundle_begin : 1;
    for (; p.bundle < f->config.bundle_end && p.bundle <= (int)f->shape.n_layer;
         p.bundle++, p.layer++)
        if (layer(&p, err))
            return -1;
    if (is_last(f))
        head(&p);
    if (p.has_choices)
        spot_cuda_infer_queue_choices(p.d, p.n_row);
    return 0;
}

/* A token of each sequence, and its logits. */
static bool is_step(const struct spot_infer *f)
{
    return f->n_token == f->n_item && f->n_row == f->n_item;
}

int spot_cuda_infer_pass(struct spot_infer *f, struct spot_err *err)
{
    struct spot_cuda_infer *const d = f->device;
    struct pass p = { .d = d, .f = f, .n = f->n_token, .n_row = f->n_row };
    const bool is_graph = d->has_graphs && is_step(f);

    if (spot_device_status(d->dev, err))
        return -1;
    if (is_graph)
        p.n = p.n_row = spot_cuda_infer_padded(f, p.n);
    tell(&p);
    p.has_choices = spot_cuda_infer_tell_choices(d, p.n_row);
    if (is_graph)
        p.most = spot_cuda_infer_most(f, p.most);
    const struct spot_cuda_step step = { .n = p.n, .most = p.most, .has_choices = p.has_choices };

    if (is_graph ? spot_cuda_infer_step(d, &step, compute, &p, err) : compute(&p, err))
        return -1;
    return is_last(f) ? give_logits(&p, err) : leave(&p, err);
}
