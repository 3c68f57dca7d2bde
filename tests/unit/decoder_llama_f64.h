/* SPDX-License-Identifier: MIT */
/* decoder_llama_f64.h - the Llama layer of decoder_f64.h, in the words of Hugging Face's
 * modeling_llama.py: q, k, v, gate and up are matrices of their own with heads in their natural
 * order, rotate_half(x) = cat(-x[d/2:], x[:d/2]), keys and values are repeated for their group.
 */
#ifndef SPOT_TESTS_DECODER_LLAMA_F64_H
#define SPOT_TESTS_DECODER_LLAMA_F64_H

#include "decoder_f64.h"

static double *f64_rms(const double *x, int64_t n, int64_t c, const double *w, double eps)
{
    double *const y = f64_new(n * c);

    for (int64_t r = 0; r < n; r++) {
        double square = 0;

        for (int64_t i = 0; i < c; i++)
            square += x[r * c + i] * x[r * c + i];
        for (int64_t i = 0; i < c; i++)
            y[r * c + i] = x[r * c + i] / sqrt(square / (double)c + eps) * w[i];
    }
    return y;
}

/* dx +=, by the quotient rule on x_i w_i / s with s = sqrt(mean(x^2) + eps) */
static void f64_rms_back(double *dx, const double *dy, int64_t n, int64_t c, const double *w,
                         double eps, const double *x, double *dw)
{
    for (int64_t r = 0; r < n; r++) {
        double square = 0, dot = 0, s;

        for (int64_t i = 0; i < c; i++) {
            square += x[r * c + i] * x[r * c + i];
            dot += dy[r * c + i] * w[i] * x[r * c + i];
        }
        s = sqrt(square / (double)c + eps);
        for (int64_t i = 0; i < c; i++) {
            dw[i] += dy[r * c + i] * x[r * c + i] / s;
            dx[r * c + i] +=
                dy[r * c + i] * w[i] / s - x[r * c + i] * dot / ((double)c * s * s * s);
        }
    }
}

/* Rows of a part (q, k, v of qkv.w; gate, up of up.w) in their natural order, which lies in
 * runs of `run` rows per shard, `before` rows behind the shard's beginning. */
struct f64_part {
    const char *tensor;
    int64_t rows, run, before, stride;
};

static struct f64_part f64_part_of(const struct spot_shape *s, const char *part)
{
    const int64_t d = s->width / s->n_head, S = s->n_shard;
    const int64_t q = s->n_head * d, kv = s->n_kv_head * d;

    switch (part[0]) {
    case 'q':
        return (struct f64_part){ "qkv.w", q, q / S, 0, (q + 2 * kv) / S };
    case 'k':
        return (struct f64_part){ "qkv.w", kv, kv / S, q / S, (q + 2 * kv) / S };
    case 'v':
        return (struct f64_part){ "qkv.w", kv, kv / S, (q + kv) / S, (q + 2 * kv) / S };
    case 'g':
        return (struct f64_part){ "up.w", s->ffn, s->ffn / S, 0, 2 * s->ffn / S };
    default:
        return (struct f64_part){ "up.w", s->ffn, s->ffn / S, s->ffn / S, 2 * s->ffn / S };
    }
}

static double *f64_part_read(const struct f64_model *m, int l, const char *name)
{
    const struct f64_part p = f64_part_of(&m->shape, name);
    const struct f64_place place = f64_find(m, l, p.tensor);
    const int64_t C = m->shape.width;
    double *const x = f64_new(p.rows * C);

    for (int64_t r = 0; r < p.rows; r++)
        memcpy(x + r * C,
               m->weight[l] + f64_row(&place, r / p.run * p.stride + p.before + r % p.run),
               (size_t)C * sizeof(*x));
    return x;
}

static void f64_part_grad(const struct f64_model *m, int l, const char *name, double *g)
{
    const struct f64_part p = f64_part_of(&m->shape, name);
    const struct f64_place place = f64_find(m, l, p.tensor);
    const int64_t C = m->shape.width;

    for (int64_t r = 0; r < p.rows; r++)
        for (int64_t c = 0; c < C; c++)
            m->grad[l][f64_row(&place, r / p.run * p.stride + p.before + r % p.run) + (size_t)c] +=
                g[r * C + c];
    free(g);
}

/* x = x cos + rotate_half(x) sin, of rows of `heads` heads; its transpose when back. */
static void f64_rotate(const struct f64_model *m, double *x, int64_t heads, int back)
{
    const int64_t T = m->shape.seq, d = m->shape.width / m->shape.n_head;
    double *const old = f64_new(d);

    for (int64_t r = 0; r < m->micro_batch * T * heads; r++) {
        const double t = (double)(r / heads % T);

        memcpy(old, x + r * d, (size_t)d * sizeof(*old));
        for (int64_t e = 0; e < d; e++) {
            const double freq = pow(m->shape.rope_theta, -2.0 * (double)(e % (d / 2)) / (double)d);
            const double half = e < d / 2 ? -old[e + d / 2] : old[e - d / 2];

            x[r * d + e] = old[e] * cos(t * freq) + (back ? -half : half) * sin(t * freq);
        }
    }
    free(old);
}

/* Query row `i` of head h against keys 0..i: fills out, or if dout is given adds to dq, dk, dv. */
struct f64_gqa {
    const struct f64_model *m;
    const double *q, *k, *v, *dout;
    double *out, *dq, *dk, *dv;
};

static void f64_gqa_row(const struct f64_gqa *g, int64_t b, int64_t h, int64_t i, double *p)
{
    const struct spot_shape *const s = &g->m->shape;
    const int64_t d = s->width / s->n_head, kv = h / (s->n_head / s->n_kv_head);
    const int64_t at = ((b * s->seq + i) * s->n_head + h) * d;
    double sum = 0, mean = 0;

    for (int64_t j = 0; j <= i; j++) {
        const int64_t key = ((b * s->seq + j) * s->n_kv_head + kv) * d;

        p[j] = 0;
        for (int64_t e = 0; e < d; e++)
            p[j] += g->q[at + e] * g->k[key + e] / sqrt((double)d);
        sum += p[j] = exp(p[j]);
    }
    for (int64_t j = 0; j <= i; j++) {
        const int64_t key = ((b * s->seq + j) * s->n_kv_head + kv) * d;

        p[j] /= sum;
        for (int64_t e = 0; e < d && !g->dout; e++)
            g->out[at + e] += p[j] * g->v[key + e];
        for (int64_t e = 0; e < d && g->dout; e++)
            mean += p[j] * g->dout[at + e] * g->v[key + e];
    }
    for (int64_t j = 0; j <= i && g->dout; j++) {
        const int64_t key = ((b * s->seq + j) * s->n_kv_head + kv) * d;
        double ds = -mean;

        for (int64_t e = 0; e < d; e++) {
            ds += g->dout[at + e] * g->v[key + e];
            g->dv[key + e] += p[j] * g->dout[at + e];
        }
        ds *= p[j] / sqrt((double)d);
        for (int64_t e = 0; e < d; e++) {
            g->dq[at + e] += ds * g->k[key + e];
            g->dk[key + e] += ds * g->q[at + e];
        }
    }
}

static void f64_gqa(const struct f64_gqa *g)
{
    double *const p = f64_new(g->m->shape.seq);

    for (int64_t b = 0; b < g->m->micro_batch; b++)
        for (int64_t h = 0; h < g->m->shape.n_head; h++)
            for (int64_t i = 0; i < g->m->shape.seq; i++)
                f64_gqa_row(g, b, h, i, p);
    free(p);
}

static double *f64_new_like(const double *x, int64_t n)
{
    double *const y = f64_new(n);

    memcpy(y, x, (size_t)n * sizeof(*y));
    return y;
}

/* a + b, into a new array */
static double *f64_sum(const double *a, const double *b, int64_t n)
{
    double *const y = f64_new_like(a, n);

    for (int64_t i = 0; i < n; i++)
        y[i] += b[i];
    return y;
}

/* mid -> gradient by mid, and all above this layer in between. */
static double *f64_llama_mlp(const struct f64_model *m, int l, const double *mid,
                             const uint32_t *token, double *loss)
{
    const int64_t C = m->shape.width, F = m->shape.ffn, n = m->micro_batch * m->shape.seq;
    double *const w = f64_read(m, l, "ln2.w", C, 1), *const wd = f64_read(m, l, "down.w", F, C);
    double *const wg = f64_part_read(m, l, "gate"), *const wu = f64_part_read(m, l, "up");
    double *const norm = f64_rms(mid, n, C, w, f64_eps(m));
    double *const gate = f64_linear(norm, n, C, F, wg, 1, NULL);
    double *const up = f64_linear(norm, n, C, F, wu, 1, NULL);
    double *const act = f64_new(n * F), *const dw = f64_new(C), *const dwd = f64_new(F * C);
    double *const dwg = f64_new(F * C), *const dwu = f64_new(F * C);
    double *down, *d, *dact, *by_gate, *by_up, *dnorm;

    for (int64_t i = 0; i < n * F; i++)
        act[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    down = f64_linear(act, n, F, C, wd, 0, NULL);
    d = f64_layers(m, l + 1, f64_sum(mid, down, n * C), token, loss);
    dact = f64_linear_back(act, d, n, F, C, wd, 0, dwd, NULL);
    for (int64_t i = 0; i < n * F; i++) {
        const double s = 1 / (1 + exp(-gate[i])), du = dact[i] * gate[i] * s;

        gate[i] = dact[i] * up[i] * s * (1 + gate[i] * (1 - s));
        up[i] = du;
    }
    by_gate = f64_linear_back(norm, gate, n, C, F, wg, 1, dwg, NULL);
    by_up = f64_linear_back(norm, up, n, C, F, wu, 1, dwu, NULL);
    dnorm = f64_sum(by_gate, by_up, n * C);
    f64_rms_back(d, dnorm, n, C, w, f64_eps(m), mid, dw);
    f64_grad(m, l, "down.w", F, C, dwd);
    f64_grad(m, l, "ln2.w", C, 1, dw);
    f64_part_grad(m, l, "gate", dwg);
    f64_part_grad(m, l, "up", dwu);
    double *const all[] = { w, wd, wg, wu, norm, gate, up, act, down, dact, by_gate, by_up, dnorm };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    return d;
}

/* As f64_layer: takes x, returns the gradient by it. */
static double *f64_llama_layer(const struct f64_model *m, int l, double *x, const uint32_t *token,
                               double *loss)
{
    const int64_t C = m->shape.width, n = m->micro_batch * m->shape.seq;
    const int64_t H = m->shape.n_head, Hk = m->shape.n_kv_head, K = Hk * (C / H);
    double *const w = f64_read(m, l, "ln1.w", C, 1), *const wo = f64_read(m, l, "proj.w", C, C);
    double *const wq = f64_part_read(m, l, "q"), *const wk = f64_part_read(m, l, "k");
    double *const wv = f64_part_read(m, l, "v"), *const norm = f64_rms(x, n, C, w, f64_eps(m));
    double *const q = f64_linear(norm, n, C, C, wq, 1, NULL);
    double *const k = f64_linear(norm, n, C, K, wk, 1, NULL);
    double *const v = f64_linear(norm, n, C, K, wv, 1, NULL);
    double *const out = f64_new(n * C), *const dq = f64_new(n * C), *const dk = f64_new(n * K);
    double *const dv = f64_new(n * K);
    double *dw[5], *proj, *mid, *d, *dout, *by[3];
    struct f64_gqa g = { .m = m, .q = q, .k = k, .v = v, .out = out, .dq = dq, .dk = dk, .dv = dv };

    for (int i = 0; i < 5; i++)
        dw[i] = f64_new(C * C);
    f64_rotate(m, q, H, 0);
    f64_rotate(m, k, Hk, 0);
    f64_gqa(&g);
    proj = f64_linear(out, n, C, C, wo, 0, NULL);
    mid = f64_sum(x, proj, n * C);
    d = f64_llama_mlp(m, l, mid, token, loss);
    dout = f64_linear_back(out, d, n, C, C, wo, 0, dw[0], NULL);
    g.dout = dout;
    f64_gqa(&g);
    f64_rotate(m, dq, H, 1);
    f64_rotate(m, dk, Hk, 1);
    by[0] = f64_linear_back(norm, dq, n, C, C, wq, 1, dw[1], NULL);
    by[1] = f64_linear_back(norm, dk, n, C, K, wk, 1, dw[2], NULL);
    by[2] = f64_linear_back(norm, dv, n, C, K, wv, 1, dw[3], NULL);
    for (int64_t i = 0; i < n * C; i++)
        by[0][i] += by[1][i] + by[2][i];
    f64_rms_back(d, by[0], n, C, w, f64_eps(m), x, dw[4]);
    f64_grad(m, l, "proj.w", C, C, dw[0]);
    f64_part_grad(m, l, "q", dw[1]);
    f64_part_grad(m, l, "k", dw[2]);
    f64_part_grad(m, l, "v", dw[3]);
    f64_grad(m, l, "ln1.w", C, 1, dw[4]);
    double *const all[] = { w,  wo, wq, wk,   wv,  norm, q,     k,     v,     out,
                            dq, dk, dv, proj, mid, dout, by[0], by[1], by[2], x };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    return d;
}

#endif /* SPOT_TESTS_DECODER_LLAMA_F64_H */
