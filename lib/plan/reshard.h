/* SPDX-License-Identifier: MIT */
/* reshard.h - the data that must be moved between two layouts, in exact integers.
 *
 * Cuts every tensor group where the old or the new layout cuts it. Elements between two cuts with
 * the same old holders and the same new owners form one part: the finest unit that a plan needs.
 */
#ifndef SPOT_PLAN_RESHARD_H
#define SPOT_PLAN_RESHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "model/layout_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Piece of a part: elements [lo, hi) of one group in each of the bundles first..last (heads and a
 * range of layers for a cache), of the components whose bits are set. */
struct spot_reshard_piece {
    int64_t first, last, lo, hi;
    int64_t byte;
    unsigned components; /* bits of the new layout's components; 0: a cache */
    int group;           /* SPOT_GROUP_*; SPOT_GROUP_KV for a cache */
};

struct spot_reshard_part {
    int64_t byte;
    int n_holder, n_want;
    const int *holder; /* [n_holder] positions of the old layout, ascending */
    const int *want;   /* [n_want] positions of the new layout, ascending */
    int kv;            /* index of the request group in the new layout, -1: state */
    size_t n_piece;
    struct spot_reshard_piece *piece; /* [n_piece] */
    size_t piece_cap;
};

struct spot_reshard {
    int n_old, n_new;               /* positions */
    int64_t n_bundle;               /* bundles of a replica's state */
    struct spot_reshard_part *part; /* [n_part] in the order of first appearance */
    size_t n_part;
    int64_t *kv_token; /* [n_kv] tokens of each request group of the new layout */
    size_t n_kv;
    int64_t *need_byte;   /* [n_new] */
    int64_t replica_byte; /* of one replica's state, without caches */
};

/* Returns 0, or -1 with *err (SPOT_EDATA): a different model, or a component of different width. */
int spot_reshard_init(struct spot_reshard *reshard, const struct spot_layout *from,
                      const struct spot_layout *to, struct spot_err *err);

/* Cut the marked state parts [n_part] at bundle boundaries: one part per bundle. */
void spot_reshard_cut(struct spot_reshard *reshard, const bool *is_marked);

/* Merge positions n k .. n k + n - 1 of the new layout into position k, which then needs everything
 * that any of them needs. `n` divides n_new. */
void spot_reshard_join(struct spot_reshard *reshard, int n);

void spot_reshard_release(struct spot_reshard *reshard);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_RESHARD_H */
