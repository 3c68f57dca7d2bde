/* SPDX-License-Identifier: MIT */
/* The embedding and the layers, forward and backward, as passes of the team of threads. */
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "engine/cpu/stage_cpu.h"

/* --- embedding: out[b, t] = wte[token[b, t]], scaled, + wpe[t] if positions are learnt --- */

static float embed_scale(const struct spot_stage *stage)
{
    return (float)stage->config.shape.kind.embed_scale; /* 0: none */
}

static void embed(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_param wte = spot_stage_param(w->stage, w->i, "wte");
    /* every member holds the whole table, so nothing is exchanged */
    const float *const first = wte.w - w->stage->shard * wte.shard_elem;
    const int64_t c = wte.cols, seq = w->stage->config.shape.seq;
    const float *const wpe = spot_pass_vector(w, "wpe");
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    for (; r < end; r++) {
        const int64_t token = w->token[r / seq * w->stage->n_word + r % seq];

        assert(token < w->stage->config.shape.vocab);
        memcpy(w->out + r * c, first + token / wte.rows * wte.shard_elem + token % wte.rows * c,
               (size_t)c * sizeof(float));
        if (w->stage->kernel->is_bf16)
            w->stage->kernel->vec->round_bf16(w->out + r * c, c);
        if (embed_scale(w->stage) != 0)
            w->stage->kernel->vec->scale(w->out + r * c, c, embed_scale(w->stage));
        if (wpe)
            w->stage->kernel->vec->add(w->out + r * c, wpe + r % seq * c, c);
    }
}

void spot_embed_forward(struct spot_stage *stage, int i, const uint32_t *token, float *out)
{
    spot_pass_run(&(struct spot_pass){ .stage = stage, .i = i, .token = token, .out = out }, embed);
}

/* A range of columns of all rows, so that each element is a chain over ascending rows. Rows of wte
 * in other members' shards are left to them. */
static void embed_back(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_stage *const stage = w->stage;
    const struct spot_vec *const vec = stage->kernel->vec;
    const struct spot_arena *const arena = &stage->bundle[w->i]->arena;
    const int64_t c = stage->config.shape.width, seq = stage->config.shape.seq,
                  vocab = spot_stage_own(stage, spot_shape_vocab_rows(&stage->config.shape)),
                  first = vocab / stage->n_shard * stage->shard;
    float *const dte = stage->grad, *const dpe = stage->grad + vocab * c;
    const int wpe = spot_arena_find(arena, "wpe");
    int64_t begin, end;

    spot_team_share(c, 16, part->thread, part->n_thread, &begin, &end);
    for (int64_t v = 0; v < vocab + seq; v++)
        memset(dte + v * c + begin, 0, (size_t)(end - begin) * sizeof(float));
    for (int64_t r = 0; r < stage->n_row; r++) {
        const int64_t token = w->token[r / seq * stage->n_word + r % seq] - first;

        if (token >= 0 && token < vocab)
            vec->add(dte + token * c + begin, w->dout + r * c + begin, end - begin);
        if (wpe >= 0)
            vec->add(dpe + r % seq * c + begin, w->dout + r * c + begin, end - begin);
    }
    for (int64_t v = 0; v < vocab; v++) {
        if (embed_scale(stage) != 0)
            vec->scale(dte + v * c + begin, end - begin, embed_scale(stage));
        spot_sum_add(part, w->i, spot_arena_find(arena, "wte"), dte, v * c + begin, v * c + end);
    }
    for (int64_t t = 0; wpe >= 0 && t < seq; t++)
        spot_sum_add(part, w->i, wpe, dpe, t * c + begin, t * c + end);
}

void spot_embed_backward(struct spot_stage *stage, int i, const uint32_t *token, const float *dout)
{
    spot_pass_run(&(struct spot_pass){ .stage = stage, .i = i, .token = token, .dout = dout },
                  embed_back);
    spot_sum_close(stage, i);
}

/* --- layer: mid = x + half(x), out = mid + half(mid) ----------------------------
 *
 * A half is norm, two products with attention (stage_heads.c) or an activation (stage_mlp.c)
 * between them, norm, scale; parts that a shape lacks are skipped. */

static const struct half {
    const char *norm, *norm_bias, *post;
} halves[2] = { { "ln1.w", "ln1.b", "post1.w" }, { "ln2.w", "ln2.b", "post2.w" } };

static const struct half *half_of(const struct spot_pass *w)
{
    return &halves[w->half];
}

static const float *half_x(const struct spot_pass *w)
{
    return w->half ? w->save->mid : w->save->x;
}

static float *half_stat(const struct spot_pass *w)
{
    return w->half ? w->save->norm2 : w->save->norm1;
}

static float *half_y(const struct spot_pass *w)
{
    return w->half ? w->out : w->save->mid;
}

static float residual_scale(const struct spot_pass *w)
{
    return (float)w->stage->config.shape.kind.residual_scale; /* 0: none */
}

/* True if there is no norm or scale between the second product and the sum. */
static bool is_plain(const struct spot_pass *w)
{
    return w->stage->config.shape.kind.norm_place == SPOT_NORM_BEFORE && residual_scale(w) == 0;
}

const float *spot_half_in(const struct spot_pass *w)
{
    return spot_pass_vector(w, half_of(w)->norm) ? w->stage->norm : half_x(w);
}

static void half_norm(const struct spot_part *part, const struct spot_pass *w)
{
    const float *const by = spot_pass_vector(w, half_of(w)->norm);

    if (by)
        spot_part_norm(part, w->stage->norm, half_stat(w), half_x(w), by,
                       spot_pass_vector(w, half_of(w)->norm_bias));
}

void spot_part_half_norm_again(const struct spot_part *part, const struct spot_pass *w)
{
    const float *const by = spot_pass_vector(w, half_of(w)->norm);

    if (by)
        spot_part_norm_again(part, w->stage->norm, half_stat(w), half_x(w), by,
                             spot_pass_vector(w, half_of(w)->norm_bias));
}

void spot_part_half_out(const struct spot_part *part, const struct spot_pass *w, const char *weight,
                        const char *bias, const float *in)
{
    float *const y = w->save->post_x[w->half] ? w->save->post_x[w->half] : half_y(w);
    const struct spot_block block = spot_part_linear(part, w->i, weight, false, in, y);

    if (is_plain(w))
        spot_part_add2(part, &block, w->stage->config.shape.width, spot_pass_vector(w, bias),
                       half_x(w), y);
}

/* Norm and scale between product and sum, row by row. */
static void half_join(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_shape *const s = &w->stage->config.shape;
    const struct spot_vec *const vec = w->stage->kernel->vec;
    const float *const bias = spot_pass_vector(w, w->half ? "down.b" : "proj.b");
    const float *const by = spot_pass_vector(w, half_of(w)->post);
    const int64_t c = s->width;
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++) {
        float *const y = half_y(w) + r * c;
        float *const in = by ? w->save->post_x[w->half] + r * c : y;

        if (bias)
            vec->add(in, bias, c);
        if (by)
            vec->rms(y, w->save->post[w->half] + 2 * r, in, by, (float)spot_shape_norm_eps(s), 1,
                     c);
        if (residual_scale(w) != 0)
            vec->scale(y, c, residual_scale(w));
        vec->add(y, half_x(w) + r * c, c);
    }
}

void spot_layer_forward(struct spot_stage *stage, int i, const struct spot_save *save, float *out)
{
    struct spot_pass w = { .stage = stage, .i = i, .save = save, .out = out };

    for (; w.half < 2; w.half++) {
        spot_pass_run(&w, half_norm);
        if (w.half)
            spot_mlp_forward(&w);
        else
            spot_heads_forward(&w);
        if (!is_plain(&w))
            spot_pass_run(&w, half_join);
    }
}

/* Recomputes values of the forward pass that were not kept, by the same passes, with the same
 * bits. */
static void layer_again(const struct spot_pass *pass)
{
    struct spot_pass w = *pass;

    if (w.stage->config.recompute == SPOT_RECOMPUTE_NONE)
        return;
    if (w.stage->config.recompute == SPOT_RECOMPUTE_LAYER) {
        w.half = 0;
        spot_pass_run(&w, half_norm);
        spot_heads_again(&w);
    }
    w.half = 1;
    spot_pass_run(&w, half_norm);
    spot_mlp_again(&w);
}

/* --- backward ---------------------------------------------------------------- */

static void scale_back(const struct spot_part *part, const struct spot_pass *w)
{
    const int64_t c = w->stage->config.shape.width;
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++) {
        memcpy(w->stage->d[3] + r * c, w->dy + r * c, (size_t)c * sizeof(float));
        w->stage->kernel->vec->scale(w->stage->d[3] + r * c, c, residual_scale(w));
    }
}

static void post_back(const struct spot_part *part, const struct spot_pass *w)
{
    float *const dx = w->stage->d[residual_scale(w) != 0 ? 4 : 3];
    const int64_t c = w->stage->config.shape.width;
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    memset(dx + r * c, 0, (size_t)((end - r) * c) * sizeof(float));
    spot_part_norm_back(part, w->i,
                        &(struct spot_norm_back){ .weight = half_of(w)->post,
                                                  .bias = "",
                                                  .dx = dx,
                                                  .base = dx,
                                                  .dy = w->dy,
                                                  .stat = w->save->post[w->half],
                                                  .x = w->save->post_x[w->half] });
}

/* The gradient of the half's second product, computed from the gradient of its sum with x. */
static const float *product_gradient(const struct spot_pass *pass, const float *dy)
{
    struct spot_pass w = *pass;

    w.dy = dy;
    if (residual_scale(&w) != 0) {
        spot_pass_run(&w, scale_back);
        w.dy = w.stage->d[3];
    }
    if (spot_pass_vector(&w, half_of(&w)->post)) {
        spot_pass_run(&w, post_back);
        w.dy = w.stage->d[residual_scale(&w) != 0 ? 4 : 3];
    }
    return w.dy;
}

/* dx = base + the gradient through the half, which is in d[1], taken after the first norm. */
static void half_norm_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    float *const dx = w->half ? st->d[0] : w->din;
    const float *const base = w->half ? w->dout : st->d[0];
    const int64_t c = st->config.shape.width;
    int64_t r, end;

    if (spot_pass_vector(w, half_of(w)->norm)) {
        spot_part_norm_back(part, w->i,
                            &(struct spot_norm_back){ .weight = half_of(w)->norm,
                                                      .bias = half_of(w)->norm_bias,
                                                      .dx = dx,
                                                      .base = base,
                                                      .dy = st->d[1],
                                                      .stat = half_stat(w),
                                                      .x = half_x(w) });
        return;
    }
    spot_part_rows(part, &r, &end);
    memcpy(dx + r * c, base + r * c, (size_t)((end - r) * c) * sizeof(float));
    st->kernel->vec->add(dx + r * c, st->d[1] + r * c, (end - r) * c);
}

void spot_layer_backward(struct spot_stage *stage, int i, const struct spot_save *save,
                         const float *dout, float *din)
{
    struct spot_pass w = { .stage = stage, .i = i, .save = save, .dout = dout, .din = din };

    layer_again(&w);
    for (w.half = 1; w.half >= 0; w.half--) {
        w.dy = product_gradient(&w, w.half ? dout : stage->d[0]);
        if (w.half)
            spot_mlp_backward(&w);
        else
            spot_heads_backward(&w);
        spot_pass_run(&w, half_norm_back);
    }
    spot_sum_close(stage, i);
}
