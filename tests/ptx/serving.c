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

/* Sequences of which one is longer than a part; the tokens of a run are its last ones. */
enum { ITEMS = 2, SEQ = 160, SHARDS = 2, H = 4, HK = 2, D = 20, LAYERS = 2, LAYER = 1 };
enum { Q = (H + 2 * HK) * D, PAGES = SEQ / PAGE, N_TOKEN = 6 };

struct sequences {
    int32_t *page, *item, *position;
    float *pool, *qkv, *before, *turn;
};

/* Of a page's key (is_value 0) or value. */
static float *slot_of(const struct sequences *s, int item, int position, int shard, int head, int e,
                      int is_value)
{
    float *const page =
        s->pool + ((s->page[item * PAGES + position / PAGE] * LAYERS + LAYER) * SHARDS + shard) *
                      (2 * HK * D * PAGE);

    return is_value ? page + HK * D * PAGE + (head * PAGE + position % PAGE) * D + e
                    : page + (head * D + e) * PAGE + position % PAGE;
}

static void fill(struct sequences *s)
{
    static const int32_t last[N_TOKEN] = { 128, 129, 130, 3, 4, 5 };

    s->page = ptx_memory(ITEMS * PAGES * sizeof(int32_t));
    s->item = ptx_memory(N_TOKEN * sizeof(int32_t));
    s->position = ptx_memory(N_TOKEN * sizeof(int32_t));
    s->pool =
        rig_numbers(SPOT_F32, (int64_t)ITEMS * PAGES * LAYERS * SHARDS * 2 * HK * D * PAGE, 1);
    s->qkv = rig_numbers(SPOT_F32, N_TOKEN * SHARDS * Q, 1);
    s->before = rig_room(SPOT_F32, N_TOKEN * SHARDS * Q);
    s->turn = rig_numbers(SPOT_F32, SEQ * D, 1);
    memcpy(s->before, s->qkv, (size_t)(N_TOKEN * SHARDS * Q) * sizeof(float));
    for (int i = 0; i < ITEMS * PAGES; i++)
        s->page[i] = (int32_t)((i * 7 + 3) % (ITEMS * PAGES)); /* 20 pages: a permutation */
    for (int t = 0; t < N_TOKEN; t++) {
        s->item[t] = t / 3;
        s->position[t] = last[t];
    }
}

static double turned(const struct sequences *s, int token, int shard, int head, int e)
{
    const float *const x = s->before + (token * SHARDS + shard) * Q + head * D;
    const float *const turn = s->turn + s->position[token] * D;
    const int half = D / 2, i = e % half;
    const double a = (double)x[i], b = (double)x[i + half], c = (double)turn[i],
                 w = (double)turn[half + i];

    return e < half ? a * c - b * w : b * c + a * w;
}

static void check_token(const struct sequences *s, const float *att, int token, int shard, int head)
{
    const int n = s->position[token] + 1, kv = head / (H / HK);
    double score[SEQ], out[D] = { 0 }, sum = 0, max = -INFINITY;

    for (int j = 0; j < n; j++) {
        score[j] = 0;
        for (int e = 0; e < D; e++)
            score[j] += turned(s, token, shard, head, e) *
                        (double)*slot_of(s, s->item[token], j, shard, kv, e, 0) / sqrt(D);
        max = fmax(max, score[j]);
    }
    for (int j = 0; j < n; j++) {
        const double p = exp(score[j] - max);

        sum += p;
        for (int e = 0; e < D; e++)
            out[e] += p * (double)*slot_of(s, s->item[token], j, shard, kv, e, 1);
    }
    for (int e = 0; e < D; e++)
        rig_near("attention over pages", SPOT_F32, att,
                 ((token * SHARDS + shard) * H + head) * D + e, out[e] / sum, 1e-5);
}

void rig_paged(enum spot_real real)
{
    struct sequences s;
    struct spot_cuda_paged p = { .dim = D,
                                 .n_head = H,
                                 .n_kv_head = HK,
                                 .n_shard = SHARDS,
                                 .n_layer = LAYERS,
                                 .layer = LAYER,
                                 .page_stride = PAGES,
                                 .n_token = N_TOKEN,
                                 .seq = SEQ };

    if (real == SPOT_BF16)
        return; /* activations are fp32 */
    fill(&s);
    p.qkv = s.qkv;
    p.att = rig_room(SPOT_F32, N_TOKEN * SHARDS * H * D);
    p.pool = s.pool;
    p.page = s.page;
    p.item = s.item;
    p.position = s.position;
    p.turn = s.turn;
    p.partial = rig_room(SPOT_F32, (int64_t)spot_cuda_paged_elem(N_TOKEN, SHARDS * H, D, SEQ));
    spot_cuda_paged_place(&p, NULL);
    spot_cuda_paged_attend(&p, 130, NULL);
    for (int t = 0; t < N_TOKEN; t++)
        for (int shard = 0; shard < SHARDS; shard++) {
            for (int h = 0; h < HK; h++)
                for (int e = 0; e < D; e++) {
                    rig_near("key in its page", SPOT_F32,
                             slot_of(&s, s.item[t], s.position[t], shard, h, e, 0), 0,
                             turned(&s, t, shard, H + h, e), 2e-6);
                    rig_near("value in its page", SPOT_F32,
                             slot_of(&s, s.item[t], s.position[t], shard, h, e, 1), 0,
                             (double)s.before[(t * SHARDS + shard) * Q + (H + HK + h) * D + e], 0);
                }
            for (int h = 0; h < H; h++)
                check_token(&s, p.att, t, shard, h);
        }
}
