/* SPDX-License-Identifier: MIT */
/* The passes of one run, by all threads of the team together. Each element of each buffer is
 * computed by one thread, and there is a barrier between passes that depend on one another. */
#include "engine/cpu/infer_pass.h"

#include <string.h>

#include "engine/rope.h"

void spot_infer_meet(const struct spot_infer_work *w)
{
    spot_team_meet_soon(w->f->team);
}

/* NULL: none. */
static const void *tensor_of(const struct spot_infer *f, int bundle, const char *name, int shard)
{
    const int b = bundle - f->image_begin, t = spot_arena_find(&f->arena[b], name);

    return t < 0 ? NULL : f->tensor[((int64_t)b * SPOT_TENSORS_MAX + t) * f->shape.n_shard + shard];
}

const void *spot_infer_own(const struct spot_infer_work *w, const char *name, int shard)
{
    return tensor_of(w->f, w->bundle, name, shard < 0 ? 0 : w->f->config.shard_begin + shard);
}

/* --- between products --- */

/* How the result of a half of a layer in `sum` is added to the residual. */
struct half {
    int bundle;
    const char *bias, *norm; /* of bundle */
};

static struct half first_half(const struct spot_infer_work *w)
{
    return (struct half){ w->bundle, "proj.b", "post1.w" };
}

/* Adds the pending `sum` to the residual: x + (sum + bias), with norm and scale if the shape has
 * them. */
static void settle(const struct spot_infer *f, int64_t t, const struct half *half)
{
    const int64_t c = f->shape.width, row = (c + SPOT_PANEL - 1) / SPOT_PANEL * SPOT_PANEL;
    const float *const bias = tensor_of(f, half->bundle, half->bias, 0);
    const float *const by = tensor_of(f, half->bundle, half->norm, 0);
    float *const sum = f->sum + t * row;
    float stat[2];

    if (bias)
        f->vec->add(sum, bias, c);
    if (by)
        f->vec->rms(sum, stat, sum, by, (float)spot_shape_norm_eps(&f->shape), 1, c);
    if (f->shape.kind.residual_scale != 0)
        f->vec->scale(sum, c, (float)f->shape.kind.residual_scale);
    f->vec->add(f->x + t * c, sum, c);
}

/* Computes row `to` of norm from row t of x. */
static void norm_row(const struct spot_infer_work *w, int64_t to, int64_t t, const char *weight,
                     const char *bias)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width;
    const float eps = (float)spot_shape_norm_eps(&f->shape);
    const float *const by = tensor_of(f, w->bundle, weight, 0);
    float stat[2];

    if (!by) /* this half has no norm before it */
        memcpy(f->norm + to * c, f->x + t * c, (size_t)c * sizeof(float));
    else if (f->shape.kind.norm == SPOT_NORM_RMS)
        f->vec->rms(f->norm + to * c, stat, f->x + t * c, by, eps, 1, c);
    else
        f->vec->norm(f->norm + to * c, stat, f->x + t * c, by, tensor_of(f, w->bundle, bias, 0),
                     eps, 1, c);
}

/* The second half of the previous layer. */
static struct half last_half(const struct spot_infer_work *w)
{
    return (struct half){ w->bundle - 1, "down.b", "post2.w" };
}

static void place_turns(const struct spot_infer *f, int64_t t)
{
    const int64_t n = spot_shape_rotary(&f->shape);

    for (int i = 0; i < 2 && f->speed[i]; i++)
        spot_rope_row(f->turn[i] + t * n, f->speed[i], n / 2, f->token_position[t],
                      spot_rope_gain(&f->shape, i == 1));
}

static void embed(const struct spot_infer_work *w)
{
    struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, rows = spot_shape_vocab_rows(&f->shape) / f->shape.n_shard;
    const bool is_in_head = f->shape.is_tied && f->image_end == spot_shape_bundles(&f->shape);
    const float *const wpe = f->config.bundle_begin ? NULL : tensor_of(f, 0, "wpe", 0);

    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread) {
        const struct spot_infer_item *const item = &f->item[f->token_item[t]];
        const int64_t position = f->token_position[t];

        place_turns(f, t);
        if (f->config.bundle_begin) {
            memcpy(f->x + t * c, f->in + t * c, (size_t)c * sizeof(float));
            continue;
        }
        const int64_t token = item->token[position - item->first];

        spot_infer_unpack(f->x + t * c,
                          tensor_of(f, is_in_head ? f->image_end - 1 : 0,
                                    is_in_head ? "head.w" : "wte", (int)(token / rows)),
                          f->type, token % rows, c);
        if (f->shape.kind.embed_scale != 0)
            f->vec->scale(f->x + t * c, c, (float)f->shape.kind.embed_scale);
        if (wpe)
            f->vec->add(f->x + t * c, wpe + position * c, c);
    }
}

/* --- MLP --- */

void spot_infer_activate(const struct spot_infer_work *w, float *act, float *pre, int64_t n, int s)
{
    const struct spot_infer *const f = w->f;
    const int64_t kind = f->shape.kind.activation;
    const float *const bias = spot_infer_own(w, "up.b", s);

    if (!f->shape.kind.is_gated) {
        (kind == SPOT_GELU_ERF ? f->vec->gelu_exact : f->vec->gelu)(act, pre, bias, n);
        return;
    }
    if (bias)
        f->vec->add(pre, bias, 2 * n);
    (kind == SPOT_SILU        ? f->vec->swiglu
     : kind == SPOT_GELU_TANH ? f->vec->geglu
                              : f->vec->geglu_exact)(act, pre, pre + n, n);
}

/* Applies the activation of an MLP without experts: from pre to act, both [token][own
 * shard][stride]. */
static void activate(const struct spot_infer_work *w, int64_t pre_stride,
                     const struct spot_infer_input *act)
{
    const struct spot_infer *const f = w->f;
    const int64_t n = act->n_in, S = f->n_shard, row = S * act->stride;
    const int64_t n_block = (n + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK;

    for (int64_t i = w->thread; i < spot_infer_deals(f->n_token) * S; i += w->n_thread) {
        const int64_t s = i % S, deal = i / S, end = spot_infer_deal_begin(f->n_token, deal + 1);
        float *const x = act->x + s * act->stride;

        for (int64_t t = spot_infer_deal_begin(f->n_token, deal); t < end; t++) {
            spot_infer_activate(w, x + t * row, f->pre + (t * S + s) * pre_stride, n, (int)s);
            spot_infer_lower(w, SPOT_LORA_DOWN, t, (int)s, x + t * row, n);
        }
        spot_infer_ready(f, &(struct spot_infer_rows){ x, row, n, s * n, s * n_block, 0 },
                         f->n_token, deal);
    }
    spot_infer_meet(w);
}

/* Adds the pending sum, and computes norm. pending: the half whose result is in `sum`; NULL: none.
 * product: the product that reads norm next. */
static void norm_all(const struct spot_infer_work *w, const struct half *pending,
                     const char *weight, const char *bias, enum spot_lora_product product)
{
    const struct spot_infer *const f = w->f;
    const int64_t n = f->n_token, c = f->shape.width;
    const struct spot_infer_rows rows = { f->norm, c, c, 0, 0, 0 };
    const bool routes =
        product == SPOT_LORA_UP && spot_shape_mlps(&f->shape, w->bundle - 1).n_expert;

    for (int64_t i = w->thread; i < spot_infer_deals(n); i += w->n_thread) {
        for (int64_t t = spot_infer_deal_begin(n, i); t < spot_infer_deal_begin(n, i + 1); t++) {
            if (pending)
                settle(f, t, pending);
            norm_row(w, t, t, weight, bias);
            if (routes)
                spot_infer_route(w, t);
            else
                spot_infer_lower(w, product, t, 0, f->norm + t * c, c);
        }
        if (!routes)
            spot_infer_ready(f, &rows, n, i);
    }
    spot_infer_meet(w);
}

static void layer(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const struct spot_shape *const s = &f->shape;
    const struct half last = last_half(w), half = first_half(w);
    struct spot_infer_input norm = { f->norm, s->width, s->width, SPOT_LORA_QKV };
    const struct spot_infer_input att = { f->att, f->att_stride, f->n_head * f->head_dim,
                                          SPOT_LORA_PROJ };
    const struct spot_mlps mlps = spot_shape_mlps(s, w->bundle - 1);
    const int64_t n_act = mlps.ffn / s->n_shard, n_pre = (s->kind.is_gated ? 2 : 1) * n_act;
    const struct spot_infer_input act = { f->act, spot_infer_stride(n_act), n_act, SPOT_LORA_DOWN };

    norm_all(w, w->layer ? &last : NULL, "ln1.w", "ln1.b", SPOT_LORA_QKV);
    spot_infer_by_outputs(w, "qkv.w", &norm, f->qkv, f->qkv_stride, spot_shape_qkv(s) / s->n_shard,
                          f->n_token);
    spot_infer_attend(w);
    spot_infer_by_inputs(w, "proj.w", &att);
    norm.product = SPOT_LORA_UP;
    norm_all(w, &half, "ln2.w", "ln2.b", SPOT_LORA_UP);
    if (mlps.n_expert) {
        spot_infer_experts(w);
        return;
    }
    spot_infer_by_outputs(w, "up.w", &norm, f->pre, spot_infer_stride(n_pre), n_pre, f->n_token);
    activate(w, spot_infer_stride(n_pre), &act);
    spot_infer_by_inputs(w, "down.w", &act);
}

/* --- logits --- */

static void give_logits(const struct spot_infer *f, float *to, const float *from, int64_t n)
{
    const struct spot_decoder *const d = &f->shape.kind;
    const float by = d->logit_scale != 0 ? (float)d->logit_scale : 1;

    memcpy(to, from, (size_t)n * sizeof(float));
    if (d->logit_cap != 0)
        f->vec->cap(to, n, by, (float)d->logit_cap);
    else if (d->logit_scale != 0)
        f->vec->scale(to, n, by);
}

/* --- states --- */

/* The first token of an item whose state after the last norm is needed, counted in the run. */
static int64_t first_pooled(const struct spot_infer_item *item, int64_t begin)
{
    return item->pool == SPOT_POOL_MEAN ? begin : begin + item->n_token - 1;
}

/* Adds the states of an item that begins at token `begin` of the run to its sum, columns [from,
 * to): one chain over all positions of the sequence. */
static void add_states(const struct spot_infer *f, const struct spot_infer_item *item,
                       int64_t begin, int64_t from, int64_t to)
{
    const int64_t c = f->shape.width;
    float *const sum = f->sequence[item->sequence].sum;

    if (!item->first)
        memset(sum + from, 0, (size_t)(to - from) * sizeof(float));
    for (int64_t t = 0; t < item->n_token; t++)
        f->vec->add(sum + from, f->norm + (begin + t) * c + from, to - from);
    for (int64_t k = from; k < to; k++)
        item->state[k] = sum[k] / (float)(item->first + item->n_token);
}

static void pool(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width;
    const struct half last = last_half(w);
    int64_t from, to, begin = 0;

    for (int i = 0; i < f->n_item; begin += f->item[i++].n_token)
        for (int64_t t = first_pooled(&f->item[i], begin);
             f->item[i].pool && t < begin + f->item[i].n_token; t++) {
            if (t % w->n_thread != w->thread)
                continue;
            if (w->layer > 0)
                settle(f, t, &last);
            norm_row(w, t, t, "lnf.w", "lnf.b");
        }
    spot_infer_meet(w);
    spot_team_share(c, 16, w->thread, w->n_thread, &from, &to);
    begin = 0;
    for (int i = 0; i < f->n_item; begin += f->item[i++].n_token) {
        const struct spot_infer_item *const item = &f->item[i];

        if (item->pool == SPOT_POOL_MEAN)
            add_states(f, item, begin, from, to);
        else if (item->pool)
            memcpy(item->state + from, f->norm + (begin + item->n_token - 1) * c + from,
                   (size_t)(to - from) * sizeof(float));
    }
    spot_infer_meet(w);
}

static void head(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, V = f->shape.vocab;
    const int64_t rows = spot_shape_vocab_rows(&f->shape) / f->shape.n_shard;
    const int64_t stride = (rows + SPOT_PANEL - 1) / SPOT_PANEL * SPOT_PANEL;
    const struct half last = last_half(w);

    for (int64_t i = w->thread; i < spot_infer_deals(f->n_row); i += w->n_thread) {
        const int64_t end = spot_infer_deal_begin(f->n_row, i + 1);

        for (int64_t r = spot_infer_deal_begin(f->n_row, i); r < end; r++) {
            if (w->layer > 0)
                settle(f, f->row_token[r], &last);
            norm_row(w, r, f->row_token[r], "lnf.w", "lnf.b");
        }
        spot_infer_ready(f, &(struct spot_infer_rows){ f->norm, c, c, 0, 0, 0 }, f->n_row, i);
    }
    spot_infer_meet(w);
    spot_infer_by_outputs(w, "head.w",
                          &(struct spot_infer_input){ f->norm, c, c, SPOT_LORA_PRODUCTS }, f->vocab,
                          stride, rows, f->n_row);
    for (int64_t i = w->thread; i < (int64_t)f->n_row * f->n_shard; i += w->n_thread) {
        const int64_t first = (f->config.shard_begin + i % f->n_shard) * rows;
        const int64_t n = V - first < rows ? V - first : rows;

        if (n > 0)
            give_logits(f, f->logit + i / f->n_shard * V + first, f->vocab + i * stride, n);
    }
}

static void leave(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width;
    const struct half last = last_half(w);

    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread) {
        if (w->layer > 0)
            settle(f, t, &last);
        memcpy(f->out + t * c, f->x + t * c, (size_t)c * sizeof(float));
    }
}

void spot_infer_pass(void *infer, int thread, int n_thread)
{
    struct spot_infer *const f = infer;
    const int n_layer = (int)f->shape.n_layer;
    struct spot_infer_work w = { .f = f, .thread = thread, .n_thread = n_thread };

    embed(&w);
    spot_infer_meet(&w);
    w.bundle = f->config.bundle_begin ? f->config.bundle_begin : 1;
    for (; w.bundle < f->config.bundle_end && w.bundle <= n_layer; w.bundle++, w.layer++)
        layer(&w);
    if (f->config.bundle_end < n_layer + 2)
        leave(&w);
    else if (f->has_pool)
        pool(&w);
    if (f->config.bundle_end == n_layer + 2 && f->n_row)
        head(&w);
}
