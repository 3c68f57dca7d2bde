/* SPDX-License-Identifier: MIT */
/* ledger_plan.h - which samples of a data set a step of a foreign trainer reads, on each rank.
 *
 * The set is read in epochs, each in its own order. Step s, counted from 0, takes the next `batch`
 * samples of that sequence, and rank r of w takes the r-th of w adjoining parts of them, whose
 * sizes differ by at most one. So the samples of a step are a function of the plan and the step
 * only: a repeated step, even with more or fewer ranks, reads the same samples, and consecutive
 * steps read each sample once an epoch.
 *
 * If `batch` does not divide the set, the last batch of an epoch
 *   SPOT_LEDGER_WRAP   is filled from the next epoch: nothing is left out, all steps are equal
 *   SPOT_LEDGER_DROP   is left out: different samples in each epoch, if they are shuffled
 *   SPOT_LEDGER_SHORT  is smaller, and a rank may get no samples of it
 *
 * Neither order nor cursor is stored: docs/design/25-ledger.md gives the reasons, and how to treat
 * trainers that read varying amounts.
 */
#ifndef SPOT_HOST_LEDGER_PLAN_H
#define SPOT_HOST_LEDGER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_LEDGER_SAMPLES_MAX (INT64_C(1) << 53) /* limit of JSON integers; also limits steps */
enum { SPOT_LEDGER_WORLD_MAX = 1 << 20 };

enum spot_ledger_rest { SPOT_LEDGER_WRAP, SPOT_LEDGER_DROP, SPOT_LEDGER_SHORT, SPOT_LEDGER_RESTS };

struct spot_ledger_plan {
    int64_t n_sample; /* samples of the set: 1..SPOT_LEDGER_SAMPLES_MAX */
    int64_t batch;    /* samples of a step, of all ranks together: 1..n_sample */
    int64_t seed;     /* seed of the orders: 0..SPOT_LEDGER_SAMPLES_MAX */
    enum spot_ledger_rest rest;
    bool is_sequential; /* each epoch from 0 to n_sample - 1; the seed is ignored */
};

/* Positions [from, to) in the order of an epoch. */
struct spot_ledger_range {
    int64_t epoch, from, to;
};

/* The samples that a rank takes in a step. */
struct spot_ledger_share {
    int64_t step, n_total; /* samples of the step, of all ranks */
    int64_t n;             /* of this rank, the sum over its ranges */
    int64_t epoch;         /* in which the step begins */
    int n_range;           /* 2 if it continues in the next epoch; 0: no samples for this rank */
    struct spot_ledger_range range[2]; /* in the order in which they are read */
};

/* "wrap", "drop" or "short"; the reverse: SPOT_LEDGER_RESTS for another text. */
const char *spot_ledger_rest_name(enum spot_ledger_rest rest);
enum spot_ledger_rest spot_ledger_rest_parse(const char *name);

/* Check that all values are in range. Returns 0, or -1 with *err (SPOT_EDATA), which names the
 * invalid one. */
int spot_ledger_plan_check(const struct spot_ledger_plan *plan, struct spot_err *err);

bool spot_ledger_plan_equal(const struct spot_ledger_plan *a, const struct spot_ledger_plan *b);

/* The share of a rank in a step of a valid plan. Returns 0, or -1 with *err (SPOT_EDATA): rank >=
 * world or world too large, a negative step, or one whose sample numbers overflow 63 bits. */
int spot_ledger_plan_share(const struct spot_ledger_plan *plan, int64_t step, int64_t rank,
                           int64_t world, struct spot_ledger_share *share, struct spot_err *err);

/* The sample at a position of an epoch, 0..n_sample-1; position < n_sample. */
int64_t spot_ledger_plan_sample(const struct spot_ledger_plan *plan, int64_t epoch,
                                int64_t position);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_LEDGER_PLAN_H */
