/* SPDX-License-Identifier: MIT */
/* decoder_any_f64.h - the loss of any dense decoder, in double precision and naive loops.
 *
 * An oracle for gradients by differences: forward only. It shares no code with the engine but where
 * numbers lie in an arena, and the speeds at which positions turn, which other tests hold.
 */
#ifndef SPOT_TESTS_DECODER_ANY_F64_H
#define SPOT_TESTS_DECODER_ANY_F64_H

#include "decoder_f64.h"
#include "engine/rope.h"

/* Row of head h of q (0), k (1) or v (2) in qkv, which lies [shard][q|k|v][heads of the shard][d].
 */
static int64_t any_head(const struct spot_shape *s, int part, int64_t h)
{
    const int64_t d = spot_shape_head_dim(s), q = s->n_head / s->n_shard,
                  kv = spot_shape_kv_heads(s) / s->n_shard, per = part ? kv : q;

    return (h / per * (q + 2 * kv) + (part > 0) * q + (part > 1) * kv + h % per) * d;
}

static double any_cap(double x, double cap)
{
    return cap != 0 ? cap * tanh(x / cap) : x;
}

static int any_has(const struct f64_model *m, int b, const char *name)
{
    return f64_find(m, b, name).t >= 0;
}

/* x of n rows is normed in place; nothing where the bundle has no such norm. */
static void any_norm(const struct f64_model *m, int b, const char *weight, const char *bias,
                     double *x, int64_t n)
{
    const int64_t C = m->shape.width;
    double *w, *y, *hat, *rstd, *add;

    if (!any_has(m, b, weight))
        return;
    w = f64_read(m, b, weight, C, 1);
    if (m->shape.kind.norm == SPOT_NORM_RMS) {
        y = f64_rms(x, n, C, w, f64_eps(m));
    } else {
        add = f64_read(m, b, bias, C, 1);
        hat = f64_new(n * C);
        rstd = f64_new(n);
        y = f64_norm(x, n, C, w, add, f64_eps(m), hat, rstd);
        free(add);
        free(hat);
        free(rstd);
    }
    memcpy(x, y, (size_t)(n * C) * sizeof(*x));
    free(w);
    free(y);
}

static double *any_linear(const struct f64_model *m, int b, const char *weight, const char *bias,
                          const double *x, int64_t n, int64_t in, int64_t out, int is_out_first)
{
    double *const w =
        is_out_first ? f64_read(m, b, weight, out, in) : f64_read(m, b, weight, in, out);
    double *const add = any_has(m, b, bias) ? f64_read(m, b, bias, out, 1) : NULL;
    double *const y = f64_linear(x, n, in, out, w, is_out_first, add);

    free(w);
    free(add);
    return y;
}

/* Queries and keys of one row: norms, then their turn. */
static void any_turn(const struct f64_model *m, int b, double *row, int64_t position)
{
    const struct spot_shape *const s = &m->shape;
    const struct spot_decoder *const k = &s->kind;
    const int64_t d = spot_shape_head_dim(s), n = spot_shape_rotary(s);
    const int is_local = spot_layer_in(&k->local, b - 1);
    double *const speed = f64_new(n);

    spot_rope_speeds(speed, s, is_local);
    for (int part = 0; part < 2; part++) {
        const int64_t n_head = part ? spot_shape_kv_heads(s) : s->n_head;
        const int is_whole = k->qk_norm == SPOT_QK_WHOLE;
        double *const w = k->qk_norm ? f64_read(m, b, part ? "k_norm.w" : "q_norm.w",
                                                is_whole ? n_head * d : d, 1)
                                     : NULL;
        double all = 0;

        for (int64_t h = 0; h < n_head; h++)
            for (int64_t i = 0; i < d; i++)
                all += pow(row[any_head(s, part, h) + i], 2);
        for (int64_t h = 0; h < n_head; h++) {
            double *const x = row + any_head(s, part, h), own = 0;

            for (int64_t i = 0; i < d; i++)
                own += x[i] * x[i];
            for (int64_t i = 0; i < d && w; i++)
                x[i] *=
                    w[is_whole ? h * d + i : i] /
                    sqrt((is_whole ? all / (double)(n_head * d) : own / (double)d) + f64_eps(m));
            for (int64_t i = 0; i < n / 2 && !spot_layer_in(&k->unturned, b - 1); i++) {
                const double by = spot_rope_gain(s, is_local), a = x[i], c = x[n / 2 + i],
                             angle = (double)position * speed[i];

                x[i] = by * (a * cos(angle) - c * sin(angle));
                x[n / 2 + i] = by * (c * cos(angle) + a * sin(angle));
            }
        }
        free(w);
    }
    free(speed);
}

/* att[T][H d] of one sequence. */
static void any_attend(const struct f64_model *m, int b, const double *qkv, double *att)
{
    const struct spot_shape *const s = &m->shape;
    const struct spot_decoder *const k = &s->kind;
    const int64_t d = spot_shape_head_dim(s), Q = spot_shape_qkv(s), A = s->n_head * d;
    const double scale = k->attention_scale != 0 ? k->attention_scale : 1 / sqrt((double)d);
    double *const p = f64_new(s->seq);

    for (int64_t h = 0; h < s->n_head; h++)
        for (int64_t i = 0; i < s->seq; i++) {
            const int64_t kv = h / (s->n_head / spot_shape_kv_heads(s));
            const int64_t first =
                spot_layer_in(&k->local, b - 1) && i + 1 > k->window ? i + 1 - k->window : 0;
            double sum = 0;

            for (int64_t j = first; j <= i; j++) {
                double score = 0;

                for (int64_t e = 0; e < d; e++)
                    score +=
                        qkv[i * Q + any_head(s, 0, h) + e] * qkv[j * Q + any_head(s, 1, kv) + e];
                sum += p[j] = exp(any_cap(score * scale, k->attention_cap));
            }
            for (int64_t j = first; j <= i; j++)
                for (int64_t e = 0; e < d; e++)
                    att[i * A + h * d + e] += p[j] / sum * qkv[j * Q + any_head(s, 2, kv) + e];
        }
    free(p);
}

static double any_act(int64_t kind, double x)
{
    double slope;

    return kind == SPOT_SILU        ? x / (1 + exp(-x))
           : kind == SPOT_GELU_TANH ? f64_gelu(x, &slope)
                                    : x * 0.5 * (1 + erf(x / sqrt(2)));
}

/* y joins x. */
static void any_join(const struct f64_model *m, int b, const char *post, double *x, double *y,
                     int64_t n)
{
    const double by = m->shape.kind.residual_scale != 0 ? m->shape.kind.residual_scale : 1;

    any_norm(m, b, post, "", y, n);
    for (int64_t i = 0; i < n * m->shape.width; i++)
        x[i] += by * y[i];
    free(y);
}

static void any_layer(const struct f64_model *m, int b, double *x)
{
    const struct spot_shape *const s = &m->shape;
    const int64_t C = s->width, n = m->micro_batch * s->seq, Q = spot_shape_qkv(s),
                  A = spot_shape_attended(s), F = spot_shape_ffn(s), P = spot_shape_pre(s),
                  per = F / s->n_shard;
    double *const in = f64_new(n * C), *const att = f64_new(n * A), *const act = f64_new(n * F);
    double *qkv, *pre;

    memcpy(in, x, (size_t)(n * C) * sizeof(*in));
    any_norm(m, b, "ln1.w", "ln1.b", in, n);
    qkv = any_linear(m, b, "qkv.w", "qkv.b", in, n, C, Q, 1);
    for (int64_t r = 0; r < n && s->kind.norm == SPOT_NORM_RMS; r++)
        any_turn(m, b, qkv + r * Q, r % s->seq);
    for (int64_t i = 0; i < m->micro_batch; i++)
        any_attend(m, b, qkv + i * s->seq * Q, att + i * s->seq * A);
    any_join(m, b, "post1.w", x, any_linear(m, b, "proj.w", "proj.b", att, n, A, C, 0), n);
    memcpy(in, x, (size_t)(n * C) * sizeof(*in));
    any_norm(m, b, "ln2.w", "ln2.b", in, n);
    pre = any_linear(m, b, "up.w", "up.b", in, n, C, P, 1);
    for (int64_t r = 0; r < n; r++)
        for (int64_t f = 0; f < F; f++) {
            const double *const row = pre + r * P;
            const int64_t gate = s->kind.is_gated ? f / per * 2 * per + f % per : f;

            act[r * F + f] =
                any_act(s->kind.activation, row[gate]) * (s->kind.is_gated ? row[gate + per] : 1);
        }
    any_join(m, b, "post2.w", x, any_linear(m, b, "down.w", "down.b", act, n, F, C, 0), n);
    free(in);
    free(att);
    free(act);
    free(qkv);
    free(pre);
}

/* Mean loss of one microbatch. */
static double f64_any_loss(const struct f64_model *m, const uint32_t *token)
{
    const struct spot_shape *const s = &m->shape;
    const struct spot_decoder *const k = &s->kind;
    const int64_t C = s->width, T = s->seq, V = s->vocab, n = m->micro_batch * T;
    const int head = (int)s->n_layer + 1;
    double *const wte = f64_read(m, 0, "wte", V, C), *const x = f64_new(n * C), *logit, loss = 0;
    double *const wpe = any_has(m, 0, "wpe") ? f64_read(m, 0, "wpe", T, C) : f64_new(T * C);

    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < C; c++)
            x[r * C + c] = wte[f64_sequence(m, token, r)[r % T] * C + c] *
                               (k->embed_scale != 0 ? k->embed_scale : 1) +
                           wpe[r % T * C + c];
    for (int b = 1; b < head; b++)
        any_layer(m, b, x);
    any_norm(m, head, "lnf.w", "lnf.b", x, n);
    logit = any_linear(m, head, "head.w", "", x, n, C, V, 1);
    for (int64_t r = 0; r < n; r++) {
        const int64_t target = f64_sequence(m, token, r)[r % T + 1];
        double sum = 0, own = 0;

        for (int64_t v = 0; v < V; v++) {
            const double l = any_cap(logit[r * V + v] * (k->logit_scale != 0 ? k->logit_scale : 1),
                                     k->logit_cap);

            sum += exp(l);
            own = v == target ? l : own;
        }
        loss += f64_factor(m, token, r) * (log(sum) - own) / (double)n;
    }
    free(wte);
    free(wpe);
    free(x);
    free(logit);
    return loss;
}

#endif /* SPOT_TESTS_DECODER_ANY_F64_H */
