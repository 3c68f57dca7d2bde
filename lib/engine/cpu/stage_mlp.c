/* SPDX-License-Identifier: MIT */
/* The second half of a layer: down(act(up n)), or with a gate down(act(gate n) * up n). */
#include <assert.h>
#include <stdbool.h>

#include "engine/cpu/stage_cpu.h"

static const struct spot_vec *vec_of(const struct spot_pass *w)
{
    return w->stage->kernel->vec;
}

static int64_t own_ffn(const struct spot_pass *w)
{
    return spot_stage_own(w->stage, spot_shape_ffn(&w->stage->config.shape));
}

/* Columns of one row, from column `col` of all gates on: to the end of the block or of the
 * shard. Rows of gate and up lie [shard][gate|up][F/S]. */
struct span {
    int64_t gate, up, n;
};

static struct span span_of(const struct spot_shape *s, int64_t col, int64_t col_end)
{
    const int64_t per = spot_shape_ffn(s) / s->n_shard, in = col % per;
    const int64_t gate = col / per * 2 * per + in;

    return (struct span){ gate, gate + per, per - in < col_end - col ? per - in : col_end - col };
}

/* Without a gate the activation is applied to the block at once. */
static void up(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_shape *const s = &w->stage->config.shape;
    const struct spot_block block =
        spot_part_linear(part, w->i, "up.w", true, spot_half_in(w), w->save->pre);

    assert(s->kind.is_gated ||
           spot_pass_vector(w, "up.b")); /* otherwise the activation would not be applied */
    if (spot_pass_vector(w, "up.b")) {
        const struct spot_param bias = spot_stage_param(w->stage, w->i, "up.b");

        spot_part_bias(part, &block, spot_stage_own(w->stage, spot_shape_pre(s)), &bias,
                       w->save->pre, s->kind.is_gated ? NULL : w->stage->act);
    }
}

static void activate(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_shape *const s = &w->stage->config.shape;
    const struct spot_vec *const vec = vec_of(w);
    const int64_t ffn = own_ffn(w), kind = s->kind.activation;
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    for (; r < end; r++) {
        const float *const pre = w->save->pre + r * 2 * ffn;
        struct span at;

        for (int64_t col = 0; col < ffn; col += at.n) {
            at = span_of(s, col, ffn);
            (kind == SPOT_SILU        ? vec->swiglu
             : kind == SPOT_GELU_TANH ? vec->geglu
                                      : vec->geglu_exact)(w->stage->act + r * ffn + col,
                                                          pre + at.gate, pre + at.up, at.n);
        }
    }
}

static void down(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_half_out(part, w, "down.w", "down.b", w->stage->act);
}

void spot_mlp_again(const struct spot_pass *w)
{
    spot_pass_run(w, up);
}

void spot_mlp_forward(const struct spot_pass *w)
{
    spot_pass_run(w, up);
    if (w->stage->config.shape.kind.is_gated)
        spot_pass_run(w, activate);
    spot_pass_run(w, down);
}

/* --- backward ------------------------------------------------------------------- */

static void slope(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_vec *const vec = vec_of(w);
    const int64_t f = own_ffn(w);
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    (w->stage->config.shape.kind.activation == SPOT_GELU_ERF ? vec->gelu_exact_slope
                                                             : vec->gelu_slope)(
        w->stage->act + r * f, w->stage->slope + r * f, w->save->pre + r * f, (end - r) * f);
}

static void again(const struct spot_part *part, const struct spot_pass *w)
{
    if (w->stage->config.shape.kind.is_gated)
        activate(part, w);
    else
        slope(part, w);
    spot_part_half_norm_again(part, w);
}

/* The gradients of gate and up from a block of the gradient of their product. */
static void gate_back(const struct spot_pass *w, const struct spot_block *block)
{
    const struct spot_shape *const s = &w->stage->config.shape;
    const struct spot_vec *const vec = vec_of(w);
    const int64_t ffn = own_ffn(w), kind = s->kind.activation;

    for (int64_t r = block->row; r < block->row_end; r++) {
        const float *const pre = w->save->pre + r * 2 * ffn;
        float *const dpre = w->stage->dpre + r * 2 * ffn;
        struct span at;

        for (int64_t col = block->col; col < block->col_end; col += at.n) {
            at = span_of(s, col, block->col_end);
            (kind == SPOT_SILU ? vec->swiglu_back
             : kind == SPOT_GELU_TANH
                 ? vec->geglu_back
                 : vec->geglu_exact_back)(dpre + at.gate, dpre + at.up, pre + at.gate, pre + at.up,
                                          w->stage->dact + r * ffn + col, at.n);
        }
    }
}

static void down_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    const struct spot_block block =
        spot_part_linear_back(part, w->i, "down.w", "down.b", false, st->act, w->dy, st->dact);

    if (st->config.shape.kind.is_gated)
        gate_back(w, &block);
    else
        spot_part_mul(part, &block, own_ffn(w), st->slope, st->dact);
}

static void up_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    spot_part_linear_back(part, w->i, "up.w", "up.b", true, spot_half_in(w),
                          st->config.shape.kind.is_gated ? st->dpre : st->dact, st->d[1]);
}

void spot_mlp_backward(const struct spot_pass *w)
{
    spot_pass_run(w, again);
    spot_pass_run(w, down_back);
    spot_pass_run(w, up_back);
}
