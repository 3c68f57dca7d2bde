/* SPDX-License-Identifier: MIT */
/* Attention over pages: a tile of queries of one sequence reads each key and value once. */
#include <string.h>

#include "engine/cpu/infer_pass.h"

static float *page_at(const struct spot_infer_work *w, int64_t t, int64_t page, int64_t shard)
{
    const struct spot_infer *const f = w->f;
    const int sequence = f->item[f->token_item[t]].sequence;

    return spot_infer_page(f, f->sequence[sequence].page[page], w->layer, (int)shard);
}

/* Biases. */
static void add_biases(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n = (f->n_head + 2 * f->n_kv_head) * f->head_dim;

    for (int64_t i = w->thread; i < f->n_token * f->n_shard; i += w->n_thread)
        f->vec->add(f->qkv + i * f->qkv_stride, spot_infer_own(w, "qkv.b", (int)(i % f->n_shard)),
                    n);
    spot_infer_meet(w);
}

/* One norm over the heads of all shards: the sums of squares of a token's queries, and of its keys,
 * are added in the order of the tree of shards, like the sums of products. */
static void norm_whole(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n[2] = { f->n_head * f->head_dim, f->n_kv_head * f->head_dim };
    const float eps = (float)spot_shape_norm_eps(&f->shape);
    float *const square = f->part[w->thread];

    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread)
        for (int k = 0; k < 2; k++) {
            for (int64_t s = 0; s < f->n_shard; s++) {
                const float *const x =
                    f->qkv + (t * f->n_shard + s) * f->qkv_stride + (k ? n[0] : 0);

                square[s] = f->vec->dot(x, x, n[k]);
            }
            spot_infer_add_tree(f->vec, square, 1, f->n_shard, 1);
            f->sum[2 * t + k] = *square;
        }
    spot_infer_meet(w);
    spot_infer_exchange(w, 2 * f->n_token);
    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread)
        for (int k = 0; k < 2; k++) {
            const float *const by = spot_infer_own(w, k ? "k_norm.w" : "q_norm.w", -1);
            const float mean = f->sum[2 * t + k] / (float)(n[k] * f->shape.n_shard);
            const float stat[2] = { 0, 1.0F / __builtin_sqrtf(mean + eps) };

            for (int64_t s = 0; s < f->n_shard; s++) {
                float *const x = f->qkv + (t * f->n_shard + s) * f->qkv_stride + (k ? n[0] : 0);

                f->vec->rms_again(x, stat, x, by + (f->config.shard_begin + s) * n[k], 1, n[k]);
            }
        }
    spot_infer_meet(w);
}

/* Normalises queries and keys of a token and shard by head, and rotates them. */
static void turn_heads(const struct spot_infer_work *w, float *q, int64_t t)
{
    const struct spot_infer *const f = w->f;
    const struct spot_decoder *const k = &f->shape.kind;
    const int64_t d = f->head_dim, n = f->n_head + f->n_kv_head;
    const int64_t layer = w->bundle - 1, n_turned = spot_shape_rotary(&f->shape);
    const bool is_local = spot_layer_in(&k->local, layer);
    const float *const turn = f->turn[is_local] + t * n_turned;
    const bool turns = n_turned && !spot_layer_in(&k->unturned, layer);
    float stat[2];

    for (int64_t h = 0; h < n; h++) {
        if (k->qk_norm == SPOT_QK_HEAD)
            f->vec->rms(q + h * d, stat, q + h * d,
                        spot_infer_own(w, h < f->n_head ? "q_norm.w" : "k_norm.w", -1),
                        (float)spot_shape_norm_eps(&f->shape), 1, d);
        if (turns)
            f->vec->rotate(q + h * d, turn, n_turned / 2, 1);
    }
}

/* Writes keys and values to their page. */
static void place_keys(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t d = f->head_dim;

    if (spot_infer_own(w, "qkv.b", 0))
        add_biases(w);
    if (f->shape.kind.qk_norm == SPOT_QK_WHOLE)
        norm_whole(w);
    for (int64_t i = w->thread; i < f->n_token * f->n_shard; i += w->n_thread) {
        const int64_t t = i / f->n_shard, s = i % f->n_shard, position = f->token_position[t];
        float *const q = f->qkv + i * f->qkv_stride, *const k = q + f->n_head * d;
        float *const page = page_at(w, t, position / SPOT_INFER_PAGE, s);
        float *const values = page + f->n_kv_head * d * SPOT_INFER_PAGE;
        const int64_t slot = position % SPOT_INFER_PAGE;

        turn_heads(w, q, t);
        for (int64_t h = 0; h < f->n_kv_head; h++) {
            for (int64_t e = 0; e < d; e++)
                page[(h * d + e) * SPOT_INFER_PAGE + slot] = k[h * d + e];
            memcpy(values + (h * SPOT_INFER_PAGE + slot) * d, k + (f->n_kv_head + h) * d,
                   (size_t)d * sizeof(float));
        }
    }
    spot_infer_meet(w);
}

/* --- scores ---------------------------------------------------------------------- */

/* The first position that the query at `position` sees. */
static int64_t first_seen(const struct spot_infer_work *w, int64_t position)
{
    const struct spot_decoder *const d = &w->f->shape.kind;
    const int64_t first = position + 1 - d->window;

    return spot_layer_in(&d->local, w->bundle - 1) && first > 0 ? first : 0;
}

/* Softmax weights for the query at `position`, whose scores begin at position `base`. Positions
 * that the first query of the tile sees, but this one does not, get weight 0, which changes no
 * sum. */
static void weigh(const struct spot_infer_work *w, float *score, int64_t base, int64_t position)
{
    const struct spot_infer *const f = w->f;
    const struct spot_decoder *const d = &f->shape.kind;
    const int64_t unseen = first_seen(w, position) - base, n = position + 1 - base - unseen;
    float scale = d->attention_scale != 0 ? (float)d->attention_scale
                                          : 1.0F / __builtin_sqrtf((float)f->head_dim);
    float stat[2];

    if (d->attention_cap != 0) {
        f->vec->cap(score + unseen, n, scale, (float)d->attention_cap);
        scale = 1;
    }
    memset(score, 0, (size_t)unseen * sizeof(float));
    f->vec->softmax(score + unseen, n, n, scale, stat);
}

enum { PAGES = 16 }; /* pages whose keys are scored in one call */

/* Queries of tokens [t, t + T), which follow one another in a sequence, and head h of a shard. */
static void attend(const struct spot_infer_work *w, int64_t t, int T, int64_t s, int64_t h)
{
    const struct spot_infer *const f = w->f;
    const int64_t position = f->token_position[t];
    const int64_t page = first_seen(w, position) / SPOT_INFER_PAGE, base = page * SPOT_INFER_PAGE;
    const int64_t d = f->head_dim, n = position + 1 - base, s_row = f->score_row;
    const int64_t n_page = (n + T - 2) / SPOT_INFER_PAGE + 1, kv = h / (f->n_head / f->n_kv_head);
    const int64_t q_row = f->n_shard * f->qkv_stride, o_row = f->n_shard * f->att_stride;
    const float *const q = f->qkv + t * q_row + s * f->qkv_stride + h * d;
    float *const out = f->att + t * o_row + s * f->att_stride + h * d;
    float *const score = f->score[w->thread];

    for (int64_t i = 0; i < n_page; i += PAGES) {
        const int64_t n_some = n_page - i < PAGES ? n_page - i : PAGES;
        const float *key[PAGES];

        for (int64_t j = 0; j < n_some; j++)
            key[j] = page_at(w, t, page + i + j, s) + kv * d * SPOT_INFER_PAGE;
        f->kernel->score(score + i * SPOT_INFER_PAGE, s_row, q, q_row, T, key, n_some, d);
    }
    for (int j = 0; j < T; j++) {
        weigh(w, score + j * s_row, base, position + j);
        memset(out + j * o_row, 0, (size_t)d * sizeof(float));
    }
    for (int64_t i = 0; i < n_page; i++) {
        const float *const value =
            page_at(w, t, page + i, s) + (f->n_kv_head + kv) * d * SPOT_INFER_PAGE;
        const float *const p = score + i * SPOT_INFER_PAGE;
        int64_t n_all = n - i * SPOT_INFER_PAGE; /* positions of this page that all queries see */

        n_all = n_all > SPOT_INFER_PAGE ? SPOT_INFER_PAGE : n_all > 0 ? n_all : 0;
        if (n_all)
            f->kernel->mix(out, o_row, p, s_row, T, value, n_all, d);
        for (int j = 1; j < T && n_all < SPOT_INFER_PAGE; j++) {
            const int64_t own = n + j - i * SPOT_INFER_PAGE;
            const int64_t end = own < SPOT_INFER_PAGE ? own : SPOT_INFER_PAGE;

            if (end > n_all)
                f->kernel->mix(out + j * o_row, o_row, p + j * s_row + n_all, s_row, 1,
                               value + n_all * d, end - n_all, d);
        }
    }
}

/* Number of the tokens [t, end) that belong to the sequence of token t. */
static int together(const struct spot_infer *f, int64_t t, int64_t end)
{
    int n = 1;

    while (t + n < end && f->token_item[t + n] == f->token_item[t])
        n++;
    return n;
}

void spot_infer_attend(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n = f->n_token, n_head = f->n_shard * f->n_head, d = f->head_dim;
    const int64_t n_att = f->n_head * d, n_block = (n_att + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK;

    place_keys(w);
    for (int64_t i = w->thread; i < spot_infer_tiles(n) * n_head; i += w->n_thread) {
        const int64_t tile = i / n_head, s = i % n_head / f->n_head, h = i % f->n_head;
        const int64_t end = spot_infer_tile_begin(n, tile + 1);

        for (int64_t t = spot_infer_tile_begin(n, tile); t < end; t += together(f, t, end))
            attend(w, t, together(f, t, end), s, h);
    }
    spot_infer_meet(w);
    for (int64_t i = w->thread; i < spot_infer_deals(n) * f->n_shard; i += w->n_thread) {
        const int64_t s = i % f->n_shard, deal = i / f->n_shard;

        for (int64_t t = spot_infer_deal_begin(n, deal); t < spot_infer_deal_begin(n, deal + 1);
             t++)
            spot_infer_lower(w, SPOT_LORA_PROJ, t, (int)s,
                             f->att + (t * f->n_shard + s) * f->att_stride, n_att);
        spot_infer_ready(f,
                         &(struct spot_infer_rows){ f->att + s * f->att_stride,
                                                    f->n_shard * f->att_stride, n_att, s * n_att,
                                                    s * n_block, 0 },
                         n, deal);
    }
    if (n > SPOT_TILE || f->type != SPOT_INFER_FP32 || f->has_lora)
        spot_infer_meet(w);
}
