/* SPDX-License-Identifier: MIT */
/* The passes of one run, by all threads of the team together. Each element of each buffer is
 * computed by one thread, and a meeting lies between passes that depend on one another. */
#include "engine/cpu/infer_pass.h"

#include <string.h>

void spot_infer_meet(const struct spot_infer_work *w)
{
    spot_team_meet_soon(w->f->team);
}

/* NULL: it is not there. */
static const void *tensor_of(const struct spot_infer *f, int bundle, const char *name, int shard)
{
    const int b = bundle - f->image_begin, t = spot_arena_find(&f->arena[b], name);

    return t < 0 ? NULL : f->tensor[((int64_t)b * SPOT_TENSORS_MAX + t) * f->shape.n_shard + shard];
}

const void *spot_infer_own(const struct spot_infer_work *w, const char *name, int shard)
{
    return tensor_of(w->f, w->bundle, name, w->f->config.shard_begin + shard);
}

/* --- between products --- */

/* What waits in `sum` joins the residual: x + (sum + bias). */
static void settle(const struct spot_infer *f, int64_t t, const float *bias)
{
    const int64_t c = f->shape.width, row = (c + SPOT_PANEL - 1) / SPOT_PANEL * SPOT_PANEL;

    if (bias)
        f->vec->add(f->sum + t * row, bias, c);
    f->vec->add(f->x + t * c, f->sum + t * row, c);
}

/* Row `to` of norm from row t of x. */
static void norm_row(const struct spot_infer_work *w, int64_t to, int64_t t, const char *weight,
                     const char *bias)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width;
    const float eps = (float)spot_shape_norm_eps(&f->shape);
    const float *const by = tensor_of(f, w->bundle, weight, 0);
    float stat[2];

    if (f->shape.arch == SPOT_ARCH_LLAMA)
        f->vec->rms(f->norm + to * c, stat, f->x + t * c, by, eps, 1, c);
    else
        f->vec->norm(f->norm + to * c, stat, f->x + t * c, by, tensor_of(f, w->bundle, bias, 0),
                     eps, 1, c);
}

static const float *last_bias(const struct spot_infer_work *w)
{
    return tensor_of(w->f, w->bundle - 1, "fc2.b", 0);
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

        if (f->config.bundle_begin) {
            memcpy(f->x + t * c, f->in + t * c, (size_t)c * sizeof(float));
            continue;
        }
        const int64_t token = item->token[position - item->first];

        spot_infer_unpack(f->x + t * c,
                          tensor_of(f, is_in_head ? f->image_end - 1 : 0,
                                    is_in_head ? "head.w" : "wte", (int)(token / rows)),
                          f->type, token % rows, c);
        if (wpe)
            f->vec->add(f->x + t * c, wpe + position * c, c);
    }
}

/* --- MLP --- */

static void activate(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n = spot_shape_ffn(&f->shape) / f->shape.n_shard, S = f->n_shard;
    const int64_t n_block = (n + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK;

    for (int64_t i = w->thread; i < spot_infer_deals(f->n_token) * S; i += w->n_thread) {
        const int64_t s = i % S, deal = i / S, end = spot_infer_deal_begin(f->n_token, deal + 1);

        for (int64_t t = spot_infer_deal_begin(f->n_token, deal); t < end; t++) {
            float *const pre = f->pre + (t * S + s) * f->pre_stride;
            float *const act = f->act + (t * S + s) * f->act_stride;

            if (f->shape.arch == SPOT_ARCH_LLAMA)
                f->vec->swiglu(act, pre, pre + n, n);
            else
                f->vec->gelu(act, pre, spot_infer_own(w, "fc1.b", (int)s), n);
        }
        spot_infer_ready(f, f->n_token, deal, f->act + s * f->act_stride, S * f->act_stride, s * n,
                         s * n_block, n);
    }
    spot_infer_meet(w);
}

static void norm_all(const struct spot_infer_work *w, bool has_sum, const float *pending,
                     const char *weight, const char *bias)
{
    const struct spot_infer *const f = w->f;
    const int64_t n = f->n_token, c = f->shape.width;

    for (int64_t i = w->thread; i < spot_infer_deals(n); i += w->n_thread) {
        for (int64_t t = spot_infer_deal_begin(n, i); t < spot_infer_deal_begin(n, i + 1); t++) {
            if (has_sum)
                settle(f, t, pending);
            norm_row(w, t, t, weight, bias);
        }
        spot_infer_ready(f, n, i, f->norm, c, 0, 0, c);
    }
    spot_infer_meet(w);
}

static void layer(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const struct spot_shape *const s = &f->shape;
    const bool is_llama = s->arch == SPOT_ARCH_LLAMA;
    const struct spot_infer_input norm = { f->norm, s->width, s->width };
    const struct spot_infer_input att = { f->att, f->att_stride, f->n_head * f->head_dim };
    const struct spot_infer_input act = { f->act, f->act_stride, spot_shape_ffn(s) / s->n_shard };

    norm_all(w, w->layer > 0, w->layer ? last_bias(w) : NULL, "ln1.w", "ln1.b");
    spot_infer_by_outputs(w, "qkv.w", &norm, f->qkv, f->qkv_stride, spot_shape_qkv(s) / s->n_shard,
                          f->n_token);
    spot_infer_attend(w);
    spot_infer_by_inputs(w, "proj.w", &att);
    norm_all(w, true, tensor_of(f, w->bundle, "proj.b", 0), "ln2.w", "ln2.b");
    spot_infer_by_outputs(w, is_llama ? "gateup.w" : "fc1.w", &norm, f->pre, f->pre_stride,
                          spot_shape_pre(s) / s->n_shard, f->n_token);
    activate(w);
    spot_infer_by_inputs(w, is_llama ? "down.w" : "fc2.w", &act);
}

/* --- ends --- */

static void head(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, V = f->shape.vocab;
    const int64_t rows = spot_shape_vocab_rows(&f->shape) / f->shape.n_shard;
    const int64_t stride = (rows + SPOT_PANEL - 1) / SPOT_PANEL * SPOT_PANEL;

    for (int64_t i = w->thread; i < spot_infer_deals(f->n_row); i += w->n_thread) {
        const int64_t end = spot_infer_deal_begin(f->n_row, i + 1);

        for (int64_t r = spot_infer_deal_begin(f->n_row, i); r < end; r++) {
            if (w->layer > 0)
                settle(f, f->row_token[r], last_bias(w));
            norm_row(w, r, f->row_token[r], "lnf.w", "lnf.b");
        }
        spot_infer_ready(f, f->n_row, i, f->norm, c, 0, 0, c);
    }
    spot_infer_meet(w);
    spot_infer_by_outputs(w, "head.w", &(struct spot_infer_input){ f->norm, c, c }, f->vocab,
                          stride, rows, f->n_row);
    for (int64_t i = w->thread; i < (int64_t)f->n_row * f->n_shard; i += w->n_thread) {
        const int64_t first = (f->config.shard_begin + i % f->n_shard) * rows;
        const int64_t n = V - first < rows ? V - first : rows;

        if (n > 0)
            memcpy(f->logit + i / f->n_shard * V + first, f->vocab + i * stride,
                   (size_t)n * sizeof(float));
    }
}

static void leave(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width;

    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread) {
        if (w->layer > 0)
            settle(f, t, last_bias(w));
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
    if (f->config.bundle_end == n_layer + 2)
        head(&w);
    else
        leave(&w);
}
