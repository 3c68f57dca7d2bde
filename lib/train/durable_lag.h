/* SPDX-License-Identifier: MIT */
/* durable_lag.h - how often a generation is due, and how far the disk is behind the job.
 *
 * A generation costs what steps take longer while one is under way (save_cost.h), not the time
 * until it is on the disk, which passes beside them.
 */
#ifndef SPOT_TRAIN_DURABLE_LAG_H
#define SPOT_TRAIN_DURABLE_LAG_H

#include <stdbool.h>
#include <stdint.h>

#include "train/save_cost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The minimum time between generations if none is given. */
#define SPOT_DURABLE_LEAST_S 1.0

struct spot_durable_lag {
    double asked_s;      /* when the newest generation was requested */
    int64_t asked_of;    /* its step */
    double asked_next_s; /* when the next step began */
    double next_s;       /* the same for the newest on disk; else when the first step began */
    struct spot_save_cost cost;
};

/* A generation of step `round` is requested; is on disk, or given up. */
void spot_durable_lag_asked(struct spot_durable_lag *lag, int64_t round);
void spot_durable_lag_ended(struct spot_durable_lag *lag, bool is_durable);
/* The step after `round` begins; the newest generation on disk is of step `newest`, -1: none. */
void spot_durable_lag_step(struct spot_durable_lag *lag, int64_t round, int64_t newest);

/* The time between generations: as asked for, or, where 0 is, by the risk and by what one costs.
 * is_single: a single kill could take the last copy of a stage. */
double spot_durable_lag_every_s(const struct spot_durable_lag *lag, double asked_every_s,
                                bool is_single);
bool spot_durable_lag_is_due(const struct spot_durable_lag *lag, double asked_every_s,
                             bool is_single);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_DURABLE_LAG_H */
