/* SPDX-License-Identifier: MIT */
/* Products over a weight, whole or shard by shard, and norms. If M members share a stage, the
 * shapes of a product and the order of sums are those of one shard, so the bits do not depend on
 * M. */
#include <assert.h>
#include <string.h>

#include "engine/cuda/stage_cuda.h"
#include "engine/tree.h"

struct spot_cuda_at spot_cuda_at(struct spot_stage *st, int i)
{
    const struct spot_shape *const s = &st->config.shape;

    return (struct spot_cuda_at){ st, i, st->n_row, s->width,
                                  spot_cuda_own(st, spot_shape_ffn(s)) };
}

int64_t spot_cuda_own(const struct spot_stage *st, int64_t n)
{
    return n / st->config.shape.n_shard * st->n_shard;
}

bool spot_cuda_is_lead(const struct spot_stage *st)
{
    return st->shard == 0;
}

/* --- tensors ---------------------------------------------------------------------------- */

static const struct spot_arena *arena_of(const struct spot_cuda_at *at)
{
    return &at->st->part[at->i].bundle->arena;
}

bool spot_cuda_has(const struct spot_cuda_at *at, const char *name)
{
    return spot_arena_find(arena_of(at), name) >= 0;
}

static int find(const struct spot_cuda_at *at, const char *name)
{
    const int t = spot_arena_find(arena_of(at), name);

    assert(t >= 0);
    return t;
}

static size_t real_byte(const struct spot_stage *st)
{
    return st->real == SPOT_BF16 ? 2 : 4;
}

static const void *step(const struct spot_stage *st, const void *x, int64_t n)
{
    return (const char *)x + (size_t)n * real_byte(st);
}

static void *step_to(const struct spot_stage *st, void *x, int64_t n)
{
    return (char *)x + (size_t)n * real_byte(st);
}

const void *spot_cuda_weight(const struct spot_cuda_at *at, const char *name)
{
    const struct spot_cuda_part *const part = &at->st->part[at->i];

    return step(at->st, part->on.weight, part->weight_at[find(at, name)]);
}

/* The weight from the first own shard on. */
static const void *own_weight(const struct spot_cuda_at *at, const char *name)
{
    const struct spot_tensor *const t = &arena_of(at)->tensor[find(at, name)];

    return step(at->st, spot_cuda_weight(at, name),
                t->is_sharded ? at->st->shard * t->rows * t->cols : 0);
}

/* A replicated vector of the master plane, fp32; NULL: the architecture has none. */
static const float *vector(const struct spot_cuda_at *at, const char *name)
{
    const struct spot_cuda_part *const part = &at->st->part[at->i];

    if (!spot_cuda_has(at, name))
        return NULL;
    return part->on.plane[SPOT_PLANE_MASTER] + spot_arena_offset(arena_of(at), find(at, name), 0);
}

/* Adds n gradients, of the own shards or of a replicated tensor, to the sums. */
static void add_gradient(const struct spot_cuda_at *at, const char *name, const float *grad,
                         int64_t n)
{
    struct spot_cuda_target target = spot_cuda_target_of(at->st, at->i, name);

    if (arena_of(at)->tensor[find(at, name)].is_sharded)
        target.sum += at->st->shard * target.shard_stride;
    spot_cuda_quantise(&target, grad, n, at->st->stream);
}

/* --- a product, whole or in parts -------------------------------------------------------- */

/* Number of parts in which a product is computed. */
static int parts_of(const struct spot_stage *st)
{
    return st->is_split ? st->n_shard : 1;
}

/* The columns of c are divided: part i uses its rows of b as stored. */
static void product_of_columns(const struct spot_stage *st, const struct spot_product *whole)
{
    const int n_part = parts_of(st);

    assert(whole->is_b_transposed);
    for (int i = 0; i < n_part; i++) {
        struct spot_product p = *whole;
        const int64_t at = whole->n / n_part * i;

        p.n = whole->n / n_part;
        p.b = step(st, whole->b, at * whole->k);
        p.c = step_to(st, whole->c, at);
        p.c_stride = n_part > 1 ? whole->n : 0;
        p.bias = whole->bias ? step(st, whole->bias, at) : NULL;
        p.aux = whole->aux ? step_to(st, whole->aux, at) : NULL;
        p.is_part = st->is_split;
        spot_device_product(st->dev, &p);
    }
}

/* The rows of c are divided: part i uses its columns of a as stored. */
static void product_of_rows(const struct spot_stage *st, const struct spot_product *whole)
{
    const int n_part = parts_of(st);

    assert(whole->is_a_transposed && whole->is_c_float);
    for (int i = 0; i < n_part; i++) {
        struct spot_product p = *whole;
        const int64_t at = whole->m / n_part * i;

        p.m = whole->m / n_part;
        p.a = step(st, whole->a, at);
        p.a_stride = n_part > 1 ? whole->m : 0;
        p.c = (float *)whole->c + at * whole->n;
        p.is_part = st->is_split;
        spot_device_product(st->dev, &p);
    }
}

/* to = the sum of the products of own shards [begin, begin + n), `spare` has room for one more
 * product per level of the tree. */
static void sum_of_shards(const struct spot_stage *st, const struct spot_product *whole, int begin,
                          int n, float *to, float *spare)
{
    const int half = spot_tree_half(n);
    const int64_t n_elem = whole->m * whole->n;
    struct spot_product p = *whole;
    int64_t at;

    if (n > 1) {
        sum_of_shards(st, whole, begin, half, to, spare);
        sum_of_shards(st, whole, begin + half, n - half, spare, spare + n_elem);
        spot_cuda_add(SPOT_F32, to, to, spare, (size_t)n_elem, st->stream);
        return;
    }
    p.k = whole->k / st->n_shard;
    at = (begin - st->shard) * p.k;
    p.a = step(st, whole->a, at);
    p.a_stride = st->n_shard > 1 ? whole->k : 0;
    p.b = step(st, whole->b, at * whole->n);
    p.c = to;
    p.is_c_float = true;
    p.epilogue = SPOT_PLAIN;
    p.is_part = true;
    spot_device_product(st->dev, &p);
}

/* The sum over k is divided over the shards of all members. */
static void product_of_sums(struct spot_stage *st, const struct spot_product *whole)
{
    const int M = (int)st->config.shape.n_shard / st->n_shard;
    const int64_t n_elem = whole->m * whole->n;
    struct spot_node node[SPOT_NODES_MAX];
    float *sum = st->node;

    if (!st->is_split) {
        spot_device_product(st->dev, whole);
        return;
    }
    assert(!whole->is_a_transposed && !whole->is_b_transposed);
    spot_tensor_group_nodes(&st->config.shape, st->shard / st->n_shard, M, node);
    for (int k = 0; k < st->n_node; k++)
        sum_of_shards(st, whole, node[k].begin, node[k].n, st->node + k * n_elem,
                      st->node + st->n_node * n_elem);
    if (M > 1) {
        sum = st->boundary;
        spot_tensor_group_sum(&st->group, st->node, (size_t)n_elem, sum);
    }
    spot_cuda_finish(st->real, whole->c, sum, whole->bias, whole->m, whole->n, st->stream);
}

/* --- linear maps ---------------------------------------------------------------------------- */

static struct spot_product forward_of(const struct spot_cuda_at *at,
                                      const struct spot_cuda_linear *l, void *y, const void *x)
{
    const bool has_bias = spot_cuda_has(at, l->bias);

    return (struct spot_product){ .real = at->st->real,
                                  .m = at->n,
                                  .n = l->out,
                                  .k = l->in,
                                  .a = x,
                                  .b = own_weight(at, l->weight),
                                  .is_b_transposed = l->is_out_first,
                                  .c = y,
                                  .epilogue = has_bias ? SPOT_BIAS : SPOT_PLAIN,
                                  .bias = has_bias ? own_weight(at, l->bias) : NULL };
}

void spot_cuda_linear_forward(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                              void *y, const void *x)
{
    const struct spot_product product = forward_of(at, l, y, x);

    if (l->is_out_first)
        product_of_columns(at->st, &product);
    else
        product_of_sums(at->st, &product);
}

void spot_cuda_linear_gelu(const struct spot_cuda_at *at, const struct spot_cuda_linear *l, void *y,
                           void *pre, const void *x)
{
    struct spot_product product = forward_of(at, l, y, x);

    if (at->st->real == SPOT_F32) { /* the epilogue requires bf16 */
        spot_cuda_linear_forward(at, l, pre, x);
        spot_cuda_gelu(at->st->real, y, pre, (size_t)(at->n * l->out), at->st->stream);
        return;
    }
    product.epilogue = SPOT_BIAS_GELU;
    product.aux = pre;
    product_of_columns(at->st, &product);
}

void spot_cuda_linear_gradients(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                                const void *x, const void *dy)
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

    product_of_rows(st, &product);
    add_gradient(at, l->weight, st->grad, l->in * l->out);
    if (!spot_cuda_has(at, l->bias) || !(l->is_out_first || spot_cuda_is_lead(st)))
        return;
    spot_cuda_column_sum(st->real, st->vector, st->column, dy, at->n, l->out, st->stream);
    add_gradient(at, l->bias, st->vector, l->out);
}

static struct spot_product backward_of(const struct spot_cuda_at *at,
                                       const struct spot_cuda_linear *l, void *dx, const void *dy)
{
    return (struct spot_product){ .real = at->st->real,
                                  .m = at->n,
                                  .n = l->in,
                                  .k = l->out,
                                  .a = dy,
                                  .b = own_weight(at, l->weight),
                                  .is_b_transposed = !l->is_out_first,
                                  .c = dx };
}

void spot_cuda_linear_backward(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                               void *dx, const void *dy)
{
    const struct spot_product product = backward_of(at, l, dx, dy);

    if (l->is_out_first)
        product_of_sums(at->st, &product);
    else
        product_of_columns(at->st, &product);
}

void spot_cuda_linear_gelu_back(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                                void *dpre, void *pre, const void *dy)
{
    struct spot_product product = backward_of(at, l, dpre, dy);

    if (at->st->real == SPOT_F32) {
        spot_cuda_linear_backward(at, l, dpre, dy);
        spot_cuda_gelu_back(at->st->real, dpre, pre, (size_t)(at->n * l->in), at->st->stream);
        return;
    }
    product.epilogue = SPOT_GELU_BACK;
    product.aux = pre;
    product_of_columns(at->st, &product);
}

/* --- norms ------------------------------------------------------------------------------- */

void spot_cuda_norm_forward(const struct spot_cuda_at *at, const struct spot_cuda_norm_of *norm,
                            void *x, float *stat, const struct spot_cuda_flow *flow)
{
    struct spot_stage *const st = at->st;

    assert(flow->delta || flow->x == x);
    spot_cuda_norm(st->real, x, st->norm, stat, flow->x, flow->delta, vector(at, norm->weight),
                   vector(at, norm->bias), (float)spot_shape_norm_eps(&st->config.shape), at->n,
                   at->c, st->stream);
}

void spot_cuda_norm_once_more(const struct spot_cuda_at *at, const struct spot_cuda_norm_of *norm,
                              const float *stat, const void *x)
{
    struct spot_stage *const st = at->st;

    spot_cuda_norm_again(st->real, st->norm, stat, x, vector(at, norm->weight),
                         vector(at, norm->bias), at->n, at->c, st->stream);
}

void spot_cuda_norm_backward(const struct spot_cuda_at *at, const struct spot_cuda_norm_of *norm,
                             void *dx, const void *base, const void *dy, const float *stat,
                             const void *x)
{
    struct spot_stage *const st = at->st;
    const bool has_bias = spot_cuda_has(at, norm->bias);

    if (spot_cuda_is_lead(st)) {
        spot_cuda_norm_grad(st->real, st->vector, has_bias ? st->vector + at->c : NULL, st->column,
                            dy, stat, x, at->n, at->c, st->stream);
        add_gradient(at, norm->weight, st->vector, at->c);
        if (has_bias)
            add_gradient(at, norm->bias, st->vector + at->c, at->c);
    }
    spot_cuda_norm_back(st->real, dx, base, dy, stat, x, vector(at, norm->weight), !has_bias, at->n,
                        at->c, st->stream);
}

/* --- exchanges of a group ------------------------------------------------------------------ */

/* Exchanges the pieces through host memory, where they lie in order; the memory plan determines its
 * size. */
static int exchange_by_host(struct spot_stage *st, const struct spot_stage_piece *piece, size_t n,
                            struct spot_err *err)
{
    const struct spot_stage_group *const group = &st->config.group;
    struct spot_stage_piece *const on_host =
        st->group.piece + spot_tensor_group_pieces(&st->config.shape, group->M);
    char *at = (char *)st->exchange_host;

    for (size_t i = 0; i < n; i++) {
        on_host[i] = piece[i];
        on_host[i].data = at;
        if (piece[i].is_send)
            spot_device_download(st->dev, at, piece[i].data, piece[i].n_byte);
        at += piece[i].n_byte;
    }
    if (spot_device_status(st->dev, err) || group->exchange(group->user, on_host, n, err))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (!piece[i].is_send)
            spot_device_upload(st->dev, piece[i].data, on_host[i].data, piece[i].n_byte);
    spot_device_wait(st->dev); /* the next exchange uses the same buffer */
    return 0;
}

int spot_cuda_exchange(void *user, const struct spot_stage_piece *piece, size_t n,
                       struct spot_err *err)
{
    struct spot_stage *const st = user;
    const struct spot_stage_group *const group = &st->config.group;

    return group->is_device ? group->exchange(group->user, piece, n, err)
                            : exchange_by_host(st, piece, n, err);
}
