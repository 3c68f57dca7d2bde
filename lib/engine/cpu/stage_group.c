/* SPDX-License-Identifier: MIT */
/* What the members of a tensor group tell each other. Whatever M is, a sum over shards is the tree
 * of engine/tree.h: each member adds up the nodes that lie within its own shards, and the nodes of
 * all members are joined as the tree says. Each member joins one slice of the numbers and gives it
 * to the others, so that as many bytes move as in a ring. */
#include <assert.h>
#include <string.h>

#include "engine/cpu/stage_cpu.h"
#include "engine/tree.h"

static int members_of(const struct spot_stage *st)
{
    return st->config.group.M > 1 ? st->config.group.M : 1;
}

/* The largest nodes within [begin, end), found from node [at, at + n) down. */
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

int spot_group_nodes(const struct spot_shape *shape, int m, int M,
                     struct spot_node node[SPOT_NODES_MAX])
{
    const int n_shard = (int)shape->n_shard, own = n_shard / M;

    return find_nodes(0, n_shard, m * own, (m + 1) * own, node);
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

static void put_piece(struct spot_stage *st, size_t *n_piece, bool is_send, int peer, float *data,
                      size_t n)
{
    if (n)
        st->piece[(*n_piece)++] =
            (struct spot_stage_piece){ is_send, peer, data, n * sizeof(*data) };
}

static void exchange(struct spot_stage *st, size_t n_piece)
{
    const struct spot_stage_group *const group = &st->config.group;

    if (!st->failure.code && n_piece)
        group->exchange(group->user, st->piece, n_piece, &st->failure);
}

/* The nodes of all members in their order: where this member's slice of each lies. */
struct nodes {
    const struct spot_stage *stage;
    float *at[SPOT_SHARDS_MAX];
    int next;
    size_t n; /* numbers in the slice */
};

/* The sum over shards [begin, begin + n), in the place of its first node. */
static float *join(struct nodes *nodes, int begin, int n)
{
    const int own = nodes->stage->n_shard, half = spot_tree_half(n);
    float *first, *second;

    if (begin / own == (begin + n - 1) / own)
        return nodes->at[nodes->next++];
    first = join(nodes, begin, half);
    second = join(nodes, begin + half, n - half);
    nodes->stage->kernel->vec->add(first, second, (int64_t)nodes->n);
    return first;
}

/* Each member's slice of every node goes to it. */
static void scatter(struct spot_stage *st, float *part, size_t n, struct nodes *nodes)
{
    const int m = st->config.group.m, M = members_of(st);
    struct spot_node node[SPOT_NODES_MAX];
    float *in = st->group_in;
    size_t n_piece = 0;
    int n_all = 0;

    nodes->n = slice_of(n, m, M);
    for (int q = 0; q < M; q++) {
        const int n_node = spot_group_nodes(&st->config.shape, q, M, node);

        for (int k = 0; k < n_node; k++, n_all++) {
            nodes->at[n_all] = q == m ? part + (size_t)k * n + slice_begin(n, m, M) : in;
            if (q == m)
                continue;
            put_piece(st, &n_piece, false, q, in, nodes->n);
            in += nodes->n;
        }
        for (int k = 0; q != m && k < st->n_node; k++)
            put_piece(st, &n_piece, true, q, part + (size_t)k * n + slice_begin(n, q, M),
                      slice_of(n, q, M));
    }
    exchange(st, n_piece);
}

void spot_group_sum(struct spot_stage *st, float *part, size_t n, float *sum)
{
    const int m = st->config.group.m, M = members_of(st);
    struct nodes nodes = { .stage = st };
    size_t n_piece = 0;

    scatter(st, part, n, &nodes);
    if (st->failure.code)
        return;
    memcpy(sum + slice_begin(n, m, M), join(&nodes, 0, (int)st->config.shape.n_shard),
           nodes.n * sizeof(*sum));
    for (int q = 0; q < M; q++)
        if (q != m) {
            put_piece(st, &n_piece, true, q, sum + slice_begin(n, m, M), nodes.n);
            put_piece(st, &n_piece, false, q, sum + slice_begin(n, q, M), slice_of(n, q, M));
        }
    exchange(st, n_piece);
}

void spot_group_gather(struct spot_stage *st, float *all, size_t n)
{
    const int m = st->config.group.m, M = members_of(st);
    size_t n_piece = 0;

    for (int q = 0; q < M; q++)
        if (q != m) {
            put_piece(st, &n_piece, true, q, all + (size_t)m * n, n);
            put_piece(st, &n_piece, false, q, all + (size_t)q * n, n);
        }
    exchange(st, n_piece);
}
