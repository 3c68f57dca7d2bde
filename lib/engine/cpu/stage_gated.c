/* SPDX-License-Identifier: MIT */
/* The second half of Llama's layer: out = mid + down(silu(gate n) * up n), n = norm of mid. */
#include "engine/cpu/stage_cpu.h"

/* Columns of one row, from column `col` of all gates on: to the end of the block or of the
 * shard. Rows of gate and up lie [shard][gate|up][F/S]. */
struct span {
    int64_t gate, up, n;
};

static struct span span_of(const struct spot_shape *s, int64_t col, int64_t col_end)
{
    const int64_t per = s->ffn / s->n_shard, in = col % per;
    const int64_t gate = col / per * 2 * per + in;

    return (struct span){ gate, gate + per, per - in < col_end - col ? per - in : col_end - col };
}

static void gateup(const struct spot_part *part, const struct spot_pass *m)
{
    spot_part_linear(part, m->i, "up.w", true, m->stage->norm, m->save->pre);
}

static void activate(const struct spot_part *part, const struct spot_pass *m)
{
    const struct spot_shape *const s = &m->stage->config.shape;
    const int64_t ffn = spot_stage_own(m->stage, s->ffn);
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    for (; r < end; r++) {
        const float *const pre = m->save->pre + r * 2 * ffn;
        struct span at;

        for (int64_t col = 0; col < ffn; col += at.n) {
            at = span_of(s, col, ffn);
            m->stage->kernel->vec->swiglu(m->stage->act + r * ffn + col, pre + at.gate, pre + at.up,
                                          at.n);
        }
    }
}

static void down(const struct spot_part *part, const struct spot_pass *m)
{
    const struct spot_block block =
        spot_part_linear(part, m->i, "down.w", false, m->stage->act, m->out);

    spot_part_add2(part, &block, m->stage->config.shape.width, NULL, m->save->mid, m->out);
}

void spot_gated_mlp_forward(struct spot_stage *stage, int i, const struct spot_save *save,
                            float *out)
{
    const struct spot_pass m = { .stage = stage, .i = i, .save = save, .out = out };

    spot_pass_run(&m, gateup);
    spot_pass_run(&m, activate);
    spot_pass_run(&m, down);
}

void spot_gated_mlp_again(struct spot_stage *stage, int i, const struct spot_save *save)
{
    const struct spot_pass m = { .stage = stage, .i = i, .save = save };

    spot_pass_run(&m, gateup);
}

/* --- backward ------------------------------------------------------------------- */

static void again(const struct spot_part *part, const struct spot_pass *m)
{
    activate(part, m);
    spot_part_norm_again(part, m->stage->norm, m->save->norm2, m->save->mid,
                         spot_pass_vector(m, "ln2.w"), NULL);
}

static void down_back(const struct spot_part *part, const struct spot_pass *m)
{
    struct spot_stage *const st = m->stage;
    const struct spot_shape *const s = &st->config.shape;
    const int64_t ffn = spot_stage_own(st, s->ffn);
    const struct spot_block block =
        spot_part_linear_back(part, m->i, "down.w", NULL, false, st->act, m->dout, st->dact);

    for (int64_t r = block.row; r < block.row_end; r++) {
        const float *const pre = m->save->pre + r * 2 * ffn;
        float *const dpre = st->dpre + r * 2 * ffn;
        struct span at;

        for (int64_t col = block.col; col < block.col_end; col += at.n) {
            at = span_of(s, col, block.col_end);
            st->kernel->vec->swiglu_back(dpre + at.gate, dpre + at.up, pre + at.gate, pre + at.up,
                                         st->dact + r * ffn + col, at.n);
        }
    }
}

static void gateup_back(const struct spot_part *part, const struct spot_pass *m)
{
    struct spot_stage *const st = m->stage;

    spot_part_linear_back(part, m->i, "up.w", NULL, true, st->norm, st->dpre, st->d[1]);
}

void spot_gated_mlp_backward(struct spot_stage *stage, int i, const struct spot_save *save,
                             const float *dout)
{
    const struct spot_pass m = { .stage = stage, .i = i, .save = save, .dout = dout };

    spot_pass_run(&m, again);
    spot_pass_run(&m, down_back);
    spot_pass_run(&m, gateup_back);
}
