/* SPDX-License-Identifier: MIT */
/* fleet_train.h - the cheapest instances that reach a training goal in time.
 *
 * Asynchronous jobs follow spotDNN's equations (plan/fleet.h). A synchronous job advances all
 * instances together: every loss of an instance stops it for restart_s, so n instances that are
 * lost h_k times an hour each compute 1 / (1 + restart_s * sum h_k) of the time, and are paid for
 * only then. Losses are taken in expectation; those of an instance are a Poisson process.
 */
#ifndef SPOT_PLAN_FLEET_TRAIN_H
#define SPOT_PLAN_FLEET_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "plan/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SYNC_OFFERS_MAX = 8 };

struct spot_sync_offer {
    double usd_per_h, loss_per_h; /* price and losses of one instance */
    int64_t quota, held;
};

struct spot_sync_job {
    double samples, restart_s;
    /* [n_max + 1] throughput of up to n instances, without losses; [0] is 0 */
    const double *samples_per_s;
    int64_t n_max;
    const struct spot_sync_offer *offer; /* [n_offer], at most SPOT_SYNC_OFFERS_MAX */
    size_t n_offer;
};

struct spot_sync_speed {
    double samples_per_s; /* including losses */
    double time_s, usd, usd_per_h;
};

/* The outcome of `count` [n_offer]. Returns 0, or -1 if nothing runs. */
int spot_sync_predict(const struct spot_sync_job *job, const int64_t *count,
                      struct spot_sync_speed *speed);

/* The cheapest of all counts within the quotas that finish by deadline_s. Returns 0 or -1: none. */
int spot_sync_best(const struct spot_sync_job *job, double deadline_s, int64_t *count,
                   struct spot_sync_speed *speed);

/* The earliest feasible deadline, to 0.1 %, at most most_s; INFINITY: none. */
double spot_sync_earliest(const struct spot_sync_job *job, double most_s);

/* The lowest loss, at least `loss` (above gamma5), that is reached by deadline_s, to 0.1 % of its
 * distance to gamma5; INFINITY: none. */
double spot_dnn_lowest(const struct spot_dnn_job *job, double loss, double deadline_s);

/* Share of the time that an instance computes if it is lost loss_per_h times an hour, each time for
 * restart_s. */
double spot_fleet_up_share(double loss_per_h, double restart_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_TRAIN_H */
