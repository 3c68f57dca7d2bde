/* SPDX-License-Identifier: MIT */
/* flat_cut.h - ZeRO: replica d of D owns elements [floor(dN/D), floor((d+1)N/D)) of the N elements
 * of each (stage, rank) slice, counted flat: bundle by bundle, group by group, along the axis. */
#ifndef SPOT_PLAN_MIGRATION_FLAT_CUT_H
#define SPOT_PLAN_MIGRATION_FLAT_CUT_H

#include <stdint.h>

#include "model/layout_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_flat_cut {
    int64_t bundle, at; /* element of the group's axis */
    int group;
};

struct spot_flat {
    const struct spot_layout *layout;
    struct spot_flat_cut *cut; /* [n_cut] of all slices */
    size_t n_cut;
    int64_t *begin;  /* [P * M * (L + 2) * groups] flat offset of a group in its slice */
    int64_t *n_elem; /* [P * M] */
};

/* Empty unless some component is divided over the replicas. */
void spot_flat_init(struct spot_flat *flat, const struct spot_layout *layout);
void spot_flat_release(struct spot_flat *flat);

/* The replica that owns element `at` of rank m's part of a group on stage p. */
int64_t spot_flat_owner(const struct spot_flat *flat, int64_t p, int64_t m, int64_t bundle,
                        int group, int64_t at);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_FLAT_CUT_H */
