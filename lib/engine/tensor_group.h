/* SPDX-License-Identifier: MIT */
/* tensor_group.h - the exchanges within a tensor group, on any backend.
 *
 * For any M, a sum over shards follows the tree of engine/tree.h: each member adds up the nodes
 * within its own shards, and the nodes of all members are combined in the tree's order. Each member
 * combines one slice of the numbers and sends it to the others, so that as many bytes move as in a
 * ring: docs/design/13-tensor-parallel.md.
 */
#ifndef SPOT_ENGINE_TENSOR_GROUP_H
#define SPOT_ENGINE_TENSOR_GROUP_H

#include <stddef.h>

#include "common/err.h"
#include "engine/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SHARDS_MAX = 256, SPOT_NODES_MAX = 16 };

/* Shards [begin, begin + n), a node of the tree. */
struct spot_node {
    int begin, n;
};

/* The largest nodes within the shards of member m of M, in order; returns how many. */
int spot_tensor_group_nodes(const struct spot_shape *shape, int m, int M,
                            struct spot_node node[SPOT_NODES_MAX]);

/* Number of floats of `in` below for sums of n numbers, and number of pieces of an exchange; both
 * are 0 for M = 1. */
size_t spot_tensor_group_in_elem(const struct spot_shape *shape, int m, int M, size_t n);
size_t spot_tensor_group_pieces(const struct spot_shape *shape, int M);

struct spot_tensor_group {
    const struct spot_shape *shape;
    struct spot_stage_group with; /* M 0 or 1: alone */
    float *in;                    /* [spot_tensor_group_in_elem] slices received from the others */
    struct spot_stage_piece *piece; /* [spot_tensor_group_pieces] */
    /* y += x, to = from, in host or device memory */
    void (*add)(void *user, float *y, const float *x, size_t n);
    void (*copy)(void *user, float *to, const float *from, size_t n);
    void *user;
    struct spot_err failure; /* of an exchange; code 0: none. No exchange is made after it */
};

/* sum[n] over all shards from part[n_node][n], sums over the own nodes, which is overwritten. M >
 * 1. */
void spot_tensor_group_sum(struct spot_tensor_group *group, float *part, size_t n, float *sum);

/* all[M][n]: every member gets the rows of the others. */
void spot_tensor_group_gather(struct spot_tensor_group *group, float *all, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_TENSOR_GROUP_H */
