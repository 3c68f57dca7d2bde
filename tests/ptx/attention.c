/* SPDX-License-Identifier: MIT */
/* Attention and rotation, against double precision. */
#include <math.h>
#include <stdlib.h>

#include "ptx/rig.h"

struct shape {
    int n_seq, seq, dim, n_head, n_kv_head, n_shard;
};

static int64_t width_of(const struct shape *s)
{
    return (int64_t)(s->n_head + 2 * s->n_kv_head) * s->dim;
}

/* Number e of head `head` of part 0 q, 1 k, 2 v in row r of qkv. */
static int64_t place(const struct shape *s, int part, int64_t r, int head, int e)
{
    const int per = s->n_head / s->n_shard, kv = s->n_kv_head / s->n_shard, each = part ? kv : per;
    const int shard = head / each, before = part == 0 ? 0 : part == 1 ? per : per + kv;

    return r * width_of(s) + ((int64_t)shard * (per + 2 * kv) + before + head % each) * s->dim + e;
}

struct exact {
    const struct shape *s;
    enum spot_real real;
    const void *qkv, *dout;
    double *p, *dqkv; /* [T] of a row; [N * Q] */
};

/* Row `row` of head h of sequence b: its output in out [d], its log-sum in *lse, and p. */
static void forward(struct exact *x, int b, int h, int row, double *out, double *lse)
{
    const struct shape *const s = x->s;
    const int kv = h / (s->n_head / s->n_kv_head);
    const int64_t r0 = (int64_t)b * s->seq;
    double max = -INFINITY, sum = 0;

    for (int j = 0; j <= row; j++) {
        x->p[j] = 0;
        for (int e = 0; e < s->dim; e++)
            x->p[j] += rig_at(x->real, x->qkv, place(s, 0, r0 + row, h, e)) *
                       rig_at(x->real, x->qkv, place(s, 1, r0 + j, kv, e));
        x->p[j] /= sqrt(s->dim);
        max = fmax(max, x->p[j]);
    }
    for (int j = 0; j <= row; j++)
        sum += exp(x->p[j] - max);
    *lse = max + log(sum);
    for (int e = 0; e < s->dim; e++)
        out[e] = 0;
    for (int j = 0; j <= row; j++) {
        x->p[j] = exp(x->p[j] - *lse);
        for (int e = 0; e < s->dim; e++)
            out[e] += x->p[j] * rig_at(x->real, x->qkv, place(s, 2, r0 + j, kv, e));
    }
}

/* Adds what row `row` gives to the gradients of q, k and v. */
static void backward(struct exact *x, int b, int h, int row, const double *out)
{
    const struct shape *const s = x->s;
    const int kv = h / (s->n_head / s->n_kv_head);
    const int64_t r0 = (int64_t)b * s->seq, at = ((r0 + row) * s->n_head + h) * s->dim;
    double dot = 0;

    for (int e = 0; e < s->dim; e++)
        dot += out[e] * rig_at(x->real, x->dout, at + e);
    for (int j = 0; j <= row; j++) {
        double dp = 0;

        for (int e = 0; e < s->dim; e++)
            dp += rig_at(x->real, x->dout, at + e) *
                  rig_at(x->real, x->qkv, place(s, 2, r0 + j, kv, e));
        dp = x->p[j] * (dp - dot) / sqrt(s->dim);
        for (int e = 0; e < s->dim; e++) {
            x->dqkv[place(s, 0, r0 + row, h, e)] +=
                dp * rig_at(x->real, x->qkv, place(s, 1, r0 + j, kv, e));
            x->dqkv[place(s, 1, r0 + j, kv, e)] +=
                dp * rig_at(x->real, x->qkv, place(s, 0, r0 + row, h, e));
            x->dqkv[place(s, 2, r0 + j, kv, e)] += x->p[j] * rig_at(x->real, x->dout, at + e);
        }
    }
}

/* The same once more with five products: the same bits. */
static void five_products(struct spot_cuda_attention at, size_t n)
{
    const uint16_t *const seven = at.dqkv;
    uint16_t *const five = rig_room(SPOT_BF16, (int64_t)n);

    at.dqkv = five;
    at.dq = rig_room(SPOT_F32, at.n_seq * at.n_head * at.seq * at.dim);
    spot_cuda_attention_backward(&at, NULL);
    for (size_t i = 0; i < n; i++)
        rig_equal("a gradient of five products, as bits,", five[i], seven[i]);
}

static void attention_of(enum spot_real real, const struct shape *s)
{
    const int64_t n = (int64_t)s->n_seq * s->seq, c = (int64_t)s->n_head * s->dim, q = width_of(s);
    const double slack = real == SPOT_BF16 ? 2e-2 : 1e-5;
    const struct spot_cuda_attention at = { .real = real,
                                            .n_seq = s->n_seq,
                                            .seq = s->seq,
                                            .dim = s->dim,
                                            .n_head = s->n_head,
                                            .n_kv_head = s->n_kv_head,
                                            .n_shard = s->n_shard,
                                            .qkv = rig_numbers(real, n * q, 1.5),
                                            .out = rig_room(real, n * c),
                                            .lse = rig_room(SPOT_F32, n * s->n_head),
                                            .dout = rig_numbers(real, n * c, 1),
                                            .dqkv = rig_room(real, n * q),
                                            .dot = rig_room(SPOT_F32, n * s->n_head) };
    struct exact x = { s,
                       real,
                       at.qkv,
                       at.dout,
                       calloc((size_t)s->seq, sizeof(double)),
                       calloc((size_t)(n * q), sizeof(double)) };
    double *const out = calloc((size_t)s->dim, sizeof(*out)), lse;

    spot_cuda_attention_forward(&at, NULL);
    spot_cuda_attention_backward(&at, NULL);
    for (int i = 0; i < s->n_seq * s->n_head * s->seq; i++) {
        const int row = i % s->seq, h = i / s->seq % s->n_head, b = i / s->seq / s->n_head;

        forward(&x, b, h, row, out, &lse);
        backward(&x, b, h, row, out);
        rig_near("lse", SPOT_F32, at.lse, i, lse, 1e-4);
        for (int e = 0; e < s->dim; e++)
            rig_near("attention", real, at.out,
                     (((int64_t)b * s->seq + row) * s->n_head + h) * s->dim + e, out[e], slack);
    }
    for (int64_t i = 0; i < n * q; i++)
        rig_near("gradient of qkv", real, at.dqkv, i, x.dqkv[i], 2 * slack);
    if (real == SPOT_BF16 && s->dim >= 64)
        five_products(at, (size_t)(n * q));
    free(out);
    free(x.p);
    free(x.dqkv);
}

void rig_rows_attention(enum spot_real real)
{
    attention_of(real, &(struct shape){ 2, 37, 10, 2, 2, 2 });
    attention_of(real, &(struct shape){ 1, 5, 40, 4, 2, 1 });
}

void rig_flash_64(enum spot_real real)
{
    (void)real;
    attention_of(SPOT_BF16, &(struct shape){ 1, 131, 64, 2, 1, 1 });
    attention_of(SPOT_BF16, &(struct shape){ 2, 30, 64, 2, 2, 2 });
    attention_of(SPOT_BF16, &(struct shape){ 1, 259, 64, 1, 1, 1 });
}

void rig_flash_128(enum spot_real real)
{
    (void)real;
    attention_of(SPOT_BF16, &(struct shape){ 1, 131, 128, 2, 1, 1 });
    attention_of(SPOT_BF16, &(struct shape){ 1, 40, 128, 2, 2, 1 });
}

void rig_rotation(enum spot_real real)
{
    const struct shape s = { 2, 7, 10, 4, 2, 2 };
    const int64_t n = s.n_seq * s.seq, q = width_of(&s);
    const struct spot_cuda_attention at = { real,        s.n_seq,   s.seq, s.dim, s.n_head,
                                            s.n_kv_head, s.n_shard, NULL,  NULL,  NULL,
                                            NULL,        NULL,      NULL,  NULL };
    float *const turn = ptx_memory((size_t)(s.seq * s.dim) * sizeof(*turn));
    double *const before = calloc((size_t)(n * q), sizeof(*before));
    void *const x = rig_numbers(real, n * q, 2);
    const int half = s.dim / 2;

    for (int i = 0; i < s.seq * half; i++) {
        turn[i / half * s.dim + i % half] = cosf((float)i);
        turn[i / half * s.dim + half + i % half] = sinf((float)i);
    }
    for (int64_t i = 0; i < n * q; i++)
        before[i] = rig_at(real, x, i);
    spot_cuda_rotate(&at, x, turn, -1, NULL);
    for (int64_t r = 0; r < n; r++)
        for (int i = 0; i < (s.n_head + s.n_kv_head) * half; i++) {
            const int h = i / half, e = i % half, part = h >= s.n_head;
            const int64_t a = place(&s, part, r, part ? h - s.n_head : h, e), b = a + half;
            const double cosine = (double)turn[r % s.seq * s.dim + e],
                         sine = -(double)turn[r % s.seq * s.dim + half + e];

            rig_near("rotation", real, x, a, before[a] * cosine - before[b] * sine, 1e-5);
            rig_near("rotation", real, x, b, before[b] * cosine + before[a] * sine, 1e-5);
        }
    for (int64_t i = 0; i < n * s.n_kv_head * s.dim; i++) {
        const int64_t at_v =
            place(&s, 2, i / s.dim / s.n_kv_head, (int)(i / s.dim % s.n_kv_head), (int)(i % s.dim));

        rig_near("a value, which does not turn", real, x, at_v, before[at_v], 0);
    }
    free(before);
}
