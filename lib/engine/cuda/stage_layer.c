/* SPDX-License-Identifier: MIT */
/* The three kinds of bundle, forward and backward, as kernels and products on one stream. Llama's
 * are GPT-2's with what is missing left out, but for the second half of a layer. */
#include <assert.h>
#include <string.h>

#include "engine/cuda/stage_cuda.h"

/* Stage, bundle and widths, as every pass below wants them. */
struct at {
    struct spot_stage *st;
    int i;
    int64_t n, c, f; /* N, C, F */
};

static struct at at_of(struct spot_stage *st, int i)
{
    const struct spot_shape *const s = &st->config.shape;

    return (struct at){ st, i, st->n_row, s->width, spot_shape_ffn(s) };
}

static bool is_llama(const struct spot_stage *st)
{
    return st->config.shape.arch == SPOT_ARCH_LLAMA;
}

static bool has(const struct at *at, const char *name)
{
    return spot_arena_find(&at->st->part[at->i].bundle->arena, name) >= 0;
}

static int find(const struct at *at, const char *name)
{
    const int t = spot_arena_find(&at->st->part[at->i].bundle->arena, name);

    assert(t >= 0);
    return t;
}

/* A tensor of the compute copy, all shards. */
static const void *weight(const struct at *at, const char *name)
{
    const struct spot_cuda_part *const part = &at->st->part[at->i];
    const size_t size = at->st->real == SPOT_BF16 ? 2 : 4;

    return (const char *)part->on.weight + (size_t)part->weight_at[find(at, name)] * size;
}

/* A replicated vector of the master plane, fp32; NULL: the architecture has no such. */
static const float *vector(const struct at *at, const char *name)
{
    const struct spot_cuda_part *const part = &at->st->part[at->i];

    if (!has(at, name))
        return NULL;
    return part->on.plane[SPOT_PLANE_MASTER] +
           spot_arena_offset(&part->bundle->arena, find(at, name), 0);
}

/* --- products of a linear map y [N][out] = x [N][in] W + b --------------------------- */

struct linear {
    const char *weight, *bias; /* a bias that the bundle has not is none */
    int64_t in, out;
    bool is_out_first; /* W lies as [out][in], else [in][out] */
};

static struct spot_product forward_of(const struct at *at, const struct linear *l, void *y,
                                      const void *x)
{
    const bool has_bias = has(at, l->bias);

    return (struct spot_product){ .real = at->st->real,
                                  .m = at->n,
                                  .n = l->out,
                                  .k = l->in,
                                  .a = x,
                                  .b = weight(at, l->weight),
                                  .is_b_transposed = l->is_out_first,
                                  .c = y,
                                  .epilogue = has_bias ? SPOT_BIAS : SPOT_PLAIN,
                                  .bias = has_bias ? weight(at, l->bias) : NULL };
}

static void linear_forward(const struct at *at, const struct linear *l, void *y, const void *x)
{
    const struct spot_product product = forward_of(at, l, y, x);

    spot_device_product(at->st->dev, &product);
}

static void add_gradient(const struct at *at, const char *name, const float *grad, int64_t n)
{
    const struct spot_cuda_target target = spot_cuda_target_of(at->st, at->i, name);

    spot_cuda_quantise(&target, grad, n, at->st->stream);
}

/* Adds the gradients of W and b to the sums. */
static void linear_gradients(const struct at *at, const struct linear *l, const void *x,
                             const void *dy)
{
    struct spot_stage *const st = at->st;
    const struct spot_product product = { .real = st->real,
                                          .m = l->is_out_first ? l->out : l->in,
                                          .n = l->is_out_first ? l->in : l->out,
                                          .k = at->n,
                                          .a = l->is_out_first ? dy : x,
                                          .is_a_transposed = true,
                                          .b = l->is_out_first ? x : dy,
                                          .c = st->grad,
                                          .is_c_float = true };

    spot_device_product(st->dev, &product);
    add_gradient(at, l->weight, st->grad, l->in * l->out);
    if (!has(at, l->bias))
        return;
    spot_cuda_column_sum(st->real, st->vector, st->column, dy, at->n, l->out, st->stream);
    add_gradient(at, l->bias, st->vector, l->out);
}

static struct spot_product backward_of(const struct at *at, const struct linear *l, void *dx,
                                       const void *dy)
{
    return (struct spot_product){ .real = at->st->real,
                                  .m = at->n,
                                  .n = l->in,
                                  .k = l->out,
                                  .a = dy,
                                  .b = weight(at, l->weight),
                                  .is_b_transposed = !l->is_out_first,
                                  .c = dx };
}

static void linear_backward(const struct at *at, const struct linear *l, void *dx, const void *dy)
{
    const struct spot_product product = backward_of(at, l, dx, dy);

    spot_device_product(at->st->dev, &product);
}

/* --- norms ----------------------------------------------------------------------------- */

struct norm {
    const char *weight, *bias;
};
static const struct norm ln1 = { "ln1.w", "ln1.b" }, ln2 = { "ln2.w", "ln2.b" },
                         lnf = { "lnf.w", "lnf.b" };

/* st->norm = norm(x), x being the flow's value, which is written to `x` if it is a sum. */
static void norm_forward(const struct at *at, const struct norm *norm, void *x, float *stat,
                         const struct spot_cuda_flow *flow)
{
    struct spot_stage *const st = at->st;

    assert(flow->delta || flow->x == x);
    spot_cuda_norm(st->real, x, st->norm, stat, flow->x, flow->delta, vector(at, norm->weight),
                   vector(at, norm->bias), at->n, at->c, st->stream);
}

static void norm_again(const struct at *at, const struct norm *norm, const float *stat,
                       const void *x)
{
    struct spot_stage *const st = at->st;

    spot_cuda_norm_again(st->real, st->norm, stat, x, vector(at, norm->weight),
                         vector(at, norm->bias), at->n, at->c, st->stream);
}

/* dx = base + gradient by x; adds those of weight and bias. */
static void norm_backward(const struct at *at, const struct norm *norm, void *dx, const void *base,
                          const void *dy, const float *stat, const void *x)
{
    struct spot_stage *const st = at->st;
    const bool has_bias = has(at, norm->bias);

    spot_cuda_norm_grad(st->real, st->vector, has_bias ? st->vector + at->c : NULL, st->column, dy,
                        stat, x, at->n, at->c, st->stream);
    add_gradient(at, norm->weight, st->vector, at->c);
    if (has_bias)
        add_gradient(at, norm->bias, st->vector + at->c, at->c);
    spot_cuda_norm_back(st->real, dx, base, dy, stat, x, vector(at, norm->weight), !has_bias, at->n,
                        at->c, st->stream);
}

/* --- embedding ---------------------------------------------------------------------------- */

void spot_cuda_embed_forward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                             struct spot_cuda_flow *flow)
{
    const struct at at = at_of(st, i);

    flow->x = i + 1 < st->n_bundle ? slot->save[i + 1].x : st->edge;
    flow->delta = NULL;
    spot_cuda_embed(st->real, flow->x, weight(&at, "wte"),
                    has(&at, "wpe") ? weight(&at, "wpe") : NULL, slot->token, at.n,
                    st->config.shape.seq, at.c, st->stream);
}

/* Rows by token, ascending: a counting sort. */
static struct spot_cuda_groups group_rows(struct spot_stage *st, const uint32_t *token)
{
    const int64_t n = st->n_row, seq = st->config.shape.seq, vocab = st->config.shape.vocab;
    uint32_t *const group_token = st->groups_host, *const start = group_token + n;
    uint32_t *const order = start + n + 1, *const end = order + n;
    struct spot_cuda_groups groups = { .token = st->groups,
                                       .start = st->groups + n,
                                       .order = st->groups + 2 * n + 1 };
    uint32_t at = 0;

    memset(end, 0, (size_t)vocab * sizeof(*end));
    for (int64_t r = 0; r < n; r++)
        end[token[r / seq * (seq + 1) + r % seq]]++;
    for (int64_t v = 0; v < vocab; v++) {
        if (end[v]) {
            group_token[groups.n_group] = (uint32_t)v;
            start[groups.n_group++] = at;
        }
        at += end[v];
        end[v] = at - end[v];
    }
    start[groups.n_group] = at;
    for (int64_t r = 0; r < n; r++)
        order[end[token[r / seq * (seq + 1) + r % seq]]++] = (uint32_t)r;
    spot_device_upload(st->dev, st->groups, st->groups_host,
                       ((size_t)n * 3 + 1) * sizeof(*st->groups));
    return groups;
}

void spot_cuda_embed_backward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                              const void *dout)
{
    const struct at at = at_of(st, i);
    const struct spot_cuda_target wte = spot_cuda_target_of(st, i, "wte");
    const struct spot_cuda_groups groups = group_rows(st, slot->token_host);
    struct spot_cuda_target wpe;

    if (has(&at, "wpe"))
        wpe = spot_cuda_target_of(st, i, "wpe");
    spot_cuda_embed_back(st->real, &wte, has(&at, "wpe") ? &wpe : NULL, &groups, dout, at.n,
                         st->config.shape.seq, at.c, st->stream);
}

/* --- layer: mid = x + proj(attention(qkv(ln1 x))), out = mid + fc2(gelu(fc1(ln2 mid))), of
 *     Llama's mid + down(silu(gate(ln2 mid)) up(ln2 mid)) --- */

static struct linear qkv_of(const struct at *at)
{
    return (struct linear){ "qkv.w", "qkv.b", at->c, spot_shape_qkv(&at->st->config.shape), true };
}

static struct linear proj_of(const struct at *at)
{
    return (struct linear){ "proj.w", "proj.b", at->c, at->c, false };
}

/* Into the activation, and out of it. */
static struct linear fc1_of(const struct at *at)
{
    return (struct linear){ is_llama(at->st) ? "gateup.w" : "fc1.w", "fc1.b", at->c,
                            spot_shape_pre(&at->st->config.shape), true };
}

static struct linear fc2_of(const struct at *at)
{
    return (struct linear){ is_llama(at->st) ? "down.w" : "fc2.w", "fc2.b", at->f, at->c, false };
}

static struct spot_cuda_attention attention_of(const struct at *at,
                                               const struct spot_cuda_save *save)
{
    const struct spot_stage *const st = at->st;
    const struct spot_shape *const s = &st->config.shape;

    return (struct spot_cuda_attention){ .real = st->real,
                                         .n_seq = st->config.micro_batch,
                                         .seq = s->seq,
                                         .dim = s->width / s->n_head,
                                         .n_head = s->n_head,
                                         .n_kv_head = spot_shape_kv_heads(s),
                                         .n_shard = s->n_shard,
                                         .qkv = save->qkv,
                                         .out = save->attention,
                                         .lse = save->lse,
                                         .dout = st->d[1],
                                         .dqkv = st->dqkv,
                                         .dot = st->dot };
}

/* pre = fc1(norm), act = gelu(pre): in the product where its types allow; or SwiGLU of it. */
static void mlp_forward(const struct at *at, const struct spot_cuda_save *save)
{
    struct spot_stage *const st = at->st;
    const struct linear fc1 = fc1_of(at);
    struct spot_product product = forward_of(at, &fc1, st->act, st->norm);

    if (is_llama(st)) {
        linear_forward(at, &fc1, save->pre, st->norm);
        spot_cuda_swiglu(st->real, st->act, save->pre, at->n, at->f, st->config.shape.n_shard,
                         st->stream);
        return;
    }
    if (st->real == SPOT_F32) {
        linear_forward(at, &fc1, save->pre, st->norm);
        spot_cuda_gelu(st->real, st->act, save->pre, (size_t)(at->n * at->f), st->stream);
        return;
    }
    product.epilogue = SPOT_BIAS_GELU;
    product.aux = save->pre;
    spot_device_product(st->dev, &product);
}

void spot_cuda_layer_forward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                             struct spot_cuda_flow *flow)
{
    const struct at at = at_of(st, i);
    const struct linear qkv = qkv_of(&at), proj = proj_of(&at), fc2 = fc2_of(&at);
    const struct spot_cuda_attention attention = attention_of(&at, save);
    struct spot_cuda_flow mid = { save->x, st->delta };

    norm_forward(&at, &ln1, save->x, save->norm1, flow);
    linear_forward(&at, &qkv, save->qkv, st->norm);
    if (is_llama(st))
        spot_cuda_rotate(&attention, save->qkv, st->turn, 1, st->stream);
    spot_cuda_attention_forward(&attention, st->stream);
    linear_forward(&at, &proj, st->delta, save->attention);
    norm_forward(&at, &ln2, save->mid, save->norm2, &mid);
    mlp_forward(&at, save);
    linear_forward(&at, &fc2, st->delta, st->act);
    *flow = (struct spot_cuda_flow){ save->mid, st->delta };
}

/* dpre = gradient by pre; adds those of fc2. */
static void gelu_backward(const struct at *at, const struct spot_cuda_save *save, const void *dout)
{
    struct spot_stage *const st = at->st;
    const struct linear fc2 = fc2_of(at);
    struct spot_product product = backward_of(at, &fc2, st->dpre, dout);

    spot_cuda_gelu(st->real, st->act, save->pre, (size_t)(at->n * at->f), st->stream);
    linear_gradients(at, &fc2, st->act, dout);
    if (st->real == SPOT_BF16) {
        product.epilogue = SPOT_GELU_BACK;
        product.aux = save->pre;
    }
    spot_device_product(st->dev, &product);
    if (st->real == SPOT_F32)
        spot_cuda_gelu_back(st->real, st->dpre, save->pre, (size_t)(at->n * at->f), st->stream);
}

static void swiglu_backward(const struct at *at, const struct spot_cuda_save *save,
                            const void *dout)
{
    struct spot_stage *const st = at->st;
    const struct linear down = fc2_of(at);

    linear_backward(at, &down, st->dact, dout);
    spot_cuda_swiglu_back(st->real, st->dpre, st->act, save->pre, st->dact, at->n, at->f,
                          st->config.shape.n_shard, st->stream);
    linear_gradients(at, &down, st->act, dout);
}

void spot_cuda_layer_backward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                              const void *dout, void *din)
{
    const struct at at = at_of(st, i);
    const struct linear qkv = qkv_of(&at), proj = proj_of(&at), fc1 = fc1_of(&at);
    const struct spot_cuda_attention attention = attention_of(&at, save);

    (is_llama(st) ? swiglu_backward : gelu_backward)(&at, save, dout);
    norm_again(&at, &ln2, save->norm2, save->mid);
    linear_gradients(&at, &fc1, st->norm, st->dpre);
    linear_backward(&at, &fc1, st->d[1], st->dpre);
    norm_backward(&at, &ln2, st->d[0], dout, st->d[1], save->norm2, save->mid);
    linear_gradients(&at, &proj, save->attention, st->d[0]);
    linear_backward(&at, &proj, st->d[1], st->d[0]);
    spot_cuda_attention_backward(&attention, st->stream);
    if (is_llama(st))
        spot_cuda_rotate(&attention, st->dqkv, st->turn, -1, st->stream);
    norm_again(&at, &ln1, save->norm1, save->x);
    linear_gradients(&at, &qkv, st->norm, st->dqkv);
    linear_backward(&at, &qkv, st->d[1], st->dqkv);
    norm_backward(&at, &ln1, din, st->d[0], st->d[1], save->norm1, save->x);
}

/* --- head: mean cross-entropy of lnf(x) head.w^T -------------------------------------------- */

static struct linear head_of(const struct at *at)
{
    return (struct linear){ "head.w", "head.b", at->c, spot_shape_vocab_rows(&at->st->config.shape),
                            true };
}

double spot_cuda_head_forward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                              struct spot_cuda_flow *flow)
{
    const struct at at = at_of(st, i);
    const struct linear head = head_of(&at);
    const struct spot_cuda_save *const save = &slot->save[i];
    double loss = 0;

    norm_forward(&at, &lnf, save->x, save->norm1, flow);
    linear_forward(&at, &head, save->dlogit, st->norm);
    spot_cuda_classify(st->real, save->dlogit, st->partial, slot->token, at.n, st->config.shape.seq,
                       st->config.shape.vocab, head.out, st->stream);
    spot_device_download(st->dev, st->partial_host, st->partial,
                         (size_t)at.n * sizeof(*st->partial));
    for (int64_t r = 0; r < at.n; r++)
        loss += st->partial_host[r];
    return loss / (double)at.n;
}

void spot_cuda_head_backward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                             void *din)
{
    const struct at at = at_of(st, i);
    const struct linear head = head_of(&at);

    norm_again(&at, &lnf, save->norm1, save->x);
    linear_gradients(&at, &head, st->norm, save->dlogit);
    linear_backward(&at, &head, st->d[1], save->dlogit);
    norm_backward(&at, &lnf, din, NULL, st->d[1], save->norm1, save->x);
}
