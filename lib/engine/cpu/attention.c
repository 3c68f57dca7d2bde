/* SPDX-License-Identifier: MIT */
#include "engine/cpu/attention.h"

#include <math.h>
#include <string.h>

/* Small, for the triangle that is computed in vain is half a block for each row. */
enum { QUERY_BLOCK = 48, EDGE = 16 };

static size_t up64(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* Scores of a block of queries: rows of seq + EDGE, so that no power of two meets a cache. */
static int64_t score_row(int64_t seq)
{
    return (seq + EDGE - 1) / EDGE * EDGE + EDGE;
}

static size_t score_elem(int64_t seq)
{
    return up64((size_t)((QUERY_BLOCK + EDGE) * score_row(seq)));
}

/* Keys or values of a head, packed by key or by dimension. */
static size_t packed_elem(int64_t seq, int64_t head_dim)
{
    const size_t a = spot_gemm_packed_elem(seq, head_dim), b = spot_gemm_packed_elem(head_dim, seq);

    return up64(a > b ? a : b);
}

size_t spot_attention_work_elem(int64_t seq, int64_t head_dim)
{
    return 2 * score_elem(seq) + 3 * packed_elem(seq, head_dim);
}

/* One head of one sequence: where it lies in qkv, dqkv and out, and scratch space. */
struct head {
    const struct spot_cpu_kernel *kernel;
    const struct spot_gemm_work *work;
    int64_t seq, dim, qkv_row, out_row, score_row;
    int64_t q, k, v, out; /* offsets of row 0 */
    float scale;
    float *p, *ds, *packed[3];
};

static struct head head_of(const struct spot_attention *at, int64_t unit,
                           const struct spot_gemm_work *work, float *memory)
{
    const int64_t sequence = unit / at->n_head, h = unit % at->n_head;
    const int64_t per_shard = at->n_head / at->n_shard, d = at->width / at->n_head;
    const int64_t shard_width = at->width / at->n_shard;
    struct head head = { .kernel = at->kernel,
                         .work = work,
                         .seq = at->seq,
                         .dim = d,
                         .qkv_row = 3 * at->width,
                         .out_row = at->width,
                         .score_row = score_row(at->seq),
                         .scale = 1.0F / sqrtf((float)d) };

    head.q =
        sequence * at->seq * head.qkv_row + h / per_shard * 3 * shard_width + h % per_shard * d;
    head.k = head.q + shard_width;
    head.v = head.k + shard_width;
    head.out = sequence * at->seq * head.out_row + h * d;
    head.p = memory;
    head.ds = head.p + score_elem(at->seq);
    for (int i = 0; i < 3; i++)
        head.packed[i] = head.ds + score_elem(at->seq) + (size_t)i * packed_elem(at->seq, d);
    return head;
}

static void product(const struct head *h, struct spot_gemm g)
{
    g.n_part = 1;
    spot_gemm_serial(h->kernel, &g, h->work);
}

/* The head's keys or values as the operand that is summed over d: columns are keys. */
static void pack_by_key(const struct head *h, const float *x, float *to)
{
    const struct spot_gemm g = {
        .n = h->seq, .k = h->dim, .n_part = 1, .b = x, .b_row = 1, .b_col = h->qkv_row
    };

    spot_gemm_pack(h->kernel, &g, to);
}

/* The same as the operand that is summed over keys: columns are dimensions. */
static void pack_by_dim(const struct head *h, const float *x, float *to)
{
    const struct spot_gemm g = {
        .n = h->dim, .k = h->seq, .n_part = 1, .b = x, .b_row = h->qkv_row, .b_col = 1
    };

    spot_gemm_pack(h->kernel, &g, to);
}

/* score[row][key] = x[row] . packed[key] */
static void row_products(const struct head *h, int64_t n_row, int64_t n_key, const float *x,
                         int64_t x_row, const float *packed, float *score)
{
    product(h, (struct spot_gemm){ .m = n_row,
                                   .n = n_key,
                                   .k = h->dim,
                                   .a = x,
                                   .a_row = x_row,
                                   .a_col = 1,
                                   .b_packed = packed,
                                   .packed_k = h->dim,
                                   .c = score,
                                   .c_row = h->score_row });
}

/* out[row][d] = sum over keys below n_key of score[row][key] packed[key][d] */
static void weighted_sum(const struct head *h, int64_t n_row, int64_t n_key, const float *score,
                         const float *packed, float *out, int64_t out_row)
{
    product(h, (struct spot_gemm){ .m = n_row,
                                   .n = h->dim,
                                   .k = n_key,
                                   .a = score,
                                   .a_row = h->score_row,
                                   .a_col = 1,
                                   .is_a_in_place = true,
                                   .b_packed = packed,
                                   .packed_k = h->seq,
                                   .c = out,
                                   .c_row = out_row });
}

/* grad[key][d] += sum over the block's rows of score[row][key] x[row][d] */
static void key_gradient(const struct head *h, int64_t n_row, int64_t n_key, const float *score,
                         const float *x, int64_t x_row, float *grad)
{
    product(h, (struct spot_gemm){ .m = n_key,
                                   .n = h->dim,
                                   .k = n_row,
                                   .a = score,
                                   .a_row = 1,
                                   .a_col = h->score_row,
                                   .is_a_in_place = true,
                                   .b = x,
                                   .b_row = x_row,
                                   .b_col = 1,
                                   .c = grad,
                                   .c_row = h->qkv_row,
                                   .is_added = true });
}

static int64_t block_end(const struct head *h, int64_t q)
{
    return q + QUERY_BLOCK < h->seq ? q + QUERY_BLOCK : h->seq;
}

void spot_attention_forward(const struct spot_attention *at, int64_t unit,
                            const struct spot_gemm_work *work, float *memory)
{
    const struct head h = head_of(at, unit, work, memory);
    float *const keys = h.packed[0], *const values = h.packed[1];
    float *const stat = at->stat + unit * at->seq * 2;

    pack_by_key(&h, at->qkv + h.k, keys);
    pack_by_dim(&h, at->qkv + h.v, values);
    for (int64_t q = 0; q < at->seq; q = block_end(&h, q)) {
        const int64_t end = block_end(&h, q);

        row_products(&h, end - q, end, at->qkv + h.q + q * h.qkv_row, h.qkv_row, keys, h.p);
        for (int64_t i = q; i < end; i++)
            at->kernel->vec->softmax(h.p + (i - q) * h.score_row, i + 1, end, h.scale,
                                     stat + 2 * i);
        weighted_sum(&h, end - q, end, h.p, values, at->out + h.out + q * h.out_row, h.out_row);
    }
}

/* Probabilities and their gradients through the softmax, for query rows [q, end). */
static void block_scores(const struct head *h, int64_t q, int64_t end, const float *query,
                         const float *out, const float *stat, const float *dout)
{
    const struct spot_vec *const vec = h->kernel->vec;

    row_products(h, end - q, end, query, h->qkv_row, h->packed[0], h->p);
    row_products(h, end - q, end, dout, h->out_row, h->packed[1], h->ds);
    for (int64_t i = 0; i < end - q; i++) {
        float *const p = h->p + i * h->score_row;

        vec->softmax_again(p, q + i + 1, end, h->scale, stat + 2 * (q + i));
        vec->softmax_back(h->ds + i * h->score_row, p, end,
                          vec->dot(out + i * h->out_row, dout + i * h->out_row, h->dim), h->scale);
    }
}

void spot_attention_backward(const struct spot_attention *at, int64_t unit,
                             const struct spot_gemm_work *work, float *memory)
{
    const struct head h = head_of(at, unit, work, memory);
    const float *const stat = at->stat + unit * at->seq * 2;

    pack_by_key(&h, at->qkv + h.k, h.packed[0]);
    pack_by_key(&h, at->qkv + h.v, h.packed[1]);
    pack_by_dim(&h, at->qkv + h.k, h.packed[2]);
    for (int64_t i = 0; i < at->seq; i++) {
        memset(at->dqkv + h.k + i * h.qkv_row, 0, (size_t)h.dim * sizeof(float));
        memset(at->dqkv + h.v + i * h.qkv_row, 0, (size_t)h.dim * sizeof(float));
    }
    for (int64_t q = 0; q < at->seq; q = block_end(&h, q)) {
        const int64_t end = block_end(&h, q);
        const float *const query = at->qkv + h.q + q * h.qkv_row;
        const float *const dout = at->dout + h.out + q * h.out_row;

        block_scores(&h, q, end, query, at->out + h.out + q * h.out_row, stat, dout);
        key_gradient(&h, end - q, end, h.p, dout, h.out_row, at->dqkv + h.v);
        key_gradient(&h, end - q, end, h.ds, query, h.qkv_row, at->dqkv + h.k);
        weighted_sum(&h, end - q, end, h.ds, h.packed[2], at->dqkv + h.q + q * h.qkv_row,
                     h.qkv_row);
    }
}
