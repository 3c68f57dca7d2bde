/* SPDX-License-Identifier: MIT */
/* fleet_program.h - the programs of a fleet that serves.
 *
 * Offers that answer alike, whatever their zone and market, are one kind: one whole count, one
 * share of each bucket, and the cheapest of its offers are taken first. So a catalogue of many
 * zones is hardly a larger program than one of its types.
 */
#ifndef SPOT_PLAN_FLEET_FLEET_PROGRAM_H
#define SPOT_PLAN_FLEET_FLEET_PROGRAM_H

#include "plan/fleet.h"
#include "plan/lp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_kind {
    size_t first, n, lead; /* order[first .. first + n); the one that the catalogue has first */
};

struct spot_fleet_entry {
    const struct spot_fleet_demand *demand;
    size_t offer;
};

struct spot_fleet_program {
    const struct spot_fleet_demand *demand;
    struct spot_fleet_entry *order; /* [n_offer], kind by kind, the cheapest first */
    struct spot_fleet_kind *kind;   /* [n_kind] */
    size_t n_kind;
};

void spot_fleet_program_init(struct spot_fleet_program *program,
                             const struct spot_fleet_demand *demand);
void spot_fleet_program_release(struct spot_fleet_program *program);

/* Do two offers answer alike? 0, or their order. */
int spot_fleet_entry_compare(const struct spot_fleet_entry *x, const struct spot_fleet_entry *y);

/* Of all offers of a kind together; -1: as many as wanted. */
int64_t spot_fleet_program_quota(const struct spot_fleet_program *program, size_t kind);

/* The cheapest fleet; relaxed: of counts, and slices, that need not be whole. The first n_bucket
 * rows are the splits. Columns: counts of kinds, shares (or slices) bucket by bucket, counts of
 * offers as in order. */
struct spot_lp *spot_fleet_program_build(const struct spot_fleet_program *program, bool is_relaxed);
size_t spot_fleet_program_offer_column(const struct spot_fleet_program *program, size_t i);

/* The largest part of the load that the quotas can take: the last column. Rows: splits, then kinds.
 */
struct spot_lp *spot_fleet_program_most(const struct spot_fleet_program *program);

/* What the solver found: of a kind the cheapest offers first; each machine of it gets as much. */
void spot_fleet_program_take(const struct spot_fleet_program *program, const struct spot_lp *lp,
                             struct spot_fleet_answer *answer);

/* usd/h of its counts. */
double spot_fleet_cost(const struct spot_fleet_demand *demand, const int64_t *count);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_PROGRAM_H */
