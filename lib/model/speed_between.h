/* SPDX-License-Identifier: MIT */
/* speed_between.h - estimates step times of unmeasured grids from measured ones nearby.
 *
 * At one P a step takes s(M) = fixed + per_microbatch * M, M = ceil(G / D) of the G microbatches of
 * a step, so between two measured D the time is interpolated linearly: exact at both, monotone
 * between them, and with the cost of D that does not divide G. Beyond the last D the line through
 * the last two is extended, but never faster than in proportion to D; below the first D, and beyond
 * a single point, the time is proportional to M. Between two measured P it is linear in P between
 * the two times at this D. There is no estimate for P outside the measured range.
 */
#ifndef SPOT_MODEL_SPEED_BETWEEN_H
#define SPOT_MODEL_SPEED_BETWEEN_H

#include <stddef.h>

#include "model/job_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_speed_point {
    int d, p;
    size_t entry; /* of the job's profile */
    double step_s;
};

struct spot_speed_between {
    struct spot_speed_point *point; /* [n_point], ascending by P, then D; no duplicates */
    size_t n_point;
    double microbatches;           /* G / B of the job; may be fractional */
    double global_batch;           /* samples */
    double best_per_s, most_per_s; /* samples/s of the fastest point; highest rate per instance */
    int best_n;                    /* instances of the fastest point, the fewest among equals */
};

/* The job's profile without entries marked as outliers, tensor groups and other micro batches. */
void spot_speed_between_init(struct spot_speed_between *b, const struct spot_job_doc *job);
void spot_speed_between_release(struct spot_speed_between *b);

enum spot_speed_from {
    SPOT_SPEED_UNKNOWN,
    SPOT_SPEED_PROFILE,      /* measured */
    SPOT_SPEED_INTERPOLATED, /* between measured D of the same P */
    SPOT_SPEED_EXTRAPOLATED, /* beyond them, or at an unmeasured P */
    SPOT_SPEED_CURVE,        /* the fitted curve */
};

/* Seconds of a step of D x P, d, p >= 1; 0 with SPOT_SPEED_UNKNOWN. */
double spot_speed_between_s(const struct spot_speed_between *b, int d, int p,
                            enum spot_speed_from *from);

/* An upper estimate of the samples/s of n instances: above the fastest measured grid proportional
 * to it, below it the highest measured rate per instance. INFINITY if nothing was measured. */
double spot_speed_most(const struct spot_speed_between *b, int n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SPEED_BETWEEN_H */
