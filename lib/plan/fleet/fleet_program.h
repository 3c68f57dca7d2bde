/* SPDX-License-Identifier: MIT */
/* fleet_program.h - the linear programs of a serving fleet.
 *
 * Offers with equal capacity, whatever their zone and market, form one kind: one integer count, one
 * share of each bucket, and its cheapest offers are taken first. So a catalogue of many zones is
 * hardly a larger program than one of its types.
 */
#ifndef SPOT_PLAN_FLEET_FLEET_PROGRAM_H
#define SPOT_PLAN_FLEET_FLEET_PROGRAM_H

#include "plan/fleet.h"
#include "plan/lp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_kind {
    size_t first, n, lead; /* order[first .. first + n); the one first in the catalogue */
};

struct spot_fleet_entry {
    const struct spot_fleet_demand *demand;
    size_t offer;
};

struct spot_fleet_program {
    const struct spot_fleet_demand *demand;
    struct spot_fleet_entry *order; /* [n_offer], kind by kind, cheapest first */
    struct spot_fleet_kind *kind;   /* [n_kind] */
    size_t n_kind;
};

void spot_fleet_program_init(struct spot_fleet_program *program,
                             const struct spot_fleet_demand *demand);
void spot_fleet_program_release(struct spot_fleet_program *program);

/* Compare the capacities of two offers: 0 if equal, else their order. */
int spot_fleet_entry_compare(const struct spot_fleet_entry *x, const struct spot_fleet_entry *y);

/* Total quota of a kind; -1: unlimited. */
int64_t spot_fleet_program_quota(const struct spot_fleet_program *program, size_t kind);

/* The program of the cheapest fleet whose counts may be fractional. The first
 * n_bucket rows are the splits. Columns: counts of kinds, shares bucket by bucket,
 * counts of offers in the order of `order`. */
struct spot_lp *spot_fleet_program_build(const struct spot_fleet_program *program);
size_t spot_fleet_program_offer_column(const struct spot_fleet_program *program, size_t i);

/* The largest part of the load that fits the quotas: the last column. Rows: splits, then kinds. */
struct spot_lp *spot_fleet_program_most(const struct spot_fleet_program *program);

/* Read the solver's answer: of a kind the cheapest offers first; each of its machines gets an equal
 * share. */
void spot_fleet_program_take(const struct spot_fleet_program *program, const struct spot_lp *lp,
                             struct spot_fleet_answer *answer);

/* usd/h of these counts. */
double spot_fleet_cost(const struct spot_fleet_demand *demand, const int64_t *count);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_PROGRAM_H */
