/* SPDX-License-Identifier: MIT */
/* Kernels of serving, against double precision; and the same bits for a token alone and in a batch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/infer_kernels.h"
#include "ptx/rig.h"

enum { PANEL = SPOT_CUDA_PANEL, PAGE = SPOT_CUDA_PAGE };

static double weight_at(enum spot_real real, const void *w, int64_t out, int64_t k, int64_t n_in)
{
    return rig_at(real, w, (out / PANEL * n_in + k) * PANEL + out % PANEL);
}

/* All tokens, then the last one alone: its bits are the same. */
static void skinny_of(enum spot_real real, int64_t n_token, int64_t n_in, int64_t n_out,
                      bool has_bias)
{
    const int64_t panels = (n_out + PANEL - 1) / PANEL, x_stride = n_in + 3, y_stride = n_out + 5;
    struct spot_cuda_skinny p = { .real = real,
                                  .w = rig_numbers(real, panels * PANEL * n_in, 1),
                                  .x = rig_numbers(SPOT_F32, n_token * x_stride, 1),
                                  .bias = has_bias ? rig_numbers(SPOT_F32, n_out, 1) : NULL,
                                  .y = rig_room(SPOT_F32, n_token * y_stride),
                                  .partial = rig_room(SPOT_F32, (int64_t)spot_cuda_skinny_elem(
                                                                    n_token, n_in, n_out)),
                                  .n_token = n_token,
                                  .n_in = n_in,
                                  .n_out = n_out,
                                  .x_stride = x_stride,
                                  .y_stride = y_stride };
    const float *const y = p.y, *const x = p.x;
    float *const alone = rig_room(SPOT_F32, y_stride);

    spot_cuda_skinny(&p, NULL);
    p.x += (n_token - 1) * x_stride;
    p.y = alone;
    p.n_token = 1;
    spot_cuda_skinny(&p, NULL);
    for (int64_t t = 0; t < n_token; t++)
        for (int64_t o = 0; o < n_out; o++) {
            double want = has_bias ? (double)p.bias[o] : 0;

            for (int64_t k = 0; k < n_in; k++)
                want += (double)x[t * x_stride + k] * weight_at(real, p.w, o, k, n_in);
            rig_near("product of few tokens", SPOT_F32, y, t * y_stride + o, want, 3e-5);
        }
    rig_equal("a token alone: its bits",
              memcmp(alone, y + (n_token - 1) * y_stride, (size_t)n_out * sizeof(float)) == 0, 1);
}

void rig_skinny(enum spot_real real)
{
    skinny_of(real, 11, 300, 70, true);
    skinny_of(real, 3, 21, 5, false);
    skinny_of(real, 1, 512, 64, false);
    if (real == SPOT_BF16) { /* blocks of 64 tokens go through all splits */
        skinny_of(real, 67, 300, 70, true);
        skinny_of(real, 64, 40, 5, false);
    }
}

void rig_serving_rows(enum spot_real real)
{
    enum { N = 5, C = 21, ROWS = 9, SHARDS = 3, T = 7 };
    const void **const shard = ptx_memory(SHARDS * sizeof(void *));
    uint32_t *const token = ptx_memory(N * sizeof(*token));
    int32_t *const position = ptx_memory(N * sizeof(*position));
    const float *const wpe = rig_numbers(SPOT_F32, T * C, 1),
                       *const sum = rig_numbers(SPOT_F32, N * C, 1),
                       *const bias = rig_numbers(SPOT_F32, C, 1);
    float *const x = rig_room(SPOT_F32, N * C), *const bare = rig_room(SPOT_F32, N * C),
                 *const picked = rig_room(SPOT_F32, N * C);

    for (int i = 0; i < SHARDS; i++)
        shard[i] = rig_numbers(real, PANEL * C, 1);
    for (int t = 0; t < N; t++) {
        token[t] = (uint32_t)(t * 11 % (SHARDS * ROWS));
        position[t] = (t * 3 + 1) % T;
    }
    spot_cuda_infer_embed(real, bare, shard, ROWS, NULL, token, position, N, C, NULL);
    spot_cuda_infer_embed(real, x, shard, ROWS, wpe, token, position, N, C, NULL);
    spot_cuda_infer_settle(x, sum, bias, N, C, NULL);
    spot_cuda_infer_settle(x, sum, NULL, N, C, NULL);
    spot_cuda_infer_pick(picked, x, position, 4, C, NULL); /* rows 1, 4, 0, 3 */
    for (int t = 0; t < N; t++)
        for (int k = 0; k < C; k++) {
            const double e = weight_at(real, shard[token[t] / ROWS], token[t] % ROWS, k, C);

            rig_near("row of a token", SPOT_F32, bare, t * C + k, e, 0);
            rig_near("residual", SPOT_F32, x, t * C + k,
                     e + (double)wpe[position[t] * C + k] + 2 * (double)sum[t * C + k] +
                         (double)bias[k],
                     2e-6);
        }
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < C; k++)
            rig_near("picked row", SPOT_F32, picked, r * C + k,
                     rig_at(SPOT_F32, x, position[r] * C + k), 0);
}

/* Sequences, of which a run has some tokens each that follow each other. */
enum { SEQ = 272, PAGES = SEQ / PAGE, SHARDS = 2, LAYERS = 2, LAYER = 1, RUNS = 3 };

struct sequences {
    int d, h, hk;
    struct {
        int first, n;
    } run[RUNS];
    int32_t *page, *item, *position;
    float *pool, *qkv, *before, *turn;
    int n_token;
};

static int queries_of(const struct sequences *s)
{
    return (s->h + 2 * s->hk) * s->d;
}

/* Of a page's key (is_value 0) or value. */
static float *slot_of(const struct sequences *s, int item, int position, int shard, int head, int e,
                      int is_value)
{
    float *const page =
        s->pool + ((s->page[item * PAGES + position / PAGE] * LAYERS + LAYER) * SHARDS + shard) *
                      (2 * s->hk * s->d * PAGE);

    return is_value ? page + s->hk * s->d * PAGE + (head * PAGE + position % PAGE) * s->d + e
                    : page + (head * s->d + e) * PAGE + position % PAGE;
}

/* What lies behind a sequence is no number. */
static void end_sequence(const struct sequences *s, int item)
{
    for (int j = s->run[item].first + s->run[item].n; j < SEQ; j++)
        for (int i = 0; i < SHARDS * s->hk * s->d; i++)
            for (int is_value = 0; is_value < 2; is_value++)
                *slot_of(s, item, j, i / s->d / s->hk, i / s->d % s->hk, i % s->d, is_value) = NAN;
}

static void fill(struct sequences *s)
{
    const int64_t page = (int64_t)LAYERS * SHARDS * 2 * s->hk * s->d * PAGE;
    int t = 0;

    for (int i = 0; i < RUNS; i++)
        s->n_token += s->run[i].n;
    s->page = ptx_memory(RUNS * PAGES * sizeof(int32_t));
    s->item = ptx_memory((size_t)s->n_token * sizeof(int32_t));
    s->position = ptx_memory((size_t)s->n_token * sizeof(int32_t));
    s->pool = rig_numbers(SPOT_F32, RUNS * PAGES * page, 3); /* scores of ten and more */
    s->qkv = rig_numbers(SPOT_F32, (int64_t)s->n_token * SHARDS * queries_of(s), 3);
    s->before = rig_room(SPOT_F32, (int64_t)s->n_token * SHARDS * queries_of(s));
    s->turn = rig_numbers(SPOT_F32, SEQ * s->d, 1);
    memcpy(s->before, s->qkv, (size_t)(s->n_token * SHARDS * queries_of(s)) * sizeof(float));
    for (int i = 0; i < RUNS * PAGES; i++)
        s->page[i] = (int32_t)((i * 7 + 3) % (RUNS * PAGES)); /* 51 pages: a permutation */
    for (int i = 0; i < RUNS; i++) {
        end_sequence(s, i);
        for (int k = 0; k < s->run[i].n; k++, t++) {
            s->item[t] = i;
            s->position[t] = s->run[i].first + k;
        }
    }
}

static double turned(const struct sequences *s, int token, int shard, int head, int e)
{
    const float *const x = s->before + (token * SHARDS + shard) * queries_of(s) + head * s->d;
    const float *const turn = s->turn + s->position[token] * s->d;
    const int half = s->d / 2, i = e % half;
    const double a = (double)x[i], b = (double)x[i + half], c = (double)turn[i],
                 w = (double)turn[half + i];

    return e < half ? a * c - b * w : b * c + a * w;
}

static void check_token(const struct sequences *s, const float *att, int token, int shard, int head)
{
    const int n = s->position[token] + 1, kv = head / (s->h / s->hk);
    double score[SEQ], query[SEQ], sum = 0, max = -INFINITY;

    for (int e = 0; e < s->d; e++)
        query[e] = turned(s, token, shard, head, e) / sqrt(s->d);
    for (int j = 0; j < n; j++) {
        score[j] = 0;
        for (int e = 0; e < s->d; e++)
            score[j] += query[e] * (double)*slot_of(s, s->item[token], j, shard, kv, e, 0);
        max = fmax(max, score[j]);
    }
    for (int j = 0; j < n; j++)
        sum += score[j] = exp(score[j] - max);
    for (int e = 0; e < s->d; e++) {
        double out = 0;

        for (int j = 0; j < n; j++)
            out += score[j] * (double)*slot_of(s, s->item[token], j, shard, kv, e, 1);
        rig_near("attention over pages", SPOT_F32, att,
                 ((token * SHARDS + shard) * s->h + head) * s->d + e, out / sum, 1e-5);
    }
}

/* The tokens [first, first + n) of the run, on their own; *partial (NULL: nobody asks) are their
 * parts. */
static const float *attend(struct spot_cuda_paged p, int first, int n, const float **partial)
{
    const int64_t row = p.n_shard * p.n_head * p.dim;
    int32_t *const tile = ptx_memory((size_t)(n + 1) * sizeof(int32_t));
    int64_t most = 0;

    p.qkv += first * p.n_shard * (p.n_head + 2 * p.n_kv_head) * p.dim;
    p.item += first;
    p.position += first;
    p.att = rig_room(SPOT_F32, n * row);
    p.partial =
        rig_room(SPOT_F32, (int64_t)spot_cuda_paged_elem(n, p.n_shard * p.n_head, p.dim, SEQ));
    p.n_token = n;
    p.n_tile = spot_cuda_paged_tiles(tile, p.item, n, p.n_head / p.n_kv_head);
    p.tile = tile;
    p.tile_host = tile;
    for (int t = 0; t < n; t++)
        most = p.position[t] > most ? p.position[t] : most;
    spot_cuda_paged_attend(&p, most, NULL);
    if (partial)
        *partial = p.partial;
    return p.att;
}

static void check_placed(const struct sequences *s, int t, int shard)
{
    for (int h = 0; h < s->hk; h++)
        for (int e = 0; e < s->d; e++) {
            rig_near("key in its page", SPOT_F32,
                     slot_of(s, s->item[t], s->position[t], shard, h, e, 0), 0,
                     turned(s, t, shard, s->h + h, e), 2e-6);
            rig_near(
                "value in its page", SPOT_F32,
                slot_of(s, s->item[t], s->position[t], shard, h, e, 1), 0,
                (double)
                    s->before[(t * SHARDS + shard) * queries_of(s) + (s->h + s->hk + h) * s->d + e],
                0);
        }
}

static struct spot_cuda_paged paged(const struct sequences *s)
{
    return (struct spot_cuda_paged){ .dim = s->d,
                                     .n_head = s->h,
                                     .n_kv_head = s->hk,
                                     .n_shard = SHARDS,
                                     .n_layer = LAYERS,
                                     .layer = LAYER,
                                     .qkv = s->qkv,
                                     .pool = s->pool,
                                     .page = s->page,
                                     .item = s->item,
                                     .position = s->position,
                                     .turn = s->turn,
                                     .page_stride = PAGES,
                                     .n_token = s->n_token,
                                     .seq = SEQ };
}

/* All tokens, then some of them alone: their bits are the same. */
static void paged_of(struct sequences s)
{
    fill(&s);
    const struct spot_cuda_paged p = paged(&s);
    const int row = SHARDS * s.h * s.d;
    const float *att;

    spot_cuda_paged_place(&p, NULL);
    att = attend(p, 0, s.n_token, NULL);
    for (int t = 0; t < s.n_token; t++)
        for (int shard = 0; shard < SHARDS; shard++) {
            check_placed(&s, t, shard);
            for (int h = 0; h < s.h; h++)
                check_token(&s, att, t, shard, h);
        }
    for (int t = s.n_token - 1; t >= 0; t -= 17)
        rig_equal("attention of a token alone: its bits",
                  memcmp(attend(p, t, 1, NULL), att + t * row, (size_t)row * sizeof(float)) == 0,
                  1);
}

/* A query of zeros weighs all keys alike, so parts are not scaled when they are joined: what is
 * left is sums of floats in ascending order. */
static void joined_in_order(void)
{
    enum { D = 8, ROW = D + 2, N = (SEQ + SPOT_CUDA_KEYS - 1) / SPOT_CUDA_KEYS };
    struct sequences s = { .d = D, .h = 1, .hk = 1, .run = { { SEQ - 1, 1 } } };
    const float *part, *att;

    fill(&s);
    for (int i = 0; i < SHARDS; i++)
        memset(s.qkv + i * queries_of(&s), 0, D * sizeof(float));
    const struct spot_cuda_paged p = paged(&s);

    spot_cuda_paged_place(&p, NULL);
    att = attend(p, 0, 1, &part);
    for (int i = 0; i < SHARDS * D; i++) {
        const float *const x = part + i / D * N * ROW;
        float sum = 0, weight = 0;

        for (int k = 0; k < N; k++) {
            sum += x[k * ROW + i % D];
            weight += x[k * ROW + D + 1];
        }
        rig_near("parts in ascending order", SPOT_F32, att, i, (double)(sum / weight), 0);
        rig_equal("parts in ascending order: bits", att[i] == sum / weight, 1);
    }
}

void rig_paged(enum spot_real real)
{
    if (real == SPOT_BF16)
        return; /* activations are fp32 */
    joined_in_order();
    paged_of(
        (struct sequences){ .d = 20, .h = 4, .hk = 2, .run = { { 128, 3 }, { 3, 3 }, { 0, 1 } } });
    /* values in three turns, three parts, more than a tile of 21 tokens with three heads each */
    paged_of((struct sequences){
        .d = 72, .h = 3, .hk = 1, .run = { { 243, 24 }, { 16, 1 }, { 120, 9 } } });
    paged_of((struct sequences){ .d = 260, .h = 1, .hk = 1, .run = { { 17, 2 } } });
    /* more heads that share keys than a block has rows; more tokens than a launch takes */
    paged_of(
        (struct sequences){ .d = 6, .h = 66, .hk = 1, .run = { { 30, 1 }, { 0, 1 }, { 7, 2 } } });
    paged_of(
        (struct sequences){ .d = 4, .h = 1, .hk = 1, .run = { { 0, 200 }, { 2, 70 }, { 9, 1 } } });
}
