/* SPDX-License-Identifier: MIT */
/* speed_between.h - step times of grids that were not measured, from those around them.
 *
 * At one P a step takes s(M) = fixed + per_microbatch * M, M = ceil(G / D) of the G microbatches of
 * a step, so between two measured D the time is read off the line through them: exact at both,
 * monotone between them, and G that D does not divide costs what it does. Beyond the last D the
 * line of the last two goes on, but never faster than in proportion to D; below the first D, and
 * beyond a single point, the time is in proportion to M. Between two measured P it is linear in P
 * of the two times at this D. Nothing is said of P outside of the measured ones.
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
    struct spot_speed_point *point; /* [n_point], ascending by P, then D; none twice */
    size_t n_point;
    double microbatches;           /* G / B of the job; may be broken */
    double global_batch;           /* samples */
    double best_per_s, most_per_s; /* samples/s of the fastest point; most of one for an instance */
    int best_n;                    /* instances of the fastest point, the fewest of equals */
};

/* The job's profile without what its document calls outliers, tensor groups and other micro
 * batches. */
void spot_speed_between_init(struct spot_speed_between *b, const struct spot_job_doc *job);
void spot_speed_between_release(struct spot_speed_between *b);

enum spot_speed_from {
    SPOT_SPEED_UNKNOWN,
    SPOT_SPEED_PROFILE,      /* measured */
    SPOT_SPEED_INTERPOLATED, /* between measured D of the same P */
    SPOT_SPEED_EXTRAPOLATED, /* beyond them, or at a P that was not measured */
    SPOT_SPEED_CURVE,        /* the fitted curve */
};

/* Seconds of a step of D x P, d, p >= 1; 0 with SPOT_SPEED_UNKNOWN. */
double spot_speed_between_s(const struct spot_speed_between *b, int d, int p,
                            enum spot_speed_from *from);

/* An upper estimate of the samples/s of n instances: beyond the fastest measured grid in proportion
 * to it, up to there as many of each instance as were measured on any. INFINITY where nothing was
 * measured. */
double spot_speed_most(const struct spot_speed_between *b, int n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SPEED_BETWEEN_H */
