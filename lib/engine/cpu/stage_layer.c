/* SPDX-License-Identifier: MIT */
/* The three kinds of bundle, forward and backward, as passes of the team. */
#include "engine/cpu/stage_cpu.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "engine/tree.h"

/* One bundle and one microbatch: what the passes below work on. */
struct work {
    struct spot_stage *stage;
    int i;
    const struct spot_save *save;
    const uint32_t *token;
    const float *dout;
    float *out, *din;
};

static void run(struct work *work, spot_team_fn pass)
{
    spot_team_run(work->stage->team, pass, work);
}

static struct spot_part part_of(const struct work *work, int thread, int n_thread)
{
    return (struct spot_part){ work->stage, thread, n_thread };
}

/* NULL: the architecture has no such vector. */
static const float *vector_of(const struct work *w, const char *name)
{
    return spot_arena_find(&w->stage->bundle[w->i]->arena, name) < 0
               ? NULL
               : spot_stage_param(w->stage, w->i, name).w;
}

static bool is_llama(const struct spot_stage *stage)
{
    return stage->config.shape.arch == SPOT_ARCH_LLAMA;
}

/* --- embedding: out[b, t] = wte[token[b, t]], and of GPT-2 + wpe[t] --------- */

static void embed(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_param wte = spot_stage_param(w->stage, w->i, "wte");
    /* every member holds all of it: nothing to ask of the others */
    const float *const first = wte.w - w->stage->shard * wte.shard_elem;
    const int64_t c = wte.cols, seq = w->stage->config.shape.seq;
    const float *const wpe = vector_of(w, "wpe");
    int64_t r, end;

    spot_part_rows(&part, &r, &end);
    for (; r < end; r++) {
        const int64_t token = w->token[r / seq * (seq + 1) + r % seq];

        assert(token < w->stage->config.shape.vocab);
        memcpy(w->out + r * c, first + token / wte.rows * wte.shard_elem + token % wte.rows * c,
               (size_t)c * sizeof(float));
        if (wpe)
            w->stage->kernel->vec->add(w->out + r * c, wpe + r % seq * c, c);
    }
}

void spot_embed_forward(struct spot_stage *stage, int i, const uint32_t *token, float *out)
{
    run(&(struct work){ .stage = stage, .i = i, .token = token, .out = out }, embed);
}

/* A range of columns of all rows, so that each element is a chain over ascending rows. Rows of wte
 * in other members' shards are theirs. */
static void embed_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_stage *const stage = w->stage;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_vec *const vec = stage->kernel->vec;
    const struct spot_arena *const arena = &stage->bundle[w->i]->arena;
    const int64_t c = stage->config.shape.width, seq = stage->config.shape.seq,
                  vocab = spot_stage_own(stage, spot_shape_vocab_rows(&stage->config.shape)),
                  first = vocab / stage->n_shard * stage->shard;
    float *const dte = stage->grad, *const dpe = stage->grad + vocab * c;
    const int wpe = spot_arena_find(arena, "wpe");
    int64_t begin, end;

    spot_team_share(c, 16, thread, n_thread, &begin, &end);
    for (int64_t v = 0; v < vocab + seq; v++)
        memset(dte + v * c + begin, 0, (size_t)(end - begin) * sizeof(float));
    for (int64_t r = 0; r < stage->n_row; r++) {
        const int64_t token = w->token[r / seq * (seq + 1) + r % seq] - first;

        if (token >= 0 && token < vocab)
            vec->add(dte + token * c + begin, w->dout + r * c + begin, end - begin);
        if (wpe >= 0)
            vec->add(dpe + r % seq * c + begin, w->dout + r * c + begin, end - begin);
    }
    for (int64_t v = 0; v < vocab; v++)
        spot_sum_add(&part, w->i, spot_arena_find(arena, "wte"), dte, v * c + begin, v * c + end);
    for (int64_t t = 0; wpe >= 0 && t < seq; t++)
        spot_sum_add(&part, w->i, wpe, dpe, t * c + begin, t * c + end);
}

void spot_embed_backward(struct spot_stage *stage, int i, const uint32_t *token, const float *dout)
{
    run(&(struct work){ .stage = stage, .i = i, .token = token, .dout = dout }, embed_back);
    spot_sum_close(stage, i);
}

/* --- layer: mid = x + proj(attention(qkv(ln1 x))), out = mid + fc2(gelu(fc1(ln2 mid))) ---
 *
 * Llama's has the same first half, without biases, and another second one (llama_mlp.c). */

static struct spot_block linear(const struct spot_part *part, const struct work *w,
                                const char *weight, bool is_out_first, const float *x, float *y)
{
    const struct spot_param p = spot_stage_param(w->stage, w->i, weight);

    return spot_part_linear(part, y, x, &p, is_out_first);
}

static void norm1(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_norm(&part, w->stage->norm, w->save->norm1, w->save->x, vector_of(w, "ln1.w"),
                   vector_of(w, "ln1.b"));
}

static void qkv(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_block block = linear(&part, w, "qkv.w", true, w->stage->norm, w->save->qkv);

    if (!is_llama(w->stage)) {
        const struct spot_param bias = spot_stage_param(w->stage, w->i, "qkv.b");

        spot_part_bias(&part, &block, spot_stage_own(w->stage, 3 * w->stage->config.shape.width),
                       &bias, w->save->qkv, NULL);
    }
}

static struct spot_attention attention_of(const struct work *w)
{
    const struct spot_shape *const s = &w->stage->config.shape;

    return (struct spot_attention){ .kernel = w->stage->kernel,
                                    .seq = s->seq,
                                    .head_dim = s->width / s->n_head,
                                    .n_head = spot_stage_own(w->stage, s->n_head),
                                    .n_kv_head = spot_stage_own(w->stage, spot_shape_kv_heads(s)),
                                    .n_shard = w->stage->n_shard,
                                    .qkv = w->save->qkv,
                                    .out = w->save->attention,
                                    .stat = w->save->softmax,
                                    .turn = w->stage->turn,
                                    .dout = w->stage->d[1],
                                    .dqkv = w->stage->dqkv };
}

static void attention(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_attention at = attention_of(w);
    int64_t unit, end;

    spot_team_share(w->stage->config.micro_batch * at.n_kv_head, 1, thread, n_thread, &unit, &end);
    for (; unit < end; unit++)
        spot_attention_forward(&at, unit, &w->stage->work[thread], w->stage->score[thread]);
}

static void proj(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_block block =
        linear(&part, w, "proj.w", false, w->save->attention, w->save->mid);

    spot_part_add2(&part, &block, w->stage->config.shape.width, vector_of(w, "proj.b"), w->save->x,
                   w->save->mid);
}

static void norm2(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_norm(&part, w->stage->norm, w->save->norm2, w->save->mid, vector_of(w, "ln2.w"),
                   vector_of(w, "ln2.b"));
}

static void fc1(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_param bias = spot_stage_param(w->stage, w->i, "fc1.b");
    const struct spot_block block = linear(&part, w, "fc1.w", true, w->stage->norm, w->save->pre);

    spot_part_bias(&part, &block, spot_stage_own(w->stage, 4 * w->stage->config.shape.width), &bias,
                   w->save->pre, w->stage->act);
}

static void fc2(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_block block = linear(&part, w, "fc2.w", false, w->stage->act, w->out);

    spot_part_add2(&part, &block, w->stage->config.shape.width, vector_of(w, "fc2.b"), w->save->mid,
                   w->out);
}

void spot_layer_forward(struct spot_stage *stage, int i, const struct spot_save *save, float *out)
{
    struct work w = { .stage = stage, .i = i, .save = save, .out = out };

    run(&w, norm1);
    run(&w, qkv);
    run(&w, attention);
    run(&w, proj);
    run(&w, norm2);
    if (is_llama(stage)) {
        spot_llama_mlp_forward(stage, i, save, out);
        return;
    }
    run(&w, fc1);
    run(&w, fc2);
}

/* What of the forward pass was not kept: the same passes, the same bits. */
static void layer_again(struct work *w)
{
    struct spot_stage *const st = w->stage;

    if (st->config.recompute == SPOT_RECOMPUTE_NONE)
        return;
    if (st->config.recompute == SPOT_RECOMPUTE_LAYER) {
        run(w, norm1);
        run(w, qkv);
        run(w, attention);
    }
    run(w, norm2);
    if (is_llama(st))
        spot_llama_mlp_again(st, w->i, w->save);
    else
        run(w, fc1);
}

/* What the forward pass had between ln2 and fc2, once more. */
static void mlp_again(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_gelu_slope(&part, w->stage->act, w->stage->slope, w->save->pre);
    spot_part_norm_again(&part, w->stage->norm, w->save->norm2, w->save->mid, vector_of(w, "ln2.w"),
                         vector_of(w, "ln2.b"));
}

static void fc2_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    struct spot_stage *const st = w->stage;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_block block =
        spot_part_linear_back(&part, w->i, "fc2.w", "fc2.b", false, st->act, w->dout, st->dact);

    spot_part_mul(&part, &block, spot_stage_own(st, 4 * st->config.shape.width), st->slope,
                  st->dact);
}

static void fc1_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    struct spot_stage *const st = w->stage;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_linear_back(&part, w->i, "fc1.w", "fc1.b", true, st->norm, st->dact, st->d[1]);
}

static void norm2_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    struct spot_stage *const st = w->stage;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_norm_back(&part, w->i,
                        &(struct spot_norm_back){ .weight = "ln2.w",
                                                  .bias = "ln2.b",
                                                  .dx = st->d[0],
                                                  .base = w->dout,
                                                  .dy = st->d[1],
                                                  .stat = w->save->norm2,
                                                  .x = w->save->mid });
}

static void proj_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    struct spot_stage *const st = w->stage;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_linear_back(&part, w->i, "proj.w", "proj.b", false, w->save->attention, st->d[0],
                          st->d[1]);
}

static void attention_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_save *const save = w->save;
    const struct spot_part part = part_of(w, thread, n_thread);
    const struct spot_attention at = attention_of(w);
    int64_t unit, end;

    spot_part_norm_again(&part, w->stage->norm, save->norm1, save->x, vector_of(w, "ln1.w"),
                         vector_of(w, "ln1.b"));
    spot_team_share(w->stage->config.micro_batch * at.n_kv_head, 1, thread, n_thread, &unit, &end);
    for (; unit < end; unit++)
        spot_attention_backward(&at, unit, &w->stage->work[thread], w->stage->score[thread]);
}

static void qkv_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    struct spot_stage *const st = w->stage;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_linear_back(&part, w->i, "qkv.w", "qkv.b", true, st->norm, st->dqkv, st->d[1]);
}

static void norm1_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    struct spot_stage *const st = w->stage;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_norm_back(&part, w->i,
                        &(struct spot_norm_back){ .weight = "ln1.w",
                                                  .bias = "ln1.b",
                                                  .dx = w->din,
                                                  .base = st->d[0],
                                                  .dy = st->d[1],
                                                  .stat = w->save->norm1,
                                                  .x = w->save->x });
}

void spot_layer_backward(struct spot_stage *stage, int i, const struct spot_save *save,
                         const float *dout, float *din)
{
    struct work w = { .stage = stage, .i = i, .save = save, .dout = dout, .din = din };

    layer_again(&w);
    if (is_llama(stage)) {
        spot_llama_mlp_backward(stage, i, save, dout);
    } else {
        run(&w, mlp_again);
        run(&w, fc2_back);
        run(&w, fc1_back);
    }
    run(&w, norm2_back);
    run(&w, proj_back);
    run(&w, attention_back);
    run(&w, qkv_back);
    run(&w, norm1_back);
    spot_sum_close(stage, i);
}

/* --- head: mean cross-entropy of lnf(x) head.w^T ---------------------------- */

static void head_norm(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_norm(&part, w->stage->norm, w->save->norm1, w->save->x, vector_of(w, "lnf.w"),
                   vector_of(w, "lnf.b"));
}

static void head_logits(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);

    linear(&part, w, "head.w", true, w->stage->norm, w->save->dlogit);
}

/* Logits of the own shards, and how many of shard `s` are a token's: the rest is padding. */
static int64_t own_logits(const struct work *w)
{
    return spot_stage_own(w->stage, spot_shape_vocab_rows(&w->stage->config.shape));
}

static int64_t tokens_in(const struct work *w, int64_t s)
{
    const struct spot_shape *const shape = &w->stage->config.shape;
    const int64_t per_shard = spot_shape_vocab_rows(shape) / shape->n_shard,
                  left = shape->vocab - s * per_shard;

    return left < 0 ? 0 : left < per_shard ? left : per_shard;
}

/* The target's place among the own logits, if it is one of them, and whose it is. */
static int64_t target_of(const struct work *w, int64_t r, int64_t *owner)
{
    const struct spot_shape *const shape = &w->stage->config.shape;
    const int64_t target = w->token[r / shape->seq * (shape->seq + 1) + r % shape->seq + 1];

    assert(target < shape->vocab);
    *owner = target / own_logits(w);
    return target % own_logits(w);
}

static int64_t member_of(const struct spot_stage *st)
{
    return st->shard / st->n_shard;
}

/* The row's largest own logit, and the target's. */
static void row_top(const struct work *w, int64_t r)
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

/* Own shards [s, s + n) of a row: logits become exponentials; their sum, as engine/tree.h says. */
static float sum_shards(const struct work *w, float *logit, int s, int n, float top)
{
    const int64_t per_shard = own_logits(w) / w->stage->n_shard;
    const int half = spot_tree_half(n);

    if (n == 1)
        return w->stage->kernel->vec->exp_sum(logit + s * per_shard,
                                              tokens_in(w, w->stage->shard + s), top);
    return sum_shards(w, logit, s, half, top) + sum_shards(w, logit, s + half, n - half, top);
}

static void row_exponentials(const struct work *w, int64_t r)
{
    const struct spot_stage *const st = w->stage;
    float *const logit = w->save->dlogit + r * own_logits(w);
    const float top = top_of_row(st, r);
    struct spot_node node[SPOT_NODES_MAX];

    spot_group_nodes(&st->config.shape, (int)member_of(st),
                     (int)st->config.shape.n_shard / st->n_shard, node);
    for (int k = 0; k < st->n_node; k++)
        st->row_sum[k * st->n_row + r] =
            sum_shards(w, logit, node[k].begin - st->shard, node[k].n, top);
}

/* The row's loss from the sum of its exponentials, and the gradient in place of the logits. */
static void row_loss(const struct work *w, int64_t r, float sum)
{
    const struct spot_stage *const st = w->stage;
    const int64_t n = own_logits(w), per_shard = n / st->n_shard;
    const float scale = 1.0F / (float)st->n_row;
    float *const logit = w->save->dlogit + r * n;
    int64_t owner;
    const int64_t target = target_of(w, r, &owner);

    st->partial[r] = spot_log((double)sum) + (double)top_of_row(st, r) -
                     (double)st->row_top[(2 * owner + 1) * st->n_row + r];
    for (int s = 0; s < st->n_shard; s++) {
        float *const part = logit + s * per_shard;
        const int64_t here = tokens_in(w, st->shard + s);

        st->kernel->vec->scale(part, here, scale / sum);
        memset(part + here, 0, (size_t)(per_shard - here) * sizeof(*part));
    }
    if (owner == member_of(st))
        logit[target] -= scale;
}

/* Alone: row by row, while it is in the cache. */
static void head_loss(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    int64_t r, end;

    spot_part_rows(&part, &r, &end);
    for (; r < end; r++) {
        row_top(w, r);
        row_exponentials(w, r);
        row_loss(w, r, w->stage->row_sum[r]);
    }
}

/* In a tensor group: three passes, and what the members tell each other in between. */
static void head_tops(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    int64_t r, end;

    for (spot_part_rows(&part, &r, &end); r < end; r++)
        row_top(w, r);
}

static void head_exponentials(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    int64_t r, end;

    for (spot_part_rows(&part, &r, &end); r < end; r++)
        row_exponentials(w, r);
}

static void head_losses(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    int64_t r, end;

    for (spot_part_rows(&part, &r, &end); r < end; r++)
        row_loss(w, r, w->stage->row_sum[w->stage->n_node * w->stage->n_row + r]);
}

static void losses_together(struct work *w)
{
    struct spot_stage *const st = w->stage;
    const size_t n_row = (size_t)st->n_row;

    run(w, head_tops);
    spot_group_gather(&st->group, st->row_top, 2 * n_row);
    run(w, head_exponentials);
    spot_group_sum(&st->group, st->row_sum, n_row, st->row_sum + (size_t)st->n_node * n_row);
    run(w, head_losses);
}

double spot_head_forward(struct spot_stage *stage, int i, const struct spot_save *save,
                         const uint32_t *token)
{
    struct work w = { .stage = stage, .i = i, .save = save, .token = token };
    double loss = 0;

    run(&w, head_norm);
    run(&w, head_logits);
    if (stage->n_shard == stage->config.shape.n_shard)
        run(&w, head_loss);
    else
        losses_together(&w);
    for (int64_t r = 0; r < stage->n_row; r++)
        loss += stage->partial[r];
    return loss / (double)stage->n_row;
}

static void head_again(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);
    const int64_t c = w->stage->config.shape.width;
    int64_t r, end;

    spot_part_norm_again(&part, w->stage->norm, w->save->norm1, w->save->x, vector_of(w, "lnf.w"),
                         vector_of(w, "lnf.b"));
    spot_part_rows(&part, &r, &end);
    memset(w->din + r * c, 0, (size_t)((end - r) * c) * sizeof(float));
}

static void head_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_linear_back(&part, w->i, "head.w", NULL, true, w->stage->norm, w->save->dlogit,
                          w->stage->d[1]);
}

static void head_norm_back(void *user, int thread, int n_thread)
{
    const struct work *const w = user;
    const struct spot_part part = part_of(w, thread, n_thread);

    spot_part_norm_back(&part, w->i,
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
    struct work w = { .stage = stage, .i = i, .save = save, .din = din };

    run(&w, head_again);
    run(&w, head_back);
    run(&w, head_norm_back);
    spot_sum_close(stage, i);
}
