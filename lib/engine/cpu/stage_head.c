/* SPDX-License-Identifier: MIT */
/* The head: final norm, logits and mean cross-entropy, alone or with a tensor group. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/cpu/stage_cpu.h"
#include "engine/tree.h"

/* --- head: mean cross-entropy of lnf(x) head.w^T ---------------------------- */

static void head_norm(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_norm(part, w->stage->norm, w->save->norm1, w->save->x, spot_pass_vector(w, "lnf.w"),
                   spot_pass_vector(w, "lnf.b"));
}

static void head_logits(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_linear(part, w->i, "head.w", true, w->stage->norm, w->save->dlogit);
}

static void slope_row(const struct spot_pass *w, const float *logit, float *slope, int64_t n)
{
    const struct spot_decoder *const d = &w->stage->config.shape.kind;

    for (int64_t i = 0; i < n; i++)
        slope[i] = 1;
    w->stage->kernel->vec->cap_back(
        slope, logit, n, d->logit_scale != 0 ? (float)d->logit_scale : 1, (float)d->logit_cap);
}

/* Number of logits of the own shards, and of those of shard `s` that belong to a token; the rest is
 * padding. */
static int64_t own_logits(const struct spot_pass *w)
{
    return spot_stage_own(w->stage, spot_shape_vocab_rows(&w->stage->config.shape));
}

static int64_t tokens_in(const struct spot_pass *w, int64_t s)
{
    const struct spot_shape *const shape = &w->stage->config.shape;
    const int64_t per_shard = spot_shape_vocab_rows(shape) / shape->n_shard,
                  left = shape->vocab - s * per_shard;

    return left < 0 ? 0 : left < per_shard ? left : per_shard;
}

/* Scales and caps the logits. */
static void head_cap(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_decoder *const d = &w->stage->config.shape.kind;
    const struct spot_vec *const vec = w->stage->kernel->vec;
    const float by = d->logit_scale != 0 ? (float)d->logit_scale : 1;
    const int64_t n = own_logits(w);
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++) {
        float *const logit = w->save->dlogit + r * n;

        if (d->logit_cap == 0) {
            vec->scale(logit, n, by);
            continue;
        }
        vec->cap(logit, n, by, (float)d->logit_cap);
        slope_row(w, logit, w->stage->logit_slope + r * n, n);
    }
}

/* The gradient of a row's logits before scale and cap. */
static void uncap(const struct spot_pass *w, int64_t r)
{
    const struct spot_decoder *const d = &w->stage->config.shape.kind;
    const struct spot_vec *const vec = w->stage->kernel->vec;
    const int64_t n = own_logits(w);

    if (d->logit_cap != 0)
        vec->mul(w->save->dlogit + r * n, w->stage->logit_slope + r * n, n);
    else if (d->logit_scale != 0)
        vec->scale(w->save->dlogit + r * n, n, (float)d->logit_scale);
}

/* The index of the target among the own logits, if it is one of them, and the member that has
 * it. */
static int64_t target_of(const struct spot_pass *w, int64_t r, int64_t *owner)
{
    const struct spot_shape *const shape = &w->stage->config.shape;
    const int64_t target = w->token[r / shape->seq * w->stage->n_word + r % shape->seq + 1];

    assert(target < shape->vocab);
    *owner = target / own_logits(w);
    return target % own_logits(w);
}

static int64_t member_of(const struct spot_stage *st)
{
    return st->shard / st->n_shard;
}

/* The factor of the row's loss. A factor of 1 changes no bit. */
static float weight_of(const struct spot_pass *w, int64_t r)
{
    const int64_t seq = w->stage->config.shape.seq;
    float weight;

    if (!w->stage->config.is_weighted)
        return 1;
    memcpy(&weight, &w->token[r / seq * w->stage->n_word + seq + 1 + r % seq], sizeof(weight));
    return weight;
}

/* The row's largest own logit, and the target's. */
static void row_top(const struct spot_pass *w, int64_t r)
{
    const struct spot_stage *const st = w->stage;
    const float *const logit = w->save->dlogit + r * own_logits(w);
    float *const top = st->row_top + member_of(st) * 2 * st->n_row;
    int64_t n = 0, owner;
    const int64_t target = target_of(w, r, &owner);

    for (int s = 0; s < st->n_shard; s++)
        n += tokens_in(w, st->shard + s);
    top[r] = n ? st->kernel->vec->max(logit, n) : -INFINITY;
    top[st->n_row + r] = owner == member_of(st) ? logit[target] : 0;
}

static float top_of_row(const struct spot_stage *st, int64_t r)
{
    float top = st->row_top[r];

    for (int64_t m = 1; m < st->config.shape.n_shard / st->n_shard; m++) {
        const float here = st->row_top[m * 2 * st->n_row + r];

        top = here > top || isnan(here) ? here : top;
    }
    return top;
}

/* Own shards [s, s + n) of a row: replaces logits by exponentials and returns their sum, in the
 * order of engine/tree.h. */
static float sum_shards(const struct spot_pass *w, float *logit, int s, int n, float top)
{
    const int64_t per_shard = own_logits(w) / w->stage->n_shard;
    const int half = spot_tree_half(n);

    if (n == 1)
        return w->stage->kernel->vec->exp_sum(logit + s * per_shard,
                                              tokens_in(w, w->stage->shard + s), top);
    return sum_shards(w, logit, s, half, top) + sum_shards(w, logit, s + half, n - half, top);
}

static void row_exponentials(const struct spot_pass *w, int64_t r)
{
    const struct spot_stage *const st = w->stage;
    float *const logit = w->save->dlogit + r * own_logits(w);
    const float top = top_of_row(st, r);
    struct spot_node node[SPOT_NODES_MAX];

    spot_tensor_group_nodes(&st->config.shape, (int)member_of(st),
                            (int)st->config.shape.n_shard / st->n_shard, node);
    for (int k = 0; k < st->n_node; k++)
        st->row_sum[k * st->n_row + r] =
            sum_shards(w, logit, node[k].begin - st->shard, node[k].n, top);
}

/* The row's loss from the sum of its exponentials, and the gradient in place of the logits. */
static void row_loss(const struct spot_pass *w, int64_t r, float sum)
{
    const struct spot_stage *const st = w->stage;
    const int64_t n = own_logits(w), per_shard = n / st->n_shard;
    const float weight = weight_of(w, r), scale = 1.0F / (float)st->n_row * weight;
    float *const logit = w->save->dlogit + r * n;
    int64_t owner;
    const int64_t target = target_of(w, r, &owner);

    st->partial[r] = (spot_log((double)sum) + (double)top_of_row(st, r) -
                      (double)st->row_top[(2 * owner + 1) * st->n_row + r]) *
                     (double)weight;
    for (int s = 0; s < st->n_shard; s++) {
        float *const part = logit + s * per_shard;
        const int64_t here = tokens_in(w, st->shard + s);

        st->kernel->vec->scale(part, here, scale / sum);
        memset(part + here, 0, (size_t)(per_shard - here) * sizeof(*part));
    }
    if (owner == member_of(st))
        logit[target] -= scale;
    uncap(w, r);
}

/* Alone: row by row, while it is in the cache. */
static void head_loss(const struct spot_part *part, const struct spot_pass *w)
{
    int64_t r, end;

    spot_part_rows(part, &r, &end);
    for (; r < end; r++) {
        row_top(w, r);
        row_exponentials(w, r);
        row_loss(w, r, w->stage->row_sum[r]);
    }
}

/* In a tensor group: three passes, with exchanges between them. */
static void head_tops(const struct spot_part *part, const struct spot_pass *w)
{
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++)
        row_top(w, r);
}

static void head_exponentials(const struct spot_part *part, const struct spot_pass *w)
{
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++)
        row_exponentials(w, r);
}

static void head_losses(const struct spot_part *part, const struct spot_pass *w)
{
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++)
        row_loss(w, r, w->stage->row_sum[w->stage->n_node * w->stage->n_row + r]);
}

static void losses_together(const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    const size_t n_row = (size_t)st->n_row;

    spot_pass_run(w, head_tops);
    spot_tensor_group_gather(&st->group, st->row_top, 2 * n_row);
    spot_pass_run(w, head_exponentials);
    spot_tensor_group_sum(&st->group, st->row_sum, n_row, st->row_sum + (size_t)st->n_node * n_row);
    spot_pass_run(w, head_losses);
}

double spot_head_forward(struct spot_stage *stage, int i, const struct spot_save *save,
                         const uint32_t *token)
{
    const struct spot_pass w = { .stage = stage, .i = i, .save = save, .token = token };
    double loss = 0;

    spot_pass_run(&w, head_norm);
    spot_pass_run(&w, head_logits);
    if (stage->config.shape.kind.logit_cap != 0 || stage->config.shape.kind.logit_scale != 0)
        spot_pass_run(&w, head_cap);
    if (stage->n_shard == stage->config.shape.n_shard)
        spot_pass_run(&w, head_loss);
    else
        losses_together(&w);
    for (int64_t r = 0; r < stage->n_row; r++)
        loss += stage->partial[r];
    return loss / (double)stage->n_row;
}

static void head_again(const struct spot_part *part, const struct spot_pass *w)
{
    const int64_t c = w->stage->config.shape.width;
    int64_t r, end;

    spot_part_norm_again(part, w->stage->norm, w->save->norm1, w->save->x,
                         spot_pass_vector(w, "lnf.w"), spot_pass_vector(w, "lnf.b"));
    spot_part_rows(part, &r, &end);
    memset(w->din + r * c, 0, (size_t)((end - r) * c) * sizeof(float));
}

static void head_back(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_linear_back(part, w->i, "head.w", NULL, true, w->stage->norm, w->save->dlogit,
                          w->stage->d[1]);
}

static void head_norm_back(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_norm_back(part, w->i,
                        &(struct spot_norm_back){ .weight = "lnf.w",
                                                  .bias = "lnf.b",
                                                  .dx = w->din,
                                                  .base = w->din,
                                                  .dy = w->stage->d[1],
                                                  .stat = w->save->norm1,
                                                  .x = w->save->x });
}

void spot_head_backward(struct spot_stage *stage, int i, const struct spot_save *save, float *din)
{
    const struct spot_pass w = { .stage = stage, .i = i, .save = save, .din = din };

    spot_pass_run(&w, head_again);
    spot_pass_run(&w, head_back);
    spot_pass_run(&w, head_norm_back);
    spot_sum_close(stage, i);
}
