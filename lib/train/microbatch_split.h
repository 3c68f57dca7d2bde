/* SPDX-License-Identifier: MIT */
/* microbatch_split.h - how many of a step's microbatches each pipeline computes.
 *
 * Sums are exact integers (engine/exact.h), so the bits of a step do not depend on the split.
 */
#ifndef SPOT_TRAIN_MICROBATCH_SPLIT_H
#define SPOT_TRAIN_MICROBATCH_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SPLIT_MAX = 512 };

enum spot_split_kind {
    SPOT_SPLIT_EVEN,
    SPOT_SPLIT_MEASURED, /* by the measured speed of workers */
    SPOT_SPLIT_GIVEN,    /* in proportion to `weight`, if D equals n_weight; else even */
};

struct spot_split_policy {
    enum spot_split_kind kind;
    uint32_t n_weight;
    double weight[SPOT_SPLIT_MAX]; /* > 0 */
};

/* "even", "measured" or weights such as "1,4". Returns 0, or -1 with *err (SPOT_EUSAGE), also for a
 * weight of 0, since every pipeline computes at least one microbatch. */
int spot_split_parse(const char *text, struct spot_split_policy *policy, struct spot_err *err);

/* share[D + 1]: pipeline d computes microbatches [share[d], share[d + 1]) of n_microbatch >= D.
 * An even split, the larger parts at the end. */
void spot_split_even(int64_t n_microbatch, uint32_t D, uint32_t *share);

/* The split with the minimum makespan max_d m_d * microbatch_s[d], each m_d >= 1: the next
 * microbatch is assigned to the pipeline where it would end first, ties to the smaller d.
 * microbatch_s[D] > 0, in any unit. Greedy is optimal here: an exchange of two microbatches cannot
 * lower the maximum. */
void spot_split_by_time(int64_t n_microbatch, uint32_t D, const double *microbatch_s,
                        uint32_t *share);

/* A change of the split is worth an epoch if it saves much of the compute time of a step at several
 * commits in a row; after each such change twice as many are required, so that noise costs ever
 * less. All zero: no change yet. */
struct spot_split_drift {
    uint32_t n_commit; /* of the current epoch */
    uint32_t n;        /* successive ones for which another split was better */
    uint32_t patience; /* number that triggers a change; 0: not yet set */
};

void spot_split_drift_begin(struct spot_split_drift *drift); /* an epoch */
/* Call at each commit, which it counts in n_commit. True if the split should change, from one that
 * takes now_s to one that takes best_s. */
bool spot_split_drifts(struct spot_split_drift *drift, double now_s, double best_s);

double spot_split_makespan(uint32_t D, const uint32_t *share, const double *microbatch_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_MICROBATCH_SPLIT_H */
