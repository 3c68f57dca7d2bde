/* SPDX-License-Identifier: MIT */
/* The three kinds of bundle, forward and backward, as kernels and products on one stream. For Llama
 * the steps that its layers lack are skipped; only the second half of a layer has code of its
 * own. */
#include <string.h>

#include "engine/cuda/stage_cuda.h"
#include "engine/tree.h"

static bool is_gated(const struct spot_stage *st)
{
    return st->config.shape.kind.is_gated;
}

static int64_t own(const struct spot_cuda_at *at, int64_t n)
{
    return spot_cuda_own(at->st, n);
}

static const struct spot_cuda_norm_of ln1 = { "ln1.w", "ln1.b" }, ln2 = { "ln2.w", "ln2.b" },
                                      lnf = { "lnf.w", "lnf.b" };

/* --- embedding ---------------------------------------------------------------------------- */

void spot_cuda_embed_forward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                             struct spot_cuda_flow *flow)
{
    const struct spot_cuda_at at = spot_cuda_at(st, i);

    flow->x = i + 1 < st->n_bundle ? slot->save[i + 1].x : st->edge;
    flow->delta = NULL;
    spot_cuda_embed(st->real, flow->x, spot_cuda_weight(&at, "wte"),
                    spot_cuda_has(&at, "wpe") ? spot_cuda_weight(&at, "wpe") : NULL, slot->token,
                    at.n, st->config.shape.seq, at.c, st->stream);
}

/* Groups rows by token, in ascending order (counting sort). Tokens in other members' shards are
 * left to those members. */
static struct spot_cuda_groups group_rows(struct spot_stage *st, const uint32_t *token)
{
    const struct spot_shape *const s = &st->config.shape;
    const int64_t n = st->n_row, seq = s->seq;
    const int64_t per_shard = spot_shape_vocab_rows(s) / s->n_shard;
    const int64_t first = st->shard * per_shard, own_end = first + st->n_shard * per_shard;
    uint32_t *const group_token = st->groups_host, *const start = group_token + n;
    uint32_t *const order = start + n + 1, *const end = order + n;
    struct spot_cuda_groups groups = { .token = st->groups,
                                       .start = st->groups + n,
                                       .order = st->groups + 2 * n + 1 };
    uint32_t at = 0;

    memset(end, 0, (size_t)s->vocab * sizeof(*end));
    for (int64_t r = 0; r < n; r++)
        end[token[r / seq * (seq + 1) + r % seq]]++;
    for (int64_t v = 0; v < s->vocab; v++) {
        if (end[v] && v >= first && v < own_end) {
            group_token[groups.n_group] = (uint32_t)v;
            start[groups.n_group++] = at;
            at += end[v];
        }
        end[v] = at - end[v]; /* not used for tokens of other members */
    }
    start[groups.n_group] = at;
    for (int64_t r = 0; r < n; r++) {
        const uint32_t v = token[r / seq * (seq + 1) + r % seq];

        if (v >= first && v < own_end)
            order[end[v]++] = (uint32_t)r;
    }
    spot_device_upload(st->dev, st->groups, st->groups_host,
                       ((size_t)n * 3 + 1) * sizeof(*st->groups));
    return groups;
}

void spot_cuda_embed_backward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                              const void *dout)
{
    const struct spot_cuda_at at = spot_cuda_at(st, i);
    const struct spot_cuda_target wte = spot_cuda_target_of(st, i, "wte");
    const struct spot_cuda_groups groups = group_rows(st, slot->token_host);
    const bool adds_wpe = spot_cuda_has(&at, "wpe") && spot_cuda_is_lead(st);
    struct spot_cuda_target wpe;

    if (adds_wpe)
        wpe = spot_cuda_target_of(st, i, "wpe");
    spot_cuda_embed_back(st->real, &wte, adds_wpe ? &wpe : NULL, &groups, dout, at.n,
                         st->config.shape.seq, at.c, st->stream);
}

/* --- layer: mid = x + proj(attention(qkv(ln1 x))), out = mid + fc2(gelu(fc1(ln2 mid))), of
 *     Llama's mid + down(silu(gate(ln2 mid)) up(ln2 mid)) --- */

static struct spot_cuda_linear qkv_of(const struct spot_cuda_at *at)
{
    return (struct spot_cuda_linear){ "qkv.w", "qkv.b", at->c,
                                      own(at, spot_shape_qkv(&at->st->config.shape)), true };
}

static struct spot_cuda_linear proj_of(const struct spot_cuda_at *at)
{
    return (struct spot_cuda_linear){ "proj.w", "proj.b", own(at, at->c), at->c, false };
}

/* The products before and after the activation. */
static struct spot_cuda_linear fc1_of(const struct spot_cuda_at *at)
{
    return (struct spot_cuda_linear){ "up.w", "up.b", at->c,
                                      own(at, spot_shape_pre(&at->st->config.shape)), true };
}

static struct spot_cuda_linear fc2_of(const struct spot_cuda_at *at)
{
    return (struct spot_cuda_linear){ "down.w", "down.b", at->f, at->c, false };
}

static struct spot_cuda_attention attention_of(const struct spot_cuda_at *at,
                                               const struct spot_cuda_save *save)
{
    const struct spot_stage *const st = at->st;
    const struct spot_shape *const s = &st->config.shape;

    return (struct spot_cuda_attention){ .real = st->real,
                                         .n_seq = st->config.micro_batch,
                                         .seq = s->seq,
                                         .dim = spot_shape_head_dim(s),
                                         .n_head = own(at, s->n_head),
                                         .n_kv_head = own(at, spot_shape_kv_heads(s)),
                                         .n_shard = st->n_shard,
                                         .qkv = save->qkv,
                                         .out = save->attention,
                                         .lse = save->lse,
                                         .dout = st->d[1],
                                         .dqkv = st->dqkv,
                                         .dot = st->dot,
                                         .dq = st->is_five ? st->boundary : NULL };
}

/* Attention; st->norm must hold ln1 of save->x. */
static void attend(const struct spot_cuda_at *at, const struct spot_cuda_save *save)
{
    struct spot_stage *const st = at->st;
    const struct spot_cuda_linear qkv = qkv_of(at);
    const struct spot_cuda_attention attention = attention_of(at, save);

    spot_cuda_linear_forward(at, &qkv, save->qkv, st->norm);
    if (is_gated(st))
        spot_cuda_rotate(&attention, save->qkv, st->turn, 1, st->stream);
    spot_cuda_attention_forward(&attention, st->stream);
}

/* The first product of the MLP; st->norm must hold ln2 of save->mid. GPT-2's product gives the
 * values before and after the activation at once. */
static void enter_mlp(const struct spot_cuda_at *at, const struct spot_cuda_save *save)
{
    struct spot_stage *const st = at->st;
    const struct spot_cuda_linear fc1 = fc1_of(at);

    if (is_gated(st))
        spot_cuda_linear_forward(at, &fc1, save->pre, st->norm);
    else
        spot_cuda_linear_gelu(at, &fc1, st->act, save->pre, st->norm);
}

void spot_cuda_layer_forward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                             struct spot_cuda_flow *flow)
{
    const struct spot_cuda_at at = spot_cuda_at(st, i);
    const struct spot_cuda_linear proj = proj_of(&at), fc2 = fc2_of(&at);
    struct spot_cuda_flow mid = { save->x, st->delta };

    spot_cuda_norm_forward(&at, &ln1, save->x, save->norm1, flow);
    attend(&at, save);
    spot_cuda_linear_forward(&at, &proj, st->delta, save->attention);
    spot_cuda_norm_forward(&at, &ln2, save->mid, save->norm2, &mid);
    enter_mlp(&at, save);
    if (is_gated(st))
        spot_cuda_swiglu(st->real, st->act, save->pre, at.n, at.f, st->n_shard, st->stream);
    spot_cuda_linear_forward(&at, &fc2, st->delta, st->act);
    *flow = (struct spot_cuda_flow){ save->mid, st->delta };
}

/* Recomputes the values of the forward pass that were not kept, by the same kernels and with the
 * same bits. */
static void forward_again(const struct spot_cuda_at *at, const struct spot_cuda_save *save)
{
    const int level = at->st->config.recompute;

    if (level >= SPOT_RECOMPUTE_LAYER) {
        spot_cuda_norm_once_more(at, &ln1, save->norm1, save->x);
        attend(at, save);
    }
    if (level >= SPOT_RECOMPUTE_MLP) {
        spot_cuda_norm_once_more(at, &ln2, save->norm2, save->mid);
        enter_mlp(at, save);
    }
}

/* dpre = gradient by pre; adds the gradients of fc2 to the sums. */
static void gelu_backward(const struct spot_cuda_at *at, const struct spot_cuda_save *save,
                          const void *dout)
{
    struct spot_stage *const st = at->st;
    const struct spot_cuda_linear fc2 = fc2_of(at);

    spot_cuda_gelu(st->real, st->act, save->pre, (size_t)(at->n * at->f), st->stream);
    spot_cuda_linear_gradients(at, &fc2, st->act, dout);
    spot_cuda_linear_gelu_back(at, &fc2, st->dpre, save->pre, dout);
}

static void swiglu_backward(const struct spot_cuda_at *at, const struct spot_cuda_save *save,
                            const void *dout)
{
    struct spot_stage *const st = at->st;
    const struct spot_cuda_linear down = fc2_of(at);

    spot_cuda_linear_backward(at, &down, st->dact, dout);
    spot_cuda_swiglu_back(st->real, st->dpre, st->act, save->pre, st->dact, at->n, at->f,
                          st->n_shard, st->stream);
    spot_cuda_linear_gradients(at, &down, st->act, dout);
}

void spot_cuda_layer_backward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                              const void *dout, void *din)
{
    const struct spot_cuda_at at = spot_cuda_at(st, i);
    const struct spot_cuda_linear qkv = qkv_of(&at), proj = proj_of(&at), fc1 = fc1_of(&at);
    const struct spot_cuda_attention attention = attention_of(&at, save);

    forward_again(&at, save);
    (is_gated(st) ? swiglu_backward : gelu_backward)(&at, save, dout);
    spot_cuda_norm_once_more(&at, &ln2, save->norm2, save->mid);
    spot_cuda_linear_gradients(&at, &fc1, st->norm, st->dpre);
    spot_cuda_linear_backward(&at, &fc1, st->d[1], st->dpre);
    spot_cuda_norm_backward(&at, &ln2, st->d[0], dout, st->d[1], save->norm2, save->mid);
    spot_cuda_linear_gradients(&at, &proj, save->attention, st->d[0]);
    spot_cuda_linear_backward(&at, &proj, st->d[1], st->d[0]);
    spot_cuda_attention_backward(&attention, st->stream);
    if (is_gated(st))
        spot_cuda_rotate(&attention, st->dqkv, st->turn, -1, st->stream);
    spot_cuda_norm_once_more(&at, &ln1, save->norm1, save->x);
    spot_cuda_linear_gradients(&at, &qkv, st->norm, st->dqkv);
    spot_cuda_linear_backward(&at, &qkv, st->d[1], st->dqkv);
    spot_cuda_norm_backward(&at, &ln1, din, st->d[0], st->d[1], save->norm1, save->x);
}

/* --- head: mean cross-entropy of lnf(x) head.w^T -------------------------------------------- */

static struct spot_cuda_linear head_of(const struct spot_cuda_at *at)
{
    return (struct spot_cuda_linear){ "head.w", "head.b", at->c,
                                      own(at, spot_shape_vocab_rows(&at->st->config.shape)), true };
}

/* to = the sum over own shards [begin, begin + n) of sum [n_shard][N], in place of the first. */
static void sum_rows(const struct spot_stage *st, float *sum, int begin, int n)
{
    float *const first = sum + (begin - st->shard) * st->n_row;
    const int half = spot_tree_half(n);

    if (n < 2)
        return;
    sum_rows(st, sum, begin, half);
    sum_rows(st, sum, begin + half, n - half);
    spot_cuda_add(SPOT_F32, first, first, first + half * st->n_row, (size_t)st->n_row, st->stream);
}

/* Sums of exponentials over all shards, [N]. */
static float *row_sums(struct spot_stage *st)
{
    const struct spot_shape *const s = &st->config.shape;
    const int M = (int)s->n_shard / st->n_shard;
    const size_t n = (size_t)st->n_row;
    float *const part = st->row_sum + (size_t)st->n_shard * n;
    struct spot_node node[SPOT_NODES_MAX];

    spot_tensor_group_nodes(s, st->shard / st->n_shard, M, node);
    for (int k = 0; k < st->n_node; k++) {
        sum_rows(st, st->row_sum, node[k].begin, node[k].n);
        spot_device_copy(st->dev, part + (size_t)k * n,
                         st->row_sum + (size_t)(node[k].begin - st->shard) * n, n * sizeof(*part));
    }
    if (M > 1)
        spot_tensor_group_sum(&st->group, part, n, part + (size_t)st->n_node * n);
    return M > 1 ? part + (size_t)st->n_node * n : part;
}

/* The members agree on the largest logits and on the sums. */
static void classify_by_shards(struct spot_stage *st, void *logit, const uint32_t *token)
{
    const struct spot_shape *const s = &st->config.shape;
    const int M = (int)s->n_shard / st->n_shard, m = st->shard / st->n_shard;
    const struct spot_cuda_logits logits = { .real = st->real,
                                             .logit = logit,
                                             .token = token,
                                             .n_row = st->n_row,
                                             .seq = s->seq,
                                             .vocab = s->vocab,
                                             .per_shard = spot_shape_vocab_rows(s) / s->n_shard,
                                             .shard = st->shard,
                                             .n_shard = st->n_shard };

    spot_cuda_logit_tops(&logits, st->row_top + 2 * m * st->n_row, st->stream);
    if (M > 1)
        spot_tensor_group_gather(&st->group, st->row_top, 2 * (size_t)st->n_row);
    spot_cuda_logit_sums(&logits, st->row_sum, st->row_top, M, st->stream);
    spot_cuda_logit_losses(&logits, st->partial, row_sums(st), st->row_top, M, st->stream);
}

double spot_cuda_head_forward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                              struct spot_cuda_flow *flow)
{
    const struct spot_cuda_at at = spot_cuda_at(st, i);
    const struct spot_cuda_linear head = head_of(&at);
    const struct spot_cuda_save *const save = &slot->save[i];
    double loss = 0;

    spot_cuda_norm_forward(&at, &lnf, save->x, save->norm1, flow);
    spot_cuda_linear_forward(&at, &head, save->dlogit, st->norm);
    if (st->is_split)
        classify_by_shards(st, save->dlogit, slot->token);
    else
        spot_cuda_classify(st->real, save->dlogit, st->partial, slot->token, at.n,
                           st->config.shape.seq, st->config.shape.vocab, head.out, st->stream);
    spot_device_download(st->dev, st->partial_host, st->partial,
                         (size_t)at.n * sizeof(*st->partial));
    for (int64_t r = 0; r < at.n; r++)
        loss += st->partial_host[r];
    return loss / (double)at.n;
}

void spot_cuda_head_backward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                             void *din)
{
    const struct spot_cuda_at at = spot_cuda_at(st, i);
    const struct spot_cuda_linear head = head_of(&at);

    spot_cuda_norm_once_more(&at, &lnf, save->norm1, save->x);
    spot_cuda_linear_gradients(&at, &head, st->norm, save->dlogit);
    spot_cuda_linear_backward(&at, &head, st->d[1], save->dlogit);
    spot_cuda_norm_backward(&at, &lnf, din, NULL, st->d[1], save->norm1, save->x);
}
