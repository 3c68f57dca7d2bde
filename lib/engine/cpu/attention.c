/* SPDX-License-Identifier: MIT */
#include "engine/cpu/attention.h"

#include <string.h>

/* Small, because half a block per row is computed in vain, above the diagonal. */
enum { QUERY_BLOCK = 48, EDGE = 16 };

static size_t up64(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* Scores of a block of queries: rows of seq + EDGE, to avoid strides of a power of two, which share
 * cache lines. */
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

size_t spot_attention_work_elem(int64_t seq, int64_t head_dim, bool is_capped)
{
    return 2 * score_elem(seq) + 3 * packed_elem(seq, head_dim) +
           (is_capped ? (size_t)score_row(seq) : 0);
}

/* The query heads that share a head of keys and values: offsets of the first one in qkv, dqkv and
 * out, which the others follow; and scratch space. */
struct head {
    const struct spot_cpu_kernel *kernel;
    const struct spot_gemm_work *work;
    const float *turn;
    int64_t seq, dim, qkv_row, out_row, score_row;
    int64_t n_query, q, k, v, out, stat; /* offsets of row 0 */
    int64_t n_turned, window;
    float scale, cap;
    float *p, *ds, *packed[3], *capped; /* capped: scores of one row */
};

static struct head head_of(const struct spot_attention *at, int64_t unit,
                           const struct spot_gemm_work *work, float *memory)
{
    const int64_t sequence = unit / at->n_kv_head, kv = unit % at->n_kv_head, d = at->head_dim;
    const int64_t q_per = at->n_head / at->n_shard, kv_per = at->n_kv_head / at->n_shard;
    struct head head = { .kernel = at->kernel,
                         .work = work,
                         .turn = at->turn,
                         .seq = at->seq,
                         .dim = d,
                         .qkv_row = (at->n_head + 2 * at->n_kv_head) * d,
                         .out_row = at->n_head * d,
                         .score_row = score_row(at->seq),
                         .n_query = at->n_head / at->n_kv_head,
                         .n_turned = at->n_turned,
                         .window = at->window,
                         .scale = at->scale,
                         .cap = at->cap };
    const int64_t shard =
        sequence * at->seq * head.qkv_row + kv / kv_per * (q_per + 2 * kv_per) * d;

    head.q = shard + kv % kv_per * head.n_query * d;
    head.k = shard + (q_per + kv % kv_per) * d;
    head.v = head.k + kv_per * d;
    head.out = sequence * at->seq * head.out_row + kv * head.n_query * d;
    head.stat = (sequence * at->n_head + kv * head.n_query) * at->seq * 2;
    head.p = memory;
    head.ds = head.p + score_elem(at->seq);
    for (int i = 0; i < 3; i++)
        head.packed[i] = head.ds + score_elem(at->seq) + (size_t)i * packed_elem(at->seq, d);
    head.capped = head.packed[2] + packed_elem(at->seq, d);
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

/* Rotate the rows of one head by their positions, or back. */
static void turn(const struct head *h, float *x, float way)
{
    for (int64_t t = 0; h->turn && t < h->seq; t++)
        h->kernel->vec->rotate(x + t * h->qkv_row, h->turn + t * h->n_turned, h->n_turned / 2, way);
}

/* The first position that a query sees. */
static int64_t first_seen(const struct head *h, int64_t position)
{
    return h->window && position >= h->window ? position + 1 - h->window : 0;
}

/* The part of its row of scores that a query sees, capped; the rest of the block becomes 0. */
struct seen {
    float *score;
    int64_t n, end; /* number of seen scores, and of scores of the block from `score` on */
    float scale;    /* factor that the scores are still to be multiplied by */
};

static struct seen seen_of(const struct head *h, float *row, int64_t position, int64_t end)
{
    const int64_t first = first_seen(h, position), n = position + 1 - first;
    const struct seen seen = { row + first, n, end - first, h->cap != 0 ? 1 : h->scale };

    memset(row, 0, (size_t)first * sizeof(float));
    if (h->cap != 0)
        h->kernel->vec->cap(seen.score, n, h->scale, h->cap);
    return seen;
}

static void query_forward(const struct spot_attention *at, const struct head *h, int64_t i)
{
    float *const query = at->qkv + h->q + i * h->dim, *const out = at->out + h->out + i * h->dim;
    float *const stat = at->stat + h->stat + i * h->seq * 2;

    turn(h, query, 1);
    for (int64_t q = 0; q < h->seq; q = block_end(h, q)) {
        const int64_t end = block_end(h, q);

        row_products(h, end - q, end, query + q * h->qkv_row, h->qkv_row, h->packed[0], h->p);
        for (int64_t r = q; r < end; r++) {
            const struct seen row = seen_of(h, h->p + (r - q) * h->score_row, r, end);

            h->kernel->vec->softmax(row.score, row.n, row.end, row.scale, stat + 2 * r);
        }
        weighted_sum(h, end - q, end, h->p, h->packed[1], out + q * h->out_row, h->out_row);
    }
}

void spot_attention_forward(const struct spot_attention *at, int64_t unit,
                            const struct spot_gemm_work *work, float *memory)
{
    const struct head h = head_of(at, unit, work, memory);

    turn(&h, at->qkv + h.k, 1);
    pack_by_key(&h, at->qkv + h.k, h.packed[0]);
    pack_by_dim(&h, at->qkv + h.v, h.packed[1]);
    for (int64_t i = 0; i < h.n_query; i++)
        query_forward(at, &h, i);
}

/* Probabilities and their gradients through the softmax, for query rows [q, end). */
static void block_scores(const struct head *h, int64_t q, int64_t end, const float *query,
                         const float *out, const float *stat, const float *dout)
{
    const struct spot_vec *const vec = h->kernel->vec;

    row_products(h, end - q, end, query, h->qkv_row, h->packed[0], h->p);
    row_products(h, end - q, end, dout, h->out_row, h->packed[1], h->ds);
    for (int64_t i = 0; i < end - q; i++) {
        float *const p = h->p + i * h->score_row, *const ds = h->ds + i * h->score_row;
        const struct seen row = seen_of(h, p, q + i, end);

        if (h->cap != 0)
            memcpy(h->capped, row.score, (size_t)row.n * sizeof(float));
        vec->softmax_again(row.score, row.n, row.end, row.scale, stat + 2 * (q + i));
        vec->softmax_back(ds, p, end, vec->dot(out + i * h->out_row, dout + i * h->out_row, h->dim),
                          h->scale);
        if (h->cap != 0)
            vec->cap_back(ds + (row.score - p), h->capped, row.n, 1, h->cap);
    }
}

static void query_backward(const struct spot_attention *at, const struct head *h, int64_t i)
{
    const float *const query = at->qkv + h->q + i * h->dim;
    const float *const out = at->out + h->out + i * h->dim;
    const float *const dout = at->dout + h->out + i * h->dim;
    float *const dquery = at->dqkv + h->q + i * h->dim;

    for (int64_t q = 0; q < h->seq; q = block_end(h, q)) {
        const int64_t end = block_end(h, q);
        const float *const x = query + q * h->qkv_row, *const dy = dout + q * h->out_row;

        block_scores(h, q, end, x, out + q * h->out_row, at->stat + h->stat + i * h->seq * 2, dy);
        key_gradient(h, end - q, end, h->p, dy, h->out_row, at->dqkv + h->v);
        key_gradient(h, end - q, end, h->ds, x, h->qkv_row, at->dqkv + h->k);
        weighted_sum(h, end - q, end, h->ds, h->packed[2], dquery + q * h->qkv_row, h->qkv_row);
    }
    turn(h, dquery, -1);
}

void spot_attention_backward(const struct spot_attention *at, int64_t unit,
                             const struct spot_gemm_work *work, float *memory)
{
    const struct head h = head_of(at, unit, work, memory);

    pack_by_key(&h, at->qkv + h.k, h.packed[0]);
    pack_by_key(&h, at->qkv + h.v, h.packed[1]);
    pack_by_dim(&h, at->qkv + h.k, h.packed[2]);
    for (int64_t t = 0; t < at->seq; t++) {
        memset(at->dqkv + h.k + t * h.qkv_row, 0, (size_t)h.dim * sizeof(float));
        memset(at->dqkv + h.v + t * h.qkv_row, 0, (size_t)h.dim * sizeof(float));
    }
    for (int64_t i = 0; i < h.n_query; i++)
        query_backward(at, &h, i);
    turn(&h, at->dqkv + h.k, -1);
}
