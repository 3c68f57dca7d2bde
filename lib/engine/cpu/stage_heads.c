/* SPDX-License-Identifier: MIT */
/* The first half of a layer: queries, keys and values, the norms of the first two, and attention.
 */
#include <math.h>
#include <string.h>

#include "engine/cpu/stage_cpu.h"
#include "engine/tree.h"

static const struct spot_vec *vec_of(const struct spot_pass *w)
{
    return w->stage->kernel->vec;
}

static float eps_of(const struct spot_pass *w)
{
    return (float)spot_shape_norm_eps(&w->stage->config.shape);
}

static void qkv(const struct spot_part *part, const struct spot_pass *w)
{
    float *const to = w->save->raw ? w->save->raw : w->save->qkv;
    const struct spot_block block =
        spot_part_linear(part, w->i, "qkv.w", true, spot_half_in(w), to);

    if (spot_pass_vector(w, "qkv.b")) {
        const struct spot_param bias = spot_stage_param(w->stage, w->i, "qkv.b");

        spot_part_bias(part, &block,
                       spot_stage_own(w->stage, spot_shape_qkv(&w->stage->config.shape)), &bias, to,
                       NULL);
    }
}

/* --- norms of queries and keys ---------------------------------------------------
 *
 * A row of qkv is [shard][q|k|v][their heads of the shard][d]. With a norm per head all heads share
 * its weight, and every shard adds its own gradient. With one norm over all heads each shard has
 * its part of the weight, and a row's mean square is a sum over shards. */

/* The part of a shard in one tensor, q_norm.w or k_norm.w. */
struct span {
    const char *name;
    const float *by; /* the weight of the whole tensor */
    int tensor;
    int64_t per, begin; /* heads of a shard, and where they begin in its part of a row */
};

static struct span span_of(const struct spot_pass *w, int k)
{
    const struct spot_shape *const s = &w->stage->config.shape;
    const int64_t q = s->n_head / s->n_shard, kv = spot_shape_kv_heads(s) / s->n_shard;
    const char *const name = k ? "k_norm.w" : "q_norm.w";

    return (struct span){ .name = name,
                          .by = spot_pass_vector(w, name),
                          .tensor = spot_arena_find(&w->stage->bundle[w->i]->arena, name),
                          .per = k ? kv : q,
                          .begin = k ? q * spot_shape_head_dim(s) : 0 };
}

/* Numbers in a row, of the own shards and of one shard. */
static int64_t row_of(const struct spot_pass *w)
{
    return spot_stage_own(w->stage, spot_shape_qkv(&w->stage->config.shape));
}

static int64_t shard_row(const struct spot_pass *w)
{
    return row_of(w) / w->stage->n_shard;
}

static int64_t head_dim(const struct spot_pass *w)
{
    return spot_shape_head_dim(&w->stage->config.shape);
}

/* [queries, then keys][own shard][head of the shard][row]: mean (0) and 1 / rms. */
static float *stat_of(const struct spot_pass *w, int k, int64_t shard, int64_t head)
{
    const struct span q = span_of(w, 0), x = span_of(w, k);
    const int64_t before = k ? w->stage->n_shard * q.per : 0;

    return w->save->qk_stat + (before + shard * x.per + head) * 2 * w->stage->n_row;
}

static void copy_values(const struct spot_pass *w, int64_t r)
{
    const struct span k = span_of(w, 1);
    const int64_t d = head_dim(w), row = row_of(w), begin = k.begin + k.per * d;

    for (int64_t s = 0; s < w->stage->n_shard; s++) {
        const int64_t at = r * row + s * shard_row(w) + begin;

        memcpy(w->save->qkv + at, w->save->raw + at, (size_t)(k.per * d) * sizeof(float));
    }
}

static void norm_each(const struct spot_part *part, const struct spot_pass *w)
{
    const int64_t d = head_dim(w), row = row_of(w);
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++) {
        copy_values(w, r);
        for (int k = 0; k < 2; k++) {
            const struct span x = span_of(w, k);

            for (int64_t s = 0; s < w->stage->n_shard; s++)
                for (int64_t h = 0; h < x.per; h++) {
                    const int64_t at = r * row + s * shard_row(w) + x.begin + h * d;

                    vec_of(w)->rms(w->save->qkv + at, stat_of(w, k, s, h) + 2 * r,
                                   w->save->raw + at, x.by, eps_of(w), 1, d);
                }
        }
    }
}

/* Adds the gradient of the norms' weights: for each column a chain over rows, then heads. */
static void norm_each_grad(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    const int64_t d = head_dim(w), row = row_of(w);
    int64_t begin, end;

    spot_team_share(d, 16, part->thread, part->n_thread, &begin, &end);
    for (int k = 0; k < 2; k++) {
        const struct span x = span_of(w, k);

        for (int64_t s = 0; s < st->n_shard; s++) {
            for (int64_t h = 0; h < x.per; h++) {
                const int64_t at = s * shard_row(w) + x.begin + h * d;

                vec_of(w)->rms_grad(st->vector[h > 0], st->dqkv + at, stat_of(w, k, s, h),
                                    w->save->raw + at, st->n_row, row, begin, end);
                if (h)
                    vec_of(w)->add(st->vector[0] + begin, st->vector[1] + begin, end - begin);
            }
            spot_sum_add_shared(part, w->i, x.tensor, st->vector[0] + begin, begin, end - begin,
                                s > 0);
        }
    }
}

static void norm_each_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    const int64_t d = head_dim(w), row = row_of(w);
    float *const zero = st->score[part->thread];
    int64_t r, end;

    memset(zero, 0, (size_t)d * sizeof(float));
    for (spot_part_rows(part, &r, &end); r < end; r++)
        for (int k = 0; k < 2; k++) {
            const struct span x = span_of(w, k);

            for (int64_t s = 0; s < st->n_shard; s++)
                for (int64_t h = 0; h < x.per; h++) {
                    const int64_t at = r * row + s * shard_row(w) + x.begin + h * d;

                    vec_of(w)->rms_back(st->dqkv + at, zero, st->dqkv + at,
                                        stat_of(w, k, s, h) + 2 * r, w->save->raw + at, x.by, 1, d);
                }
        }
}

/* Sum over own shards [s, s + n) of a row, in the order of engine/tree.h. */
static float sum_tree(const float *of_shard, int s, int n)
{
    const int half = spot_tree_half(n);

    return n == 1 ? of_shard[s]
                  : sum_tree(of_shard, s, half) + sum_tree(of_shard, s + half, n - half);
}

/* Combines one number per own shard into one for the row, of queries (k 0) or keys (k 1). */
static void put_nodes(const struct spot_pass *w, int k, int64_t r, const float *of_shard)
{
    const struct spot_stage *const st = w->stage;
    const int M = (int)st->config.shape.n_shard / st->n_shard;
    struct spot_node node[SPOT_NODES_MAX];

    spot_tensor_group_nodes(&st->config.shape, st->shard / st->n_shard, M, node);
    for (int i = 0; i < st->n_node; i++)
        st->row_pair[(2 * i + k) * st->n_row + r] =
            sum_tree(of_shard, node[i].begin - st->shard, node[i].n);
}

/* [queries|keys][row] over all shards. */
static const float *pairs_together(const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    float *const all = st->row_pair + (size_t)st->n_node * 2 * (size_t)st->n_row;

    if (st->n_shard == st->config.shape.n_shard)
        return st->row_pair;
    spot_tensor_group_sum(&st->group, st->row_pair, 2 * (size_t)st->n_row, all);
    return all;
}

static void whole_squares(const struct spot_part *part, const struct spot_pass *w)
{
    const int64_t d = head_dim(w);
    float of_shard[SPOT_SHARDS_MAX];
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++)
        for (int k = 0; k < 2; k++) {
            const struct span x = span_of(w, k);

            for (int64_t s = 0; s < w->stage->n_shard; s++) {
                const float *const in = w->save->raw + r * row_of(w) + s * shard_row(w) + x.begin;

                of_shard[s] = vec_of(w)->dot(in, in, x.per * d);
            }
            put_nodes(w, k, r, of_shard);
        }
}

static int64_t whole_width(const struct spot_pass *w, const struct span *x)
{
    return x->per * head_dim(w) * w->stage->config.shape.n_shard;
}

static void norm_whole(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_stage *const st = w->stage;
    const int64_t d = head_dim(w);
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++) {
        copy_values(w, r);
        for (int k = 0; k < 2; k++) {
            const struct span x = span_of(w, k);
            float *const stat = stat_of(w, k, 0, 0) + 2 * r;

            stat[0] = 0;
            stat[1] =
                1.0F / sqrtf(w->pair[k * st->n_row + r] / (float)whole_width(w, &x) + eps_of(w));
            for (int64_t s = 0; s < st->n_shard; s++) {
                const int64_t at = r * row_of(w) + s * shard_row(w) + x.begin;

                vec_of(w)->rms_again(w->save->qkv + at, stat, w->save->raw + at,
                                     x.by + (st->shard + s) * x.per * d, 1, x.per * d);
            }
        }
    }
}

static void norm_whole_grad(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    int64_t begin, end;

    for (int k = 0; k < 2; k++) {
        const struct span x = span_of(w, k);
        const int64_t n = x.per * head_dim(w);

        spot_team_share(n, 16, part->thread, part->n_thread, &begin, &end);
        for (int64_t s = 0; s < st->n_shard; s++) {
            const int64_t at = s * shard_row(w) + x.begin;

            vec_of(w)->rms_grad(st->vector[0], st->dqkv + at, stat_of(w, k, 0, 0),
                                w->save->raw + at, st->n_row, row_of(w), begin, end);
            spot_sum_add_shared(part, w->i, x.tensor, st->vector[0] + begin,
                                (st->shard + s) * n + begin, end - begin, false);
        }
    }
}

/* Replaces dqkv by d = dy * w, and computes the mean of d h. */
static void whole_dots(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_stage *const st = w->stage;
    float of_shard[SPOT_SHARDS_MAX];
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++)
        for (int k = 0; k < 2; k++) {
            const struct span x = span_of(w, k);
            const int64_t n = x.per * head_dim(w);

            for (int64_t s = 0; s < st->n_shard; s++) {
                const int64_t at = r * row_of(w) + s * shard_row(w) + x.begin;

                vec_of(w)->mul(st->dqkv + at, x.by + (st->shard + s) * n, n);
                of_shard[s] = vec_of(w)->dot(st->dqkv + at, w->save->raw + at, n) *
                              stat_of(w, k, 0, 0)[2 * r + 1];
            }
            put_nodes(w, k, r, of_shard);
        }
}

static void norm_whole_back(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_stage *const st = w->stage;
    int64_t r, end;

    for (spot_part_rows(part, &r, &end); r < end; r++)
        for (int k = 0; k < 2; k++) {
            const struct span x = span_of(w, k);
            const float mean = w->pair[k * st->n_row + r] / (float)whole_width(w, &x);

            for (int64_t s = 0; s < st->n_shard; s++) {
                const int64_t at = r * row_of(w) + s * shard_row(w) + x.begin;

                vec_of(w)->rms_join(st->dqkv + at, w->save->raw + at, x.per * head_dim(w),
                                    stat_of(w, k, 0, 0)[2 * r + 1], mean);
            }
        }
}

static void norm_forward(const struct spot_pass *w)
{
    struct spot_pass all = *w;

    switch (w->stage->config.shape.kind.qk_norm) {
    case SPOT_QK_HEAD:
        spot_pass_run(w, norm_each);
        break;
    case SPOT_QK_WHOLE:
        spot_pass_run(w, whole_squares);
        all.pair = pairs_together(w);
        spot_pass_run(&all, norm_whole);
        break;
    default:
        break;
    }
}

static void norm_backward(const struct spot_pass *w)
{
    struct spot_pass all = *w;

    switch (w->stage->config.shape.kind.qk_norm) {
    case SPOT_QK_HEAD:
        spot_pass_run(w, norm_each_grad);
        spot_pass_run(w, norm_each_back);
        break;
    case SPOT_QK_WHOLE:
        spot_pass_run(w, norm_whole_grad);
        spot_pass_run(w, whole_dots);
        all.pair = pairs_together(w);
        spot_pass_run(&all, norm_whole_back);
        break;
    default:
        break;
    }
}

/* --- attention ------------------------------------------------------------------- */

static struct spot_attention attention_of(const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;
    const struct spot_shape *const s = &st->config.shape;
    const struct spot_decoder *const k = &s->kind;
    const int64_t layer = st->bundle[w->i]->index - 1;
    const bool is_local = spot_layer_in(&k->local, layer);

    return (struct spot_attention){
        .kernel = st->kernel,
        .seq = s->seq,
        .head_dim = spot_shape_head_dim(s),
        .n_head = spot_stage_own(st, s->n_head),
        .n_kv_head = spot_stage_own(st, spot_shape_kv_heads(s)),
        .n_shard = st->n_shard,
        .qkv = w->save->qkv,
        .out = w->save->attention,
        .stat = w->save->softmax,
        .turn = spot_layer_in(&k->unturned, layer) ? NULL : st->turn[is_local && st->turn[1]],
        .n_turned = spot_shape_rotary(s),
        .window = is_local ? k->window : 0,
        .scale = k->attention_scale != 0 ? (float)k->attention_scale
                                         : 1.0F / sqrtf((float)spot_shape_head_dim(s)),
        .cap = (float)k->attention_cap,
        .dout = st->d[1],
        .dqkv = st->dqkv
    };
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

void spot_heads_again(const struct spot_pass *w)
{
    spot_pass_run(w, qkv);
    norm_forward(w);
    spot_pass_run(w, attention);
}

static void proj(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_half_out(part, w, "proj.w", "proj.b", w->save->attention);
}

void spot_heads_forward(const struct spot_pass *w)
{
    spot_heads_again(w);
    spot_pass_run(w, proj);
}

/* --- backward -------------------------------------------------------------------- */

static void proj_back(const struct spot_part *part, const struct spot_pass *w)
{
    spot_part_linear_back(part, w->i, "proj.w", "proj.b", false, w->save->attention, w->dy,
                          w->stage->d[1]);
}

static void attention_back(const struct spot_part *part, const struct spot_pass *w)
{
    const struct spot_attention at = attention_of(w);
    int64_t unit, end;

    spot_part_half_norm_again(part, w);
    spot_team_share(w->stage->config.micro_batch * at.n_kv_head, 1, part->thread, part->n_thread,
                    &unit, &end);
    for (; unit < end; unit++)
        spot_attention_backward(&at, unit, &w->stage->work[part->thread],
                                w->stage->score[part->thread]);
}

static void qkv_back(const struct spot_part *part, const struct spot_pass *w)
{
    struct spot_stage *const st = w->stage;

    spot_part_linear_back(part, w->i, "qkv.w", "qkv.b", true, spot_half_in(w), st->dqkv, st->d[1]);
}

void spot_heads_backward(const struct spot_pass *w)
{
    spot_pass_run(w, proj_back);
    spot_pass_run(w, attention_back);
    norm_backward(w);
    spot_pass_run(w, qkv_back);
}
