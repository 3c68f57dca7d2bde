/* SPDX-License-Identifier: MIT */
/* Embedding and layers, forward and backward, as passes of the team. */
#include "engine/cpu/stage_cpu.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static bool is_gated(const struct spot_stage *stage)
{
    return stage->config.shape.kind.is_gated;
}

/* --- embedding: out[b, t] = wte[token[b, t]], and of GPT-2 + wpe[t] --------- */

static void embed(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_param wte = spot_stage_param(w->stage, w->i, "wte");
    /* every member holds all of it: nothing to ask of the others */
    const float *const first = wte.w - w->stage->shard * wte.shard_elem;
    const int64_t c = wte.cols, seq = w->stage->config.shape.seq;
    const float *const wpe = spot_pass_vector(w, "wpe");
    int64_t r, end;

    spot_part_rows(part, &r, &end);
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
    spot_pass_run(&(struct spot_pass){ .stage = stage, .i = i, .token = token, .out = out }, embed);
}

/* A range of columns of all rows, so that each element is a chain over ascending rows. Rows of wte
 * in other members' shards are theirs. */
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
        const int64_t token = w->token[r / seq * (seq + 1) + r % seq] - first;

        if (token >= 0 && token < vocab)
            vec->add(dte + token * c + begin, w->dout + r * c + begin, end - begin);
        if (wpe >= 0)
            vec->add(dpe + r % seq * c + begin, w->dout + r * c + begin, end - begin);
    }
    for (int64_t v = 0; v < vocab; v++)
        spot_sum_add(part, w->i, spot_arena_find(arena, "wte"), dte, v * c + begin, v * c + end);
    for (int64_t t = 0; wpe >= 0 && t < seq; t++)
        spot_sum_add(part, w->i, wpe, dpe, t * c + begin, t * c + end);
}

void spot_embed_backward(struct spot_stage *stage, int i, const uint32_t *token, const float *dout)
{
    spot_pass_run(&(struct spot_pass){ .stage = stage, .i = i, .token = token, .dout = dout },
                  embed_back);
    spot_sum_close(stage, i);
}

/* --- layer: mid = x + proj(attention(qkv(ln1 x))), out = mid + fc2(gelu(fc1(ln2 mid))) ---
 *
 * Llama's has the same first half, without biases, and another second one (stage_gated.c). */

static void norm1(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_norm(part, w->stage->norm, w->save->norm1, w->save->x, spot_pass_vector(w, "ln1.w"),
                   spot_pass_vector(w, "ln1.b"));
}

static void qkv(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_block block =
        spot_part_linear(part, w->i, "qkv.w", true, w->stage->norm, w->save->qkv);

    if (spot_pass_vector(w, "qkv.b")) {
        const struct spot_param bias = spot_stage_param(w->stage, w->i, "qkv.b");

        spot_part_bias(part, &block,
                       spot_stage_own(w->stage, spot_shape_qkv(&w->stage->config.shape)), &bias,
                       w->save->qkv, NULL);
    }
}

static struct spot_attention attention_of(const struct spot_pass *w)
{
    const struct spot_shape *const s = &w->stage->config.shape;

    return (struct spot_attention){ .kernel = w->stage->kernel,
                                    .seq = s->seq,
                                    .head_dim = spot_shape_head_dim(s),
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

static void attention(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_attention at = attention_of(w);
    int64_t unit, end;

    spot_team_share(w->stage->config.micro_batch * at.n_kv_head, 1, part->thread, part->n_thread,
                    &unit, &end);
    for (; unit < end; unit++)
        spot_attention_forward(&at, unit, &w->stage->work[part->thread],
                               w->stage->score[part->thread]);
}

static void proj(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_block block =
        spot_part_linear(part, w->i, "proj.w", false, w->save->attention, w->save->mid);

    spot_part_add2(part, &block, w->stage->config.shape.width, spot_pass_vector(w, "proj.b"),
                   w->save->x, w->save->mid);
}

static void norm2(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_norm(part, w->stage->norm, w->save->norm2, w->save->mid, spot_pass_vector(w, "ln2.w"),
                   spot_pass_vector(w, "ln2.b"));
}

static void fc1(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_param bias = spot_stage_param(w->stage, w->i, "up.b");
    const struct spot_block block =
        spot_part_linear(part, w->i, "up.w", true, w->stage->norm, w->save->pre);

    spot_part_bias(part, &block, spot_stage_own(w->stage, spot_shape_ffn(&w->stage->config.shape)),
                   &bias, w->save->pre, w->stage->act);
}

static void fc2(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_block block =
        spot_part_linear(part, w->i, "down.w", false, w->stage->act, w->out);

    spot_part_add2(part, &block, w->stage->config.shape.width, spot_pass_vector(w, "down.b"),
                   w->save->mid, w->out);
}

void spot_layer_forward(struct spot_stage *stage, int i, const struct spot_save *save, float *out)
{
    const struct spot_pass w = { .stage = stage, .i = i, .save = save, .out = out };

    spot_pass_run(&w, norm1);
    spot_pass_run(&w, qkv);
    spot_pass_run(&w, attention);
    spot_pass_run(&w, proj);
    spot_pass_run(&w, norm2);
    if (is_gated(stage)) {
        spot_gated_mlp_forward(stage, i, save, out);
        return;
    }
    spot_pass_run(&w, fc1);
    spot_pass_run(&w, fc2);
}

/* What of the forward pass was not kept: the same passes, the same bits. */
static void layer_again(const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    if (st->config.recompute == SPOT_RECOMPUTE_NONE)
        return;
    if (st->config.recompute == SPOT_RECOMPUTE_LAYER) {
        spot_pass_run(w, norm1);
        spot_pass_run(w, qkv);
        spot_pass_run(w, attention);
    }
    spot_pass_run(w, norm2);
    if (is_gated(st))
        spot_gated_mlp_again(st, w->i, w->save);
    else
        spot_pass_run(w, fc1);
}

/* What the forward pass had between ln2 and fc2, once more. */
static void mlp_again(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_gelu_slope(part, w->stage->act, w->stage->slope, w->save->pre);
    spot_part_norm_again(part, w->stage->norm, w->save->norm2, w->save->mid,
                         spot_pass_vector(w, "ln2.w"), spot_pass_vector(w, "ln2.b"));
}

static void fc2_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    const struct spot_block block =
        spot_part_linear_back(part, w->i, "down.w", "down.b", false, st->act, w->dout, st->dact);

    spot_part_mul(part, &block, spot_stage_own(st, spot_shape_ffn(&st->config.shape)), st->slope,
                  st->dact);
}

static void fc1_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    spot_part_linear_back(part, w->i, "up.w", "up.b", true, st->norm, st->dact, st->d[1]);
}

static void norm2_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    spot_part_norm_back(part, w->i,
                        &(struct spot_norm_back){ .weight = "ln2.w",
                                                  .bias = "ln2.b",
                                                  .dx = st->d[0],
                                                  .base = w->dout,
                                                  .dy = st->d[1],
                                                  .stat = w->save->norm2,
                                                  .x = w->save->mid });
}

static void proj_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    spot_part_linear_back(part, w->i, "proj.w", "proj.b", false, w->save->attention, st->d[0],
                          st->d[1]);
}

static void attention_back(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_save *const save = w->save;
    const struct spot_attention at = attention_of(w);
    int64_t unit, end;

    spot_part_norm_again(part, w->stage->norm, save->norm1, save->x, spot_pass_vector(w, "ln1.w"),
                         spot_pass_vector(w, "ln1.b"));
    spot_team_share(w->stage->config.micro_batch * at.n_kv_head, 1, part->thread, part->n_thread,
                    &unit, &end);
    for (; unit < end; unit++)
        spot_attention_backward(&at, unit, &w->stage->work[part->thread],
                                w->stage->score[part->thread]);
}

static void qkv_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    spot_part_linear_back(part, w->i, "qkv.w", "qkv.b", true, st->norm, st->dqkv, st->d[1]);
}

static void norm1_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    spot_part_norm_back(part, w->i,
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
    const struct spot_pass w = { .stage = stage, .i = i, .save = save, .dout = dout, .din = din };

    layer_again(&w);
    if (is_gated(stage)) {
        spot_gated_mlp_backward(stage, i, save, dout);
    } else {
        spot_pass_run(&w, mlp_again);
        spot_pass_run(&w, fc2_back);
        spot_pass_run(&w, fc1_back);
    }
    spot_pass_run(&w, norm2_back);
    spot_pass_run(&w, proj_back);
    spot_pass_run(&w, attention_back);
    spot_pass_run(&w, qkv_back);
    spot_pass_run(&w, norm1_back);
    spot_sum_close(stage, i);
}
