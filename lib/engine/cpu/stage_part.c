/* SPDX-License-Identifier: MIT */
#include "engine/cpu/stage_cpu.h"

static const struct spot_vec *vec_of(const struct spot_part *part)
{
    return part->stage->kernel->vec;
}

static int64_t width_of(const struct spot_part *part)
{
    return part->stage->config.shape.width;
}

struct call {
    const struct spot_pass *pass;
    spot_pass_fn fn;
};

static void call(void *user, int thread, int n_thread)
{
    const struct call *const c = user;
    const struct spot_part part = { c->pass->stage, thread, n_thread };

    c->fn(&part, c->pass);
}

void spot_pass_run(const struct spot_pass *pass, spot_pass_fn fn)
{
    struct call c = { pass, fn };

    spot_team_run(pass->stage->team, call, &c);
}

const float *spot_pass_vector(const struct spot_pass *pass, const char *name)
{
    return spot_arena_find(&pass->stage->bundle[pass->i]->arena, name) < 0
               ? NULL
               : spot_stage_param(pass->stage, pass->i, name).w;
}

void spot_part_rows(const struct spot_part *part, int64_t *begin, int64_t *end)
{
    spot_team_share(part->stage->n_row, 1, part->thread, part->n_thread, begin, end);
}

void spot_part_norm(const struct spot_part *part, float *y, float *stat, const float *x,
                    const float *w, const float *b)
{
    const float eps = (float)spot_shape_norm_eps(&part->stage->config.shape);
    const int64_t c = width_of(part);
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    if (b)
        vec_of(part)->norm(y + r * c, stat + 2 * r, x + r * c, w, b, eps, end - r, c);
    else
        vec_of(part)->rms(y + r * c, stat + 2 * r, x + r * c, w, eps, end - r, c);
}

void spot_part_norm_again(const struct spot_part *part, float *y, const float *stat, const float *x,
                          const float *w, const float *b)
{
    const int64_t c = width_of(part);
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    if (b)
        vec_of(part)->norm_again(y + r * c, stat + 2 * r, x + r * c, w, b, end - r, c);
    else
        vec_of(part)->rms_again(y + r * c, stat + 2 * r, x + r * c, w, end - r, c);
}

void spot_part_norm_back(const struct spot_part *part, int i, const struct spot_norm_back *n)
{
    const struct spot_stage *const st = part->stage;
    const struct spot_arena *const arena = &st->bundle[i]->arena;
    const struct spot_vec *const vec = vec_of(part);
    const float *const w = spot_stage_param(st, i, n->weight).w;
    const int bias = spot_arena_find(arena, n->bias);
    const int64_t c = width_of(part);
    int64_t begin, end, at;

    if (spot_stage_is_lead(st)) {
        spot_team_share(c, 16, part->thread, part->n_thread, &begin, &end);
        if (bias < 0)
            vec->rms_grad(st->vector[0], n->dy, n->stat, n->x, st->n_row, c, begin, end);
        else
            vec->norm_grad(st->vector[0], st->vector[1], n->dy, n->stat, n->x, st->n_row, c, begin,
                           end);
        spot_sum_add(part, i, spot_arena_find(arena, n->weight), st->vector[0], begin, end);
        if (bias >= 0)
            spot_sum_add(part, i, bias, st->vector[1], begin, end);
    }
    spot_part_rows(part, &begin, &end);
    at = begin * c;
    (bias < 0 ? vec->rms_back : vec->norm_back)(n->dx + at, n->base + at, n->dy + at,
                                                n->stat + 2 * begin, n->x + at, w, end - begin, c);
}

/* --- products -------------------------------------------------------------- */

/* y[N][.] = x W: the sum runs over the columns of W (its rows are the outputs, side by side by
 * shard) or over its rows (the shards are partial products), for n_shard of its own
 * shards, beginning with `first`. Kinds that round inputs round W and activations, not gradients.
 */
struct times {
    float *y;
    const float *x;
    const struct spot_param *weight;
    bool is_over_cols, is_back;
};

static struct spot_block times_weight(const struct spot_part *part, const struct times *t, float *y,
                                      int first, int n_shard)
{
    const struct spot_stage *const st = part->stage;
    const struct spot_param *const weight = t->weight;
    const bool is_over_cols = t->is_over_cols;
    const int64_t rows = weight->rows, cols = weight->cols, own = rows * st->n_shard;
    const struct spot_gemm g = { .m = st->n_row,
                                 .n = is_over_cols ? rows : cols,
                                 .k = is_over_cols ? cols : rows,
                                 .parts = is_over_cols ? SPOT_GEMM_COLS : SPOT_GEMM_SUM,
                                 .n_part = n_shard,
                                 .a = is_over_cols ? t->x : t->x + first * rows,
                                 .a_row = is_over_cols ? cols : own,
                                 .a_col = 1,
                                 .b = weight->w + first * weight->shard_elem,
                                 .b_row = is_over_cols ? 1 : cols,
                                 .b_col = is_over_cols ? cols : 1,
                                 .b_part = weight->shard_elem,
                                 .rounds_a = st->kernel->is_bf16 && !t->is_back,
                                 .rounds_b = st->kernel->is_bf16,
                                 .c = y,
                                 .c_row = is_over_cols ? own : cols };

    return spot_gemm_part(st->kernel, &g, part->thread, part->n_thread, &st->work[part->thread]);
}

/* y = x W as a sum over shards: with those of the other members of the tensor group, if any. */
static struct spot_block sum_over_shards(const struct spot_part *part, const struct times *t)
{
    struct spot_stage *const st = part->stage;
    const size_t n = (size_t)st->n_row * (size_t)t->weight->cols;
    const int M = (int)st->config.shape.n_shard / st->n_shard;
    struct spot_node node[SPOT_NODES_MAX];
    struct spot_block block = { 0 };

    if (M == 1)
        return times_weight(part, t, t->y, 0, st->n_shard);
    spot_tensor_group_nodes(&st->config.shape, st->config.group.m, M, node);
    for (int k = 0; k < st->n_node; k++)
        block = times_weight(part, t, st->group_out + (size_t)k * n, node[k].begin - st->shard,
                             node[k].n);
    spot_team_meet(st->team);
    if (part->thread == 0)
        spot_tensor_group_sum(&st->group, st->group_out, n, t->y);
    spot_team_meet(st->team);
    return block;
}

struct spot_block spot_part_linear(const struct spot_part *part, int i, const char *weight,
                                   bool is_out_first, const float *x, float *y)
{
    const struct spot_param w = spot_stage_param(part->stage, i, weight);
    const struct times t = { y, x, &w, is_out_first, false };

    return is_out_first ? times_weight(part, &t, y, 0, part->stage->n_shard)
                        : sum_over_shards(part, &t);
}

/* Sum of a^T b: [a_cols][b_cols], all shards of the weight in order; one of the two is the
 * gradient. */
static void weight_gradient(const struct spot_part *part, int i, int tensor, const float *a,
                            int64_t a_cols, const float *b, int64_t b_cols, bool is_a_gradient)
{
    const struct spot_stage *const st = part->stage;
    const struct spot_gemm g = { .m = a_cols,
                                 .n = b_cols,
                                 .k = st->n_row,
                                 .parts = SPOT_GEMM_COLS,
                                 .n_part = 1,
                                 .a = a,
                                 .a_row = 1,
                                 .a_col = a_cols,
                                 .b = b,
                                 .b_row = b_cols,
                                 .b_col = 1,
                                 .rounds_a = st->kernel->is_bf16 && !is_a_gradient,
                                 .rounds_b = st->kernel->is_bf16 && is_a_gradient,
                                 .c = st->grad,
                                 .c_row = b_cols };
    const struct spot_block block =
        spot_gemm_part(st->kernel, &g, part->thread, part->n_thread, &st->work[part->thread]);

    for (int64_t r = block.row; r < block.row_end; r++)
        spot_sum_add(part, i, tensor, st->grad, r * b_cols + block.col, r * b_cols + block.col_end);
}

static void bias_gradient(const struct spot_part *part, int i, int tensor, const float *dy,
                          int64_t c)
{
    const struct spot_stage *const st = part->stage;
    int64_t begin, end;

    spot_team_share(c, 64, part->thread, part->n_thread, &begin, &end);
    vec_of(part)->column_sum(st->vector[0], dy, st->n_row, c, begin, end);
    spot_sum_add(part, i, tensor, st->vector[0], begin, end);
}

struct spot_block spot_part_linear_back(const struct spot_part *part, int i, const char *weight,
                                        const char *bias, bool is_out_first, const float *x,
                                        const float *dy, float *dx)
{
    const struct spot_arena *const arena = &part->stage->bundle[i]->arena;
    const struct spot_param w = spot_stage_param(part->stage, i, weight);
    const struct times back = { dx, dy, &w, !is_out_first, true };
    const int64_t sharded = w.rows * part->stage->n_shard;
    const int t = spot_arena_find(arena, weight), b = bias ? spot_arena_find(arena, bias) : -1;

    if (b >= 0 && (is_out_first || spot_stage_is_lead(part->stage)))
        bias_gradient(part, i, b, dy, is_out_first ? sharded : w.cols);
    if (is_out_first)
        weight_gradient(part, i, t, dy, sharded, x, w.cols, true);
    else
        weight_gradient(part, i, t, x, sharded, dy, w.cols, false);
    return is_out_first ? sum_over_shards(part, &back)
                        : times_weight(part, &back, dx, 0, part->stage->n_shard);
}

/* --- element-wise operations on the block of a product ------------------------------------ */

void spot_part_bias(const struct spot_part *part, const struct spot_block *block, int64_t c,
                    const struct spot_param *bias, float *x, float *act)
{
    const bool is_exact = part->stage->config.shape.kind.activation == SPOT_GELU_ERF;
    const int64_t n = bias->rows;

    for (int64_t r = block->row; r < block->row_end; r++)
        for (int64_t col = block->col, next; col < block->col_end; col = next) {
            const float *const b = bias->w + col / n * bias->shard_elem + col % n;

            next = (col / n + 1) * n < block->col_end ? (col / n + 1) * n : block->col_end;
            if (act)
                (is_exact ? vec_of(part)->gelu_exact
                          : vec_of(part)->gelu)(act + r * c + col, x + r * c + col, b, next - col);
            else
                vec_of(part)->add(x + r * c + col, b, next - col);
        }
}

void spot_part_add2(const struct spot_part *part, const struct spot_block *block, int64_t c,
                    const float *bias, const float *x, float *y)
{
    for (int64_t r = block->row; r < block->row_end; r++)
        if (bias)
            vec_of(part)->add2(y + r * c + block->col, bias + block->col, x + r * c + block->col,
                               block->col_end - block->col);
        else
            vec_of(part)->add(y + r * c + block->col, x + r * c + block->col,
                              block->col_end - block->col);
}

void spot_part_mul(const struct spot_part *part, const struct spot_block *block, int64_t c,
                   const float *x, float *y)
{
    for (int64_t r = block->row; r < block->row_end; r++)
        vec_of(part)->mul(y + r * c + block->col, x + r * c + block->col,
                          block->col_end - block->col);
}
