/* SPDX-License-Identifier: MIT */
/* save_cost.h - what a generation costs: how much longer steps take while one is written beside
 * them, by the steps that have none. Steps vary by more than that, so it is a mean of differences
 * of either sign.
 */
#ifndef SPOT_TRAIN_SAVE_COST_H
#define SPOT_TRAIN_SAVE_COST_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All zero: nothing is known. */
struct spot_save_cost {
    double calm_s;   /* of a step that has none beside it, smoothed; 0: not known */
    double mean_s;   /* of a generation, smoothed; may be negative */
    double excess_s; /* of the one that is under way, by the steps that are over */
    int n_begun;     /* since the last step that had none */
    bool is_beside;  /* the step under way has, or had, one beside it */
    bool is_ended;   /* in the step under way */
};

/* A generation is begun; it is over, written or given up. One at a time. */
void spot_save_cost_begun(struct spot_save_cost *cost);
void spot_save_cost_ended(struct spot_save_cost *cost);

/* A step is over that took so long; is a generation still under way? What took how long for other
 * reasons is told with is_usual false: it counts for neither. */
void spot_save_cost_step(struct spot_save_cost *cost, double step_s, bool is_busy, bool is_usual);

/* Seconds of steps that a generation costs, >= 0. */
double spot_save_cost_s(const struct spot_save_cost *cost);

/* Has it been so long since a step had none that one should be left alone? */
bool spot_save_cost_wants_calm(const struct spot_save_cost *cost);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SAVE_COST_H */
