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

/* Biases and turns; keys and values go to their page. */
static void place_keys(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t d = f->head_dim, n_turned = f->n_head + f->n_kv_head;

    for (int64_t i = w->thread; i < f->n_token * f->n_shard; i += w->n_thread) {
        const int64_t t = i / f->n_shard, s = i % f->n_shard, position = f->token_position[t];
        const float *const bias = spot_infer_own(w, "qkv.b", (int)s);
        float *const q = f->qkv + i * f->qkv_stride;
        float *const page = page_at(w, t, position / SPOT_INFER_PAGE, s);
        float *const values = page + f->n_kv_head * d * SPOT_INFER_PAGE;
        const int64_t slot = position % SPOT_INFER_PAGE;

        if (bias)
            f->vec->add(q, bias, (n_turned + f->n_kv_head) * d);
        for (int64_t h = 0; f->shape.arch == SPOT_ARCH_LLAMA && h < n_turned; h++)
            f->vec->rotate(q + h * d, f->turn + position * d, d / 2, 1);
        for (int64_t h = 0; h < f->n_kv_head; h++) {
            for (int64_t e = 0; e < d; e++)
                page[(h * d + e) * SPOT_INFER_PAGE + slot] = q[(f->n_head + h) * d + e];
            memcpy(values + (h * SPOT_INFER_PAGE + slot) * d, q + (n_turned + h) * d,
                   (size_t)d * sizeof(float));
        }
    }
    spot_infer_meet(w);
}

enum { PAGES = 16 }; /* whose keys are scored in one call */

/* Queries of tokens [t, t + T), which follow one another in a sequence, and head h of a shard. */
static void attend(const struct spot_infer_work *w, int64_t t, int T, int64_t s, int64_t h)
{
    const struct spot_infer *const f = w->f;
    const float scale = 1.0F / __builtin_sqrtf((float)f->head_dim);
    const int64_t d = f->head_dim, n = f->token_position[t] + 1, s_row = f->score_row;
    const int64_t n_page = (n + T - 2) / SPOT_INFER_PAGE + 1, kv = h / (f->n_head / f->n_kv_head);
    const int64_t q_row = f->n_shard * f->qkv_stride, o_row = f->n_shard * f->att_stride;
    const float *const q = f->qkv + t * q_row + s * f->qkv_stride + h * d;
    float *const out = f->att + t * o_row + s * f->att_stride + h * d;
    float *const score = f->score[w->thread];
    float stat[2];

    for (int64_t i = 0; i < n_page; i += PAGES) {
        const int64_t n_some = n_page - i < PAGES ? n_page - i : PAGES;
        const float *key[PAGES];

        for (int64_t j = 0; j < n_some; j++)
            key[j] = page_at(w, t, i + j, s) + kv * d * SPOT_INFER_PAGE;
        f->kernel->score(score + i * SPOT_INFER_PAGE, s_row, q, q_row, T, key, n_some, d);
    }
    for (int j = 0; j < T; j++) {
        f->vec->softmax(score + j * s_row, n + j, n + j, scale, stat);
        memset(out + j * o_row, 0, (size_t)d * sizeof(float));
    }
    for (int64_t i = 0; i < n_page; i++) {
        const float *const value = page_at(w, t, i, s) + (f->n_kv_head + kv) * d * SPOT_INFER_PAGE;
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

/* How many of the tokens [t, end) belong to one sequence. */
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
        const int64_t s = i % f->n_shard;

        spot_infer_ready(f, n, i / f->n_shard, f->att + s * f->att_stride,
                         f->n_shard * f->att_stride, s * n_att, s * n_block, n_att);
    }
    if (n > SPOT_TILE || f->type != SPOT_INFER_FP32)
        spot_infer_meet(w);
}
