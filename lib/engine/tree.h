/* SPDX-License-Identifier: MIT */
/* tree.h - the order in which sums over canonical shards are taken.
 *
 * The partial sums of n shards are added in a balanced binary tree: the sum of the first half,
 * floor(n / 2) of them, plus the sum of the second. The order depends on n only, so an interval of
 * shards that is a node of the tree can be summed by any member that has it, and the total has the
 * same bits for any number of members: docs/design/13-tensor-parallel.md.
 */
#ifndef SPOT_ENGINE_TREE_H
#define SPOT_ENGINE_TREE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Number of shards in the first half of n > 1. */
static inline int spot_tree_half(int n)
{
    return n / 2;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_TREE_H */
