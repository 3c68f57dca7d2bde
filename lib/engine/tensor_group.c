/* SPDX-License-Identifier: MIT */
#include "engine/tensor_group.h"

#include <assert.h>

#include "engine/tree.h"

/* Lists the largest nodes within [begin, end), searching from node [at, at + n) down. */
static int find_nodes(int at, int n, int begin, int end, struct spot_node *node)
{
    const int half = n > 1 ? spot_tree_half(n) : 0;
    int found;

    if (at >= end || at + n <= begin)
        return 0;
    if (at >= begin && at + n <= end) {
        *node = (struct spot_node){ at, n };
        return 1;
    }
    found = find_nodes(at, half, begin, end, node);
    return found + find_nodes(at + half, n - half, begin, end, node + found);
}

int spot_tensor_group_nodes(const struct spot_shape *shape, int m, int M,
                            struct spot_node node[SPOT_NODES_MAX])
{
    const int n_shard = (int)shape->n_shard, own = n_shard / M;

    return find_nodes(0, n_shard, m * own, (m + 1) * own, node);
}

size_t spot_tensor_group_in_elem(const struct spot_shape *shape, int m, int M, size_t n)
{
    struct spot_node node[SPOT_NODES_MAX];
    size_t n_other = 0;

    for (int q = 0; q < M; q++)
        n_other += q == m ? 0 : (size_t)spot_tensor_group_nodes(shape, q, M, node);
    return n_other * (n / (size_t)M + 1);
}

size_t spot_tensor_group_pieces(const struct spot_shape *shape, int M)
{
    return M > 1 ? 2 * (size_t)shape->n_shard : 0;
}

/* Member m's slice of n numbers. */
static size_t slice_begin(size_t n, int m, int M)
{
    return n / (size_t)M * (size_t)m + n % (size_t)M * (size_t)m / (size_t)M;
}

static size_t slice_of(size_t n, int m, int M)
{
    return slice_begin(n, m + 1, M) - slice_begin(n, m, M);
}

static void put_piece(struct spot_tensor_group *g, size_t *n_piece, bool is_send, int peer,
                      float *data, size_t n)
{
    if (n)
        g->piece[(*n_piece)++] =
            (struct spot_stage_piece){ is_send, peer, data, n * sizeof(*data) };
}

static void exchange(struct spot_tensor_group *g, size_t n_piece)
{
    if (!g->failure.code && n_piece)
        g->with.exchange(g->with.user, g->piece, n_piece, &g->failure);
}

/* The nodes of all members in order, with the address of this member's slice of each. */
struct nodes {
    const struct spot_tensor_group *group;
    float *at[SPOT_SHARDS_MAX];
    int next;
    size_t n; /* numbers in the slice */
};

/* Computes the sum over shards [begin, begin + n), in place of its first node. */
static float *join(struct nodes *nodes, int begin, int n)
{
    const struct spot_tensor_group *const g = nodes->group;
    const int own = (int)g->shape->n_shard / g->with.M, half = spot_tree_half(n);
    float *first, *second;

    if (begin / own == (begin + n - 1) / own)
        return nodes->at[nodes->next++];
    first = join(nodes, begin, half);
    second = join(nodes, begin + half, n - half);
    g->add(g->user, first, second, nodes->n);
    return first;
}

/* Sends to each member its slice of every node. */
static void scatter(struct spot_tensor_group *g, float *part, size_t n, struct nodes *nodes)
{
    const int m = g->with.m, M = g->with.M;
    struct spot_node node[SPOT_NODES_MAX];
    const int n_own = spot_tensor_group_nodes(g->shape, m, M, node);
    float *in = g->in;
    size_t n_piece = 0;
    int n_all = 0;

    nodes->n = slice_of(n, m, M);
    for (int q = 0; q < M; q++) {
        const int n_node = spot_tensor_group_nodes(g->shape, q, M, node);

        for (int k = 0; k < n_node; k++, n_all++) {
            nodes->at[n_all] = q == m ? part + (size_t)k * n + slice_begin(n, m, M) : in;
            if (q == m)
                continue;
            put_piece(g, &n_piece, false, q, in, nodes->n);
            in += nodes->n;
        }
        for (int k = 0; q != m && k < n_own; k++)
            put_piece(g, &n_piece, true, q, part + (size_t)k * n + slice_begin(n, q, M),
                      slice_of(n, q, M));
    }
    exchange(g, n_piece);
}

void spot_tensor_group_sum(struct spot_tensor_group *g, float *part, size_t n, float *sum)
{
    const int m = g->with.m, M = g->with.M;
    struct nodes nodes = { .group = g };
    size_t n_piece = 0;

    assert(M > 1);
    scatter(g, part, n, &nodes);
    if (g->failure.code)
        return;
    g->copy(g->user, sum + slice_begin(n, m, M), join(&nodes, 0, (int)g->shape->n_shard), nodes.n);
    for (int q = 0; q < M; q++)
        if (q != m) {
            put_piece(g, &n_piece, true, q, sum + slice_begin(n, m, M), nodes.n);
            put_piece(g, &n_piece, false, q, sum + slice_begin(n, q, M), slice_of(n, q, M));
        }
    exchange(g, n_piece);
}

void spot_tensor_group_gather(struct spot_tensor_group *g, float *all, size_t n)
{
    const int m = g->with.m, M = g->with.M;
    size_t n_piece = 0;

    for (int q = 0; q < M; q++)
        if (q != m) {
            put_piece(g, &n_piece, true, q, all + (size_t)m * n, n);
            put_piece(g, &n_piece, false, q, all + (size_t)q * n, n);
        }
    exchange(g, n_piece);
}
