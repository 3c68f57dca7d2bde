/* SPDX-License-Identifier: MIT */
/* Embedding, classifier, sums and the update, against double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/rig.h"

enum { B = 3, T = 5, N = B * T, V = 23, VR = 32, TOKENS = B * (T + 1) };

static uint32_t *tokens(int vocab)
{
    uint32_t *const token = ptx_memory(TOKENS * sizeof(*token));

    for (int i = 0; i < TOKENS; i++)
        token[i] = (uint32_t)((rig_draw() + 1) / 2.0001 * vocab);
    return token;
}

static struct spot_cuda_target target_of(int64_t n, int n_shard, int64_t gap)
{
    const struct spot_cuda_target t = { .sum = ptx_memory((size_t)(n + n_shard * gap) *
                                                          sizeof(int64_t)),
                                        .top = ptx_memory(sizeof(uint32_t)),
                                        .per_shard = n / n_shard,
                                        .shard_stride = n / n_shard + gap,
                                        .scale = 0x1p30 };

    memset(t.sum, 0, (size_t)(n + n_shard * gap) * sizeof(int64_t));
    memset(t.top, 0, sizeof(uint32_t));
    return t;
}

static int64_t sum_at(const struct spot_cuda_target *t, int64_t i)
{
    return t->sum[i / t->per_shard * t->shard_stride + i % t->per_shard];
}

/* The sum of one gradient, and what of it raises the top. */
static void check_sum(const char *what, const struct spot_cuda_target *t, int64_t i, double want,
                      double *top)
{
    const float got = (float)ldexp((double)sum_at(t, i), -30);

    rig_near(what, SPOT_F32, &got, 0, want, 1e-5);
    *top = fabs(want) > *top ? fabs(want) : *top;
}

void rig_embedding(enum spot_real real)
{
    enum { C = 300 };
    const uint32_t *const token = tokens(V);
    const void *const wte = rig_numbers(real, VR * C, 1), *const wpe = rig_numbers(real, T * C, 1),
                      *const dout = rig_numbers(real, N * C, 1);
    void *const out = rig_room(real, N * C), *const bare = rig_room(real, N * C);
    const struct spot_cuda_target embed = target_of(VR * C, 4, 8), pe = target_of(T * C, 1, 0);
    uint32_t *const group = ptx_memory(4 * (N + 1) * sizeof(*group)), *const start = group + N,
                    *const order = start + N + 1;
    struct spot_cuda_groups groups = { group, start, order, 0 };
    double embed_top = 0, pe_top = 0;
    uint32_t n = 0;

    for (uint32_t v = 0; v < V; v++) {
        const uint32_t before = n;

        for (uint32_t r = 0; r < N; r++)
            if (token[r / T * (T + 1) + r % T] == v)
                order[n++] = r;
        if (n > before) {
            group[groups.n_group] = v;
            start[groups.n_group++] = before;
        }
    }
    start[groups.n_group] = n;
    spot_cuda_embed(real, out, wte, wpe, token, N, T, C, NULL);
    spot_cuda_embed(real, bare, wte, NULL, token, N, T, C, NULL);
    spot_cuda_embed_back(real, &embed, &pe, &groups, dout, N, T, C, NULL);
    for (int i = 0; i < N * C; i++) {
        const int64_t at = token[i / C / T * (T + 1) + i / C % T] * (int64_t)C + i % C;

        rig_near("embedding", real, out, i,
                 rig_at(real, wte, at) + rig_at(real, wpe, i / C % T * C + i % C), 0);
        rig_near("embedding", real, bare, i, rig_at(real, wte, at), 0);
    }
    for (int64_t i = 0; i < VR * C; i++) {
        double g = 0;

        for (int r = 0; r < N; r++)
            g += token[r / T * (T + 1) + r % T] == i / C ? rig_at(real, dout, r * C + i % C) : 0;
        check_sum("gradient of a token", &embed, i, g, &embed_top);
    }
    for (int64_t i = 0; i < T * C; i++) {
        double g = 0;

        for (int r = (int)(i / C); r < N; r += T)
            g += rig_at(real, dout, r * C + i % C);
        check_sum("gradient of a position", &pe, i, g, &pe_top);
    }
    rig_near("top of tokens", SPOT_F32, embed.top, 0, embed_top, 1e-6);
    rig_near("top of positions", SPOT_F32, pe.top, 0, pe_top, 1e-6);
}

/* --- classifier ------------------------------------------------------------------------ */

/* Row r of softmax, before it is overwritten. */
static double loss_of(const double *x, int vocab, int target, double *p)
{
    double max = x[0], sum = 0;

    for (int i = 0; i < vocab; i++)
        max = x[i] > max ? x[i] : max;
    for (int i = 0; i < vocab; i++)
        sum += exp(x[i] - max);
    for (int i = 0; i < vocab; i++)
        p[i] = exp(x[i] - max) / sum - (i == target);
    return log(sum) + max - x[target];
}

/* The larger vocabulary gives every warp of a block something to say. */
enum { WIDE = 700, WIDE_ROWS = 704 };

static double kept[N][WIDE_ROWS];

static void keep(enum spot_real real, const void *logit)
{
    for (int i = 0; i < N * WIDE_ROWS; i++)
        kept[i / WIDE_ROWS][i % WIDE_ROWS] = rig_at(real, logit, i);
}

static void check_losses(enum spot_real real, const double *loss, const void *logit, int member,
                         int n_member, const uint32_t *token)
{
    const int own = WIDE_ROWS / n_member;
    double p[WIDE_ROWS];

    for (int r = 0; r < N; r++) {
        const int target = (int)token[r / T * (T + 1) + r % T + 1];
        const float got = (float)loss[r];

        memset(p, 0, sizeof(p));
        rig_near("loss", SPOT_F32, &got, 0, loss_of(kept[r], WIDE, target, p), 1e-5);
        for (int i = 0; i < own; i++)
            rig_near("gradient of a logit", real, logit, r * own + i, p[member * own + i] / N,
                     1e-7);
    }
}

void rig_classifier(enum spot_real real)
{
    const uint32_t *const token = tokens(WIDE);
    void *const logit = rig_numbers(real, N * WIDE_ROWS, 6);
    double *const loss = ptx_memory(N * sizeof(*loss));

    keep(real, logit);
    spot_cuda_classify(real, logit, loss, token, N, T, WIDE, WIDE_ROWS, NULL);
    check_losses(real, loss, logit, 0, 1, token);
}

/* Two members with two shards each; both sums are added here, as their group does. */
void rig_shards(enum spot_real real)
{
    enum { M = 2, S = 4, OWN = WIDE_ROWS / M };
    const uint32_t *const token = tokens(WIDE);
    const void *const all = rig_numbers(real, N * WIDE_ROWS, 6);
    float *const top = rig_room(SPOT_F32, M * 2 * N), *const sum = rig_room(SPOT_F32, S * N),
                 *const total = rig_room(SPOT_F32, N);
    double *const loss = ptx_memory(N * sizeof(*loss));
    const size_t each = real == SPOT_BF16 ? 2 : 4;
    struct spot_cuda_logits l[M];

    keep(real, all);
    for (int m = 0; m < M; m++) {
        l[m] = (struct spot_cuda_logits){ real, rig_room(real, N * OWN), token,     N,    T,
                                          WIDE, WIDE_ROWS / S,           m * S / M, S / M };
        for (int r = 0; r < N; r++)
            memcpy((char *)l[m].logit + (size_t)r * OWN * each,
                   (const char *)all + ((size_t)r * WIDE_ROWS + (size_t)m * OWN) * each,
                   OWN * each);
        spot_cuda_logit_tops(&l[m], top + m * 2 * N, NULL);
    }
    for (int m = 0; m < M; m++)
        spot_cuda_logit_sums(&l[m], sum + m * S / M * N, top, M, NULL);
    for (int r = 0; r < N; r++)
        total[r] = sum[r] + sum[N + r] + sum[2 * N + r] + sum[3 * N + r];
    for (int m = 0; m < M; m++) {
        spot_cuda_logit_losses(&l[m], loss, total, top, M, NULL);
        check_losses(real, loss, l[m].logit, m, M, token);
    }
}

/* --- sums and update ----------------------------------------------------------------------- */

static void quantise_of(int per_shard, int more)
{
    enum { SHARDS = 2, MOST = 1300 };
    const int n = SHARDS * per_shard;
    const struct spot_cuda_target t = target_of(n, SHARDS, more);
    const float *const grad = rig_numbers(SPOT_F32, n, 2);
    float *const rough = rig_room(SPOT_F32, n);
    int64_t *const a = ptx_memory(3 * (size_t)n * sizeof(*a)), *const b = a + n,
                   *const back = b + n;
    int64_t joined[MOST];
    float top = 0;

    for (int i = 0; i < n; i++) {
        a[i] = (int64_t)(rig_draw() * 0x1p40);
        b[i] = (int64_t)(rig_draw() * 0x1p40);
        joined[i] = a[i] + b[i];
        top = fabsf(grad[i]) > top ? fabsf(grad[i]) : top;
    }
    spot_cuda_quantise(&t, grad, n, NULL);
    spot_cuda_quantise(&t, grad, n, NULL);
    spot_cuda_join_sums(a, b, n, NULL);
    spot_cuda_sums_to_floats(rough, a, n, NULL);
    spot_cuda_sums_of_floats(back, rough, n, NULL);
    for (int i = 0; i < n; i++) {
        rig_equal("a fixed-point sum", sum_at(&t, i),
                  2 * (int64_t)nearbyint((double)grad[i] * 0x1p30));
        rig_equal("a joined sum", a[i], joined[i]);
        rig_equal("a joined sum", b[i], joined[i]);
        rig_near("a rough sum", SPOT_F32, rough, i, (double)joined[i], 0);
        rig_equal("back from rough", back[i], (int64_t)rough[i]);
    }
    rig_equal("top", memcmp(t.top, &top, sizeof(top)), 0);
}

void rig_quantise(enum spot_real real)
{
    (void)real;
    quantise_of(617, 6);
    quantise_of(616, 8);
}

/* Shards whose sizes, and places in the compute copy, are no multiples of 4, beside one that is
 * larger than a block takes at once. */
enum { CHUNKS = 5, ROOM = 4096 };
static const struct spot_cuda_chunk chunks[CHUNKS] = { { 0, 0, 30, 0 },
                                                       { 64, 30, 30, 0 },
                                                       { 128, 256, 1, 1 },
                                                       { 192, 512, 1501, 2 },
                                                       { 1728, 2013, 1501, 2 } };

static void check_adamw(enum spot_real real, const struct spot_adamw_step *step,
                        const struct spot_cuda_planes *on, const float *before,
                        const struct spot_cuda_chunk *c)
{
    for (int i = 0; i < c->n; i++) {
        const int64_t e = c->arena + i;
        const double g = (double)on->sum[e] * step->unit;
        const double m = (double)step->beta1 * (double)before[ROOM + e] + (double)step->rest1 * g;
        const double v =
            (double)step->beta2 * (double)before[2 * ROOM + e] + (double)step->rest2 * g * g;
        const double w = (double)before[e];
        const double want =
            w - (double)step->lr * (m * (double)step->m_correction /
                                        (sqrt(v * (double)step->v_correction) + (double)step->eps) +
                                    (double)step->weight_decay * w);

        rig_near("m", SPOT_F32, on->plane[SPOT_PLANE_M], e, m, 1e-7);
        rig_near("v", SPOT_F32, on->plane[SPOT_PLANE_V], e, v, 1e-7);
        rig_near("weight", SPOT_F32, on->plane[SPOT_PLANE_MASTER], e, want, 1e-6);
        rig_near("compute copy", real, on->weight, c->weight + i,
                 (double)on->plane[SPOT_PLANE_MASTER][e], 0);
    }
}

void rig_update(enum spot_real real)
{
    struct spot_cuda_planes on = { .sum = ptx_memory(ROOM * sizeof(int64_t)),
                                   .weight = rig_room(real, ROOM),
                                   .n_chunk = CHUNKS };
    struct spot_cuda_chunk *const chunk = ptx_memory(sizeof(chunks));
    unsigned long long *const top = ptx_memory(SPOT_TENSORS_MAX * sizeof(*top));
    double *const partial = ptx_memory(CHUNKS * sizeof(*partial));
    struct spot_cuda_units units = { { 0 } };
    struct spot_cuda_steps steps;
    static float before[3 * ROOM];

    memcpy(chunk, chunks, sizeof(chunks));
    on.chunk = chunk;
    memset(top, 0, SPOT_TENSORS_MAX * sizeof(*top));
    memset(&steps, 0, sizeof(steps));
    for (int t = 0; t < 3; t++) {
        units.unit[t] = ldexp(1, -30 - t);
        steps.step[t] = (struct spot_adamw_step){
            ldexp(1, -30 - t), 1e-2F, 0.9F, 0.99F, 1e-8F, 0.1F, 0.01F, 3, 5, 0.1F
        };
    }
    for (int p = 0; p < SPOT_PLANES; p++) {
        on.plane[p] = rig_numbers(SPOT_F32, ROOM, 1);
        for (int i = 0; i < ROOM; i++)
            before[p * ROOM + i] = on.plane[p][i] =
                p == SPOT_PLANE_V ? fabsf(on.plane[p][i]) : on.plane[p][i];
    }
    for (int i = 0; i < ROOM; i++)
        on.sum[i] = (int64_t)(rig_draw() * 0x1p30);
    spot_cuda_gather(real, &on, NULL);
    for (int c = 0; c < CHUNKS; c++)
        for (int i = 0; i < chunks[c].n; i++)
            rig_near("gather", real, on.weight, chunks[c].weight + i,
                     (double)before[chunks[c].arena + i], 0);
    spot_cuda_norm2(&on, partial, &units, NULL);
    spot_cuda_adamw(real, &on, top, &steps, NULL);
    for (int c = 0; c < CHUNKS; c++) {
        double norm2 = 0;
        float got;

        for (int i = 0; i < chunks[c].n; i++)
            norm2 += pow((double)on.sum[chunks[c].arena + i] * units.unit[chunks[c].tensor], 2);
        got = (float)(partial[c] / norm2);
        rig_near("norm of a chunk", SPOT_F32, &got, 0, 1, 1e-6);
        check_adamw(real, &steps.step[chunks[c].tensor], &on, before, &chunks[c]);
    }
    for (int t = 0; t < 3; t++) {
        int64_t most = 0;

        for (int c = 0; c < CHUNKS; c++)
            for (int i = 0; chunks[c].tensor == t && i < chunks[c].n; i++)
                most = llabs(on.sum[chunks[c].arena + i]) > most
                           ? llabs(on.sum[chunks[c].arena + i])
                           : most;
        rig_equal("top of a tensor", (int64_t)top[t], most);
    }
}
