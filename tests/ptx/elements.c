/* SPDX-License-Identifier: MIT */
/* Kernels that go element by element or row by row, against double precision. */
#include <math.h>
#include <string.h>

#include "ptx/rig.h"

static double gelu(double x, double *slope)
{
    const double a = 0.7978845608028654, t = tanh(a * (x + 0.044715 * x * x * x));

    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

void rig_elements(enum spot_real real)
{
    enum { N = 777, C = 7 };
    const float *const from = rig_numbers(SPOT_F32, N, 4);
    void *const a = rig_numbers(real, N, 4), *const b = rig_numbers(real, N, 4),
                *const y = rig_room(real, N);
    void *const narrow = rig_room(real, N), *const act = rig_room(real, N),
                *const d = rig_numbers(real, N, 2);
    void *const finished = rig_room(real, N), *const plain = rig_room(real, N);
    float *const wide = rig_room(SPOT_F32, N);
    double before[N], slope;

    for (int i = 0; i < N; i++)
        before[i] = rig_at(real, d, i);
    spot_cuda_narrow(real, narrow, from, N, NULL);
    spot_cuda_widen(real, wide, a, N, NULL);
    spot_cuda_add(real, y, a, b, N, NULL);
    spot_cuda_finish(real, finished, from, b, N / C, C, NULL);
    spot_cuda_finish(real, plain, from, NULL, N / C, C, NULL);
    spot_cuda_gelu(real, act, a, N, NULL);
    spot_cuda_gelu_back(real, d, a, N, NULL);
    for (int i = 0; i < N; i++) {
        const double x = rig_at(real, a, i);

        rig_near("narrow", real, narrow, i, from[i], 0);
        rig_near("widen", SPOT_F32, wide, i, x, 0);
        rig_near("add", real, y, i, x + rig_at(real, b, i), 0);
        rig_near("finish", real, finished, i, from[i] + rig_at(real, b, i % C), 0);
        rig_near("finish", real, plain, i, from[i], 0);
        rig_near("gelu", real, act, i, gelu(x, &slope), 1e-6);
        rig_near("gelu back", real, d, i, before[i] * slope, 1e-6);
    }
}

static double silu(double x, double *slope)
{
    const double s = 1 / (1 + exp(-x));

    *slope = s + x * s * (1 - s);
    return x * s;
}

static void swiglu_of(enum spot_real real, int ffn, int n_shard)
{
    enum { ROWS = 3 };
    const int per = ffn / n_shard;
    void *const pre = rig_numbers(real, ROWS * 2 * ffn, 5), *const act = rig_room(real, ROWS * ffn);
    void *const dact = rig_numbers(real, ROWS * ffn, 2), *const dpre =
                                                             rig_room(real, ROWS * 2 * ffn);
    void *const again = rig_room(real, ROWS * ffn);

    spot_cuda_swiglu(real, act, pre, ROWS, ffn, n_shard, NULL);
    spot_cuda_swiglu_back(real, dpre, again, pre, dact, ROWS, ffn, n_shard, NULL);
    for (int i = 0; i < ROWS * ffn; i++) {
        const int at = i / ffn * 2 * ffn + i % ffn / per * 2 * per + i % ffn % per;
        const double gate = rig_at(real, pre, at), up = rig_at(real, pre, at + per),
                     by = rig_at(real, dact, i);
        double slope;
        const double s = silu(gate, &slope);

        rig_near("swiglu", real, act, i, s * up, 1e-6);
        rig_near("swiglu again", real, again, i, s * up, 1e-6);
        rig_near("gate", real, dpre, at, by * up * slope, 1e-5);
        rig_near("up", real, dpre, at + per, by * s, 1e-6);
    }
}

void rig_swiglu(enum spot_real real)
{
    swiglu_of(real, 34, 2);
    swiglu_of(real, 4096, 2); /* more than a block at once */
}

/* --- norms ------------------------------------------------------------------------- */

struct normed {
    enum spot_real real;
    int n, c;
    bool is_rms;
    const void *a, *b, *x, *dy, *base;
    const float *w, *bias;
};

static void row_of(const struct normed *m, int r, double *mean, double *rstd)
{
    double s = 0, q = 0;

    for (int i = 0; i < m->c; i++)
        s += rig_at(m->real, m->x, r * m->c + i);
    *mean = m->is_rms ? 0 : s / m->c;
    for (int i = 0; i < m->c; i++)
        q += pow(rig_at(m->real, m->x, r * m->c + i) - *mean, 2);
    *rstd = 1 / sqrt(q / m->c + 1e-5);
}

static void check_row(const struct normed *m, int r, const float *stat, const void *y,
                      const void *again, const void *dx)
{
    double mean, rstd, s = 0, q = 0;

    row_of(m, r, &mean, &rstd);
    rig_near("mean", SPOT_F32, stat, 2 * r, mean, 1e-6);
    rig_near("rstd", SPOT_F32, stat, 2 * r + 1, rstd, 1e-5);
    for (int i = 0; i < m->c; i++) {
        const double d = rig_at(m->real, m->dy, r * m->c + i) * (double)m->w[i];

        s += m->is_rms ? 0 : d / m->c;
        q += d * (rig_at(m->real, m->x, r * m->c + i) - mean) * rstd / m->c;
    }
    for (int i = 0; i < m->c; i++) {
        const int64_t at = r * m->c + i;
        const double hat = (rig_at(m->real, m->x, at) - mean) * rstd;
        const double want = hat * (double)m->w[i] + (m->bias ? (double)m->bias[i] : 0);

        rig_near("norm", m->real, y, at, want, 1e-5);
        rig_near("norm again", m->real, again, at, want, 1e-5);
        rig_near("norm back", m->real, dx, at,
                 (m->base ? rig_at(m->real, m->base, at) : 0) +
                     (rig_at(m->real, m->dy, at) * (double)m->w[i] - s - hat * q) * rstd,
                 1e-5);
    }
}

static void norm_of(enum spot_real real, int n, int c, bool is_rms, bool is_sum)
{
    const void *const a = rig_numbers(real, n * c, 2), *const b = is_sum
                                                                      ? rig_numbers(real, n * c, 2)
                                                                      : NULL;
    void *const x = rig_room(real, n * c), *const y = rig_room(real, n * c),
                *const again = rig_room(real, n * c);
    void *const dx = rig_room(real, n * c);
    float *const stat = rig_room(SPOT_F32, 2 * n);
    const struct normed m = { .real = real,
                              .n = n,
                              .c = c,
                              .is_rms = is_rms,
                              .a = a,
                              .b = b,
                              .x = is_sum ? x : a,
                              .dy = rig_numbers(real, n * c, 1),
                              .base = is_sum ? a : NULL,
                              .w = rig_numbers(SPOT_F32, c, 2),
                              .bias = is_rms ? NULL : rig_numbers(SPOT_F32, c, 1) };

    spot_cuda_norm(real, x, y, stat, a, b, m.w, m.bias, 1e-5F, n, c, NULL);
    spot_cuda_norm_again(real, again, stat, m.x, m.w, m.bias, n, c, NULL);
    spot_cuda_norm_back(real, dx, m.base, m.dy, stat, m.x, m.w, is_rms, n, c, NULL);
    for (int i = 0; is_sum && i < n * c; i++)
        rig_near("sum of a norm", real, x, i, rig_at(real, a, i) + rig_at(real, b, i), 0);
    for (int r = 0; r < n; r++)
        check_row(&m, r, stat, y, again, dx);
}

void rig_norms(enum spot_real real)
{
    norm_of(real, 11, 320, false, true);
    norm_of(real, 9, 37, false, false);
    norm_of(real, 9, 40, true, true);
    norm_of(real, 3, 37, true, false);
}

/* Bits of a column's sum and of that times xhat: chains over 256 rows, then the chains in order. */
static void chains(enum spot_real real, const void *dy, const float *stat, const void *x, int n_row,
                   int64_t c, int64_t i, float all[2])
{
    all[0] = all[1] = 0;
    for (int begin = 0; begin < n_row; begin += 256) {
        float chain[2] = { 0, 0 };

        for (int r = begin; r < begin + 256 && r < n_row; r++) {
            const float d = (float)rig_at(real, dy, r * c + i),
                        v = (float)rig_at(real, x, r * c + i);

            chain[0] += d;
            chain[1] = fmaf(d * (v - stat[2 * r]), stat[2 * r + 1], chain[1]);
        }
        all[0] += chain[0];
        all[1] += chain[1];
    }
}

static void columns_of(enum spot_real real, int n_row, int c)
{
    const void *const dy = rig_numbers(real, (int64_t)n_row * c, 1), *const x = rig_numbers(
                                                                         real, (int64_t)n_row * c,
                                                                         1);
    const float *const stat = rig_numbers(SPOT_F32, 2 * (int64_t)n_row, 1);
    float *const partial = rig_room(SPOT_F32, (int64_t)spot_cuda_partial_elem(n_row, c));
    float *const dw = rig_room(SPOT_F32, c), *const db = rig_room(SPOT_F32, c),
                 *const sum = rig_room(SPOT_F32, c);

    spot_cuda_norm_grad(real, dw, db, partial, dy, stat, x, n_row, c, NULL);
    spot_cuda_column_sum(real, sum, partial, dy, n_row, c, NULL);
    for (int i = 0; i < c; i++) {
        double s = 0, hat = 0;
        float all[2];

        for (int r = 0; r < n_row; r++) {
            const double d = rig_at(real, dy, r * c + i);

            s += d;
            hat += d * (rig_at(real, x, r * c + i) - (double)stat[2 * r]) * (double)stat[2 * r + 1];
        }
        rig_near("column sums", SPOT_F32, sum, i, s, 1e-4);
        rig_near("dw", SPOT_F32, dw, i, hat, 1e-4);
        chains(real, dy, stat, x, n_row, c, i, all);
        rig_equal("bits of a column's sum", memcmp(&sum[i], &all[0], sizeof(float)), 0);
        rig_equal("bits of db", memcmp(&db[i], &all[0], sizeof(float)), 0);
        rig_equal("bits of dw", memcmp(&dw[i], &all[1], sizeof(float)), 0);
    }
}

void rig_columns(enum spot_real real)
{
    columns_of(real, 521, 9);
    columns_of(real, 263, 12);
}
