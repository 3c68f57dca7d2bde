/* SPDX-License-Identifier: MIT */
/* durable_lag.h - how often a generation is due, and how far the disk is behind the job.
 *
 * The cost of a generation is the slowdown of steps while it is written, compared with steps
 * without one, not the time until it is on the disk. Step times vary by more than that, so it is a
 * mean of differences of either sign.
 */
#ifndef SPOT_TRAIN_DURABLE_LAG_H
#define SPOT_TRAIN_DURABLE_LAG_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed: not known. */
struct spot_save_cost {
    double calm_s;   /* time of a step without a generation in progress, smoothed; 0: not known */
    double mean_s;   /* cost of a generation, smoothed; may be negative */
    double excess_s; /* cost so far of the generation in progress, over completed steps */
    int n_begun;     /* generations begun since the last step without one */
    bool is_beside;  /* a generation is or was in progress during the current step */
    bool is_ended;   /* a generation has ended during the current step */
};

/* A generation has begun; a generation has ended, written or given up. One at a time. */
void spot_save_cost_begun(struct spot_save_cost *cost);
void spot_save_cost_ended(struct spot_save_cost *cost);

/* A step took step_s. is_busy: a generation is still in progress. is_usual false: the step was slow
 * or fast for another reason, and is ignored. */
void spot_save_cost_step(struct spot_save_cost *cost, double step_s, bool is_busy, bool is_usual);

/* Seconds of steps that a generation costs, >= 0. */
double spot_save_cost_s(const struct spot_save_cost *cost);

/* True if a step without a generation is needed for comparison, because the last one is too old. */
bool spot_save_cost_wants_calm(const struct spot_save_cost *cost);

/* The minimum time between generations if none is given. */
#define SPOT_DURABLE_LEAST_S 1.0

struct spot_durable_lag {
    double asked_s;      /* when the newest generation was requested */
    int64_t asked_of;    /* its step */
    double asked_next_s; /* when the next step began */
    double next_s; /* when the step after the newest generation on disk began; without one, the
                      first step */
    struct spot_save_cost cost;
};

/* A generation of step `round` was requested; a generation is on disk, or was given up. */
void spot_durable_lag_asked(struct spot_durable_lag *lag, int64_t round);
void spot_durable_lag_ended(struct spot_durable_lag *lag, bool is_durable);
/* The step after `round` begins; the newest generation on disk is of step `newest`, -1: none. */
void spot_durable_lag_step(struct spot_durable_lag *lag, int64_t round, int64_t newest);

/* Seconds between generations: the configured value or, if that is 0, one derived from the risk of
 * a loss and the cost of a generation. is_single: one kill could take the last copy of a stage. */
double spot_durable_lag_every_s(const struct spot_durable_lag *lag, double asked_every_s,
                                bool is_single);
bool spot_durable_lag_is_due(const struct spot_durable_lag *lag, double asked_every_s,
                             bool is_single);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_DURABLE_LAG_H */
