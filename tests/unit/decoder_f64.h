/* SPDX-License-Identifier: MIT */
/* decoder_f64.h - the same decoder once more, in double precision and naive loops.
 *
 * An oracle for tests: shares no code with the engine but the arena's offsets. Weights and
 * gradients are double arrays with the arena's element offsets, one per bundle.
 */
#ifndef SPOT_TESTS_DECODER_F64_H
#define SPOT_TESTS_DECODER_F64_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shard/arena.h"

struct f64_model {
    struct spot_shape shape;
    int micro_batch;
    bool is_weighted;        /* T factors of losses are behind the tokens of a sequence */
    double **weight, **grad; /* [bundle][arena.n_elem] */
};

/* Where the words of the sequence of a row begin. */
static const uint32_t *f64_sequence(const struct f64_model *m, const uint32_t *word, int64_t row)
{
    const int64_t T = m->shape.seq;

    return word + row / T * (T + 1 + (m->is_weighted ? T : 0));
}

static double f64_factor(const struct f64_model *m, const uint32_t *word, int64_t row)
{
    const int64_t T = m->shape.seq;
    float factor = 1;

    if (m->is_weighted)
        memcpy(&factor, f64_sequence(m, word, row) + T + 1 + row % T, sizeof(factor));
    return factor;
}

static double f64_eps(const struct f64_model *m)
{
    return m->shape.norm_eps > 0 ? m->shape.norm_eps : 1e-5;
}

static double *f64_new(int64_t n)
{
    double *x;

    if (n < 0 || n > 1 << 28)
        abort();
    x = calloc((size_t)n + 1, sizeof(*x));
    if (!x)
        abort();
    return x;
}

/* Where a tensor lies in the planes of its bundle. */
struct f64_place {
    struct spot_arena arena;
    int t;
};

static struct f64_place f64_find(const struct f64_model *m, int bundle, const char *name)
{
    struct f64_place p;

    spot_arena_of(&m->shape, bundle, &p.arena);
    p.t = spot_arena_find(&p.arena, name);
    return p;
}

/* First element of a row, counted through all shards. */
static size_t f64_row(const struct f64_place *p, int64_t row)
{
    const struct spot_tensor *const t = &p->arena.tensor[p->t];

    return spot_arena_offset(&p->arena, p->t, (int)(row / t->rows)) +
           (size_t)(row % t->rows * t->cols);
}

/* A tensor copied out of its shards, [rows of all shards][cols]; and gradients added back. */
static double *f64_read(const struct f64_model *m, int bundle, const char *name, int64_t rows,
                        int64_t cols)
{
    const struct f64_place p = f64_find(m, bundle, name);
    double *const x = f64_new(rows * cols);

    for (int64_t r = 0; r < rows; r++)
        memcpy(x + r * cols, m->weight[bundle] + f64_row(&p, r), (size_t)cols * sizeof(*x));
    return x;
}

static void f64_grad(const struct f64_model *m, int bundle, const char *name, int64_t rows,
                     int64_t cols, double *g)
{
    const struct f64_place p = f64_find(m, bundle, name);

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            m->grad[bundle][f64_row(&p, r) + (size_t)c] += g[r * cols + c];
    free(g);
}

/* y[n][out] = x[n][in] w (+ b); w is [out][in] or, transposed, [in][out] */
static double *f64_linear(const double *x, int64_t n, int64_t in, int64_t out, const double *w,
                          int is_out_first, const double *b)
{
    double *const y = f64_new(n * out);

    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < out; o++) {
            double s = b ? b[o] : 0;

            for (int64_t i = 0; i < in; i++)
                s += x[r * in + i] * (is_out_first ? w[o * in + i] : w[i * out + o]);
            y[r * out + o] = s;
        }
    return y;
}

static double *f64_linear_back(const double *x, const double *dy, int64_t n, int64_t in,
                               int64_t out, const double *w, int is_out_first, double *dw,
                               double *db)
{
    double *const dx = f64_new(n * in);

    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < out; o++) {
            const double d = dy[r * out + o];

            if (db)
                db[o] += d;
            for (int64_t i = 0; i < in; i++) {
                const int64_t at = is_out_first ? o * in + i : i * out + o;

                dx[r * in + i] += d * w[at];
                dw[at] += d * x[r * in + i];
            }
        }
    return dx;
}

static double *f64_norm(const double *x, int64_t n, int64_t c, const double *w, const double *b,
                        double eps, double *hat, double *rstd)
{
    double *const y = f64_new(n * c);

    for (int64_t r = 0; r < n; r++) {
        double mean = 0, var = 0;

        for (int64_t i = 0; i < c; i++)
            mean += x[r * c + i] / (double)c;
        for (int64_t i = 0; i < c; i++)
            var += (x[r * c + i] - mean) * (x[r * c + i] - mean) / (double)c;
        rstd[r] = 1 / sqrt(var + eps);
        for (int64_t i = 0; i < c; i++) {
            hat[r * c + i] = (x[r * c + i] - mean) * rstd[r];
            y[r * c + i] = hat[r * c + i] * w[i] + b[i];
        }
    }
    return y;
}

/* dx += */
static void f64_norm_back(double *dx, const double *dy, int64_t n, int64_t c, const double *w,
                          const double *hat, const double *rstd, double *dw, double *db)
{
    for (int64_t r = 0; r < n; r++) {
        double s = 0, q = 0;

        for (int64_t i = 0; i < c; i++) {
            const double d = dy[r * c + i] * w[i];

            dw[i] += dy[r * c + i] * hat[r * c + i];
            db[i] += dy[r * c + i];
            s += d / (double)c;
            q += d * hat[r * c + i] / (double)c;
        }
        for (int64_t i = 0; i < c; i++)
            dx[r * c + i] += (dy[r * c + i] * w[i] - s - hat[r * c + i] * q) * rstd[r];
    }
}

/* Column of q (part 0), k (1) or v (2) of a head in qkv: [shard][q|k|v][head of the shard][d]. */
static int64_t f64_head(const struct spot_shape *s, int64_t head, int part)
{
    const int64_t per = s->n_head / s->n_shard, d = s->width / s->n_head;

    return head / per * 3 * per * d + part * per * d + head % per * d;
}

/* Forward (dout NULL): fills out [n * C]; backward: fills dqkv. */
static void f64_attention(const struct f64_model *m, const double *qkv, double *out,
                          const double *dout, double *dqkv)
{
    const int64_t T = m->shape.seq, C = m->shape.width, d = C / m->shape.n_head;
    double *const p = f64_new(T), *const dp = f64_new(T);

    for (int64_t b = 0; b < m->micro_batch; b++)
        for (int64_t h = 0; h < m->shape.n_head; h++) {
            const int64_t q = f64_head(&m->shape, h, 0), k = f64_head(&m->shape, h, 1),
                          v = f64_head(&m->shape, h, 2);
            const double *const row = qkv + b * T * 3 * C;
            double *const drow = dqkv ? dqkv + b * T * 3 * C : NULL;

            for (int64_t i = 0; i < T; i++) {
                const int64_t o = (b * T + i) * C + h * d;
                double max = -INFINITY, sum = 0, mean = 0;

                for (int64_t j = 0; j <= i; j++) {
                    p[j] = 0;
                    for (int64_t e = 0; e < d; e++)
                        p[j] += row[i * 3 * C + q + e] * row[j * 3 * C + k + e] / sqrt((double)d);
                    max = fmax(max, p[j]);
                }
                for (int64_t j = 0; j <= i; j++)
                    sum += p[j] = exp(p[j] - max);
                for (int64_t j = 0; j <= i; j++)
                    p[j] /= sum;
                for (int64_t j = 0; j <= i && !dout; j++)
                    for (int64_t e = 0; e < d; e++)
                        out[o + e] += p[j] * row[j * 3 * C + v + e];
                for (int64_t j = 0; j <= i && dout; j++) {
                    dp[j] = 0;
                    for (int64_t e = 0; e < d; e++) {
                        dp[j] += dout[o + e] * row[j * 3 * C + v + e];
                        drow[j * 3 * C + v + e] += p[j] * dout[o + e];
                    }
                    mean += p[j] * dp[j];
                }
                for (int64_t j = 0; j <= i && dout; j++)
                    for (int64_t e = 0; e < d; e++) {
                        const double ds = p[j] * (dp[j] - mean) / sqrt((double)d);

                        drow[i * 3 * C + q + e] += ds * row[j * 3 * C + k + e];
                        drow[j * 3 * C + k + e] += ds * row[i * 3 * C + q + e];
                    }
            }
        }
    free(p);
    free(dp);
}

static double f64_gelu(double x, double *slope)
{
    const double a = sqrt(2 / 3.14159265358979323846), t = tanh(a * (x + 0.044715 * x * x * x));

    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

static double *f64_layers(const struct f64_model *m, int bundle, double *x, const uint32_t *token,
                          double *loss);

#include "decoder_llama_f64.h"

/* One layer, then all above it; takes x, returns the gradient by it. */
static double *f64_layer(const struct f64_model *m, int l, double *x, const uint32_t *token,
                         double *loss)
{
    const int64_t C = m->shape.width, n = m->micro_batch * m->shape.seq, F = 4 * C;
    double *const w1 = f64_read(m, l, "ln1.w", C, 1), *const b1 = f64_read(m, l, "ln1.b", C, 1);
    double *const w2 = f64_read(m, l, "ln2.w", C, 1), *const b2 = f64_read(m, l, "ln2.b", C, 1);
    double *const wq = f64_read(m, l, "qkv.w", 3 * C, C);
    double *const bq = f64_read(m, l, "qkv.b", 3 * C, 1);
    double *const wp = f64_read(m, l, "proj.w", C, C), *const bp = f64_read(m, l, "proj.b", C, 1);
    double *const wf = f64_read(m, l, "up.w", F, C), *const bf = f64_read(m, l, "up.b", F, 1);
    double *const wo = f64_read(m, l, "down.w", F, C), *const bo = f64_read(m, l, "down.b", C, 1);
    double *const hat1 = f64_new(n * C), *const hat2 = f64_new(n * C);
    double *const r1 = f64_new(n), *const r2 = f64_new(n);
    double *const n1 = f64_norm(x, n, C, w1, b1, f64_eps(m), hat1, r1);
    double *const qkv = f64_linear(n1, n, C, 3 * C, wq, 1, bq);
    double *const att = f64_new(n * C), *const act = f64_new(n * F), *const slope = f64_new(n * F);
    double *mid, *n2, *pre, *out, *d, *dact, *dn2, *datt, *dqkv, *dn1;
    double *g[12];

    f64_attention(m, qkv, att, NULL, NULL);
    mid = f64_linear(att, n, C, C, wp, 0, bp);
    for (int64_t i = 0; i < n * C; i++)
        mid[i] += x[i];
    n2 = f64_norm(mid, n, C, w2, b2, f64_eps(m), hat2, r2);
    pre = f64_linear(n2, n, C, F, wf, 1, bf);
    for (int64_t i = 0; i < n * F; i++)
        act[i] = f64_gelu(pre[i], &slope[i]);
    out = f64_linear(act, n, F, C, wo, 0, bo);
    for (int64_t i = 0; i < n * C; i++)
        out[i] += mid[i];

    d = f64_layers(m, l + 1, out, token, loss);
    for (int i = 0; i < 12; i++)
        g[i] = f64_new(F * C);
    dact = f64_linear_back(act, d, n, F, C, wo, 0, g[0], g[1]);
    for (int64_t i = 0; i < n * F; i++)
        dact[i] *= slope[i];
    dn2 = f64_linear_back(n2, dact, n, C, F, wf, 1, g[2], g[3]);
    f64_norm_back(d, dn2, n, C, w2, hat2, r2, g[4], g[5]);
    datt = f64_linear_back(att, d, n, C, C, wp, 0, g[6], g[7]);
    dqkv = f64_new(n * 3 * C);
    f64_attention(m, qkv, NULL, datt, dqkv);
    dn1 = f64_linear_back(n1, dqkv, n, C, 3 * C, wq, 1, g[8], g[9]);
    f64_norm_back(d, dn1, n, C, w1, hat1, r1, g[10], g[11]);
    f64_grad(m, l, "down.w", F, C, g[0]);
    f64_grad(m, l, "down.b", C, 1, g[1]);
    f64_grad(m, l, "up.w", F, C, g[2]);
    f64_grad(m, l, "up.b", F, 1, g[3]);
    f64_grad(m, l, "ln2.w", C, 1, g[4]);
    f64_grad(m, l, "ln2.b", C, 1, g[5]);
    f64_grad(m, l, "proj.w", C, C, g[6]);
    f64_grad(m, l, "proj.b", C, 1, g[7]);
    f64_grad(m, l, "qkv.w", 3 * C, C, g[8]);
    f64_grad(m, l, "qkv.b", 3 * C, 1, g[9]);
    f64_grad(m, l, "ln1.w", C, 1, g[10]);
    f64_grad(m, l, "ln1.b", C, 1, g[11]);
    double *const all[] = { w1,  b1,    w2,  b2,   wq,   bq,   wp,  bp,   wf,   bf,
                            wo,  bo,    x,   hat1, hat2, r1,   r2,  n1,   qkv,  att,
                            act, slope, mid, n2,   pre,  dact, dn2, datt, dqkv, dn1 };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    return d;
}

static double *f64_layers(const struct f64_model *m, int bundle, double *x, const uint32_t *token,
                          double *loss)
{
    const int64_t C = m->shape.width, V = m->shape.vocab, T = m->shape.seq;
    const int64_t n = m->micro_batch * T;
    const int is_llama = m->shape.kind.is_gated;
    double *w, *b, *head, *hat, *rstd, *y, *logit, *dn, *dx, *g[3];

    if (bundle <= m->shape.n_layer)
        return is_llama ? f64_llama_layer(m, bundle, x, token, loss)
                        : f64_layer(m, bundle, x, token, loss);
    w = f64_read(m, bundle, "lnf.w", C, 1);
    b = is_llama ? NULL : f64_read(m, bundle, "lnf.b", C, 1);
    head = f64_read(m, bundle, "head.w", V, C);
    hat = f64_new(n * C);
    rstd = f64_new(n);
    y = is_llama ? f64_rms(x, n, C, w, f64_eps(m)) : f64_norm(x, n, C, w, b, f64_eps(m), hat, rstd);
    logit = f64_linear(y, n, C, V, head, 1, NULL);
    *loss = 0;
    for (int64_t r = 0; r < n; r++) {
        double *const row = logit + r * V;
        double sum = 0;
        const double factor = f64_factor(m, token, r);
        const int64_t target = f64_sequence(m, token, r)[r % T + 1];

        for (int64_t v = 0; v < V; v++)
            sum += exp(row[v]);
        *loss += factor * (log(sum) - row[target]) / (double)n;
        for (int64_t v = 0; v < V; v++)
            row[v] = factor * (exp(row[v]) / sum - (v == target)) / (double)n;
    }
    for (int i = 0; i < 3; i++)
        g[i] = f64_new(V * C);
    dn = f64_linear_back(y, logit, n, C, V, head, 1, g[0], NULL);
    dx = f64_new(n * C);
    if (is_llama) {
        f64_rms_back(dx, dn, n, C, w, f64_eps(m), x, g[1]);
        free(g[2]);
    } else {
        f64_norm_back(dx, dn, n, C, w, hat, rstd, g[1], g[2]);
        f64_grad(m, bundle, "lnf.b", C, 1, g[2]);
    }
    f64_grad(m, bundle, "head.w", V, C, g[0]);
    f64_grad(m, bundle, "lnf.w", C, 1, g[1]);
    double *const all[] = { w, b, head, hat, rstd, y, logit, dn, x };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    return dx;
}

/* Mean loss of one microbatch; adds its gradient to m->grad. */
static double f64_microbatch(const struct f64_model *m, const uint32_t *token)
{
    const int64_t C = m->shape.width, T = m->shape.seq, V = m->shape.vocab;
    const int64_t n = m->micro_batch * T;
    const int has_wpe = !m->shape.kind.is_gated;
    double *const wte = f64_read(m, 0, "wte", V, C);
    double *const wpe = has_wpe ? f64_read(m, 0, "wpe", T, C) : f64_new(T * C);
    double *const x = f64_new(n * C), *dte = f64_new(V * C), *dpe = f64_new(T * C), *dx, loss;

    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < C; c++)
            x[r * C + c] = wte[f64_sequence(m, token, r)[r % T] * C + c] + wpe[r % T * C + c];
    dx = f64_layers(m, 1, x, token, &loss);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < C; c++) {
            dte[f64_sequence(m, token, r)[r % T] * C + c] += dx[r * C + c];
            dpe[r % T * C + c] += dx[r * C + c];
        }
    f64_grad(m, 0, "wte", V, C, dte);
    if (has_wpe)
        f64_grad(m, 0, "wpe", T, C, dpe);
    else
        free(dpe);
    free(wte);
    free(wpe);
    free(dx);
    return loss;
}

#endif /* SPOT_TESTS_DECODER_F64_H */
