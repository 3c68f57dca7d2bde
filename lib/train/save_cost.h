/* SPDX-License-Identifier: MIT */
/* save_cost.h - measures the cost of a generation: how much longer steps take while one is being
 * written, compared with steps without one. Steps vary by more than that, so it is a mean of
 * differences of either sign.
 */
#ifndef SPOT_TRAIN_SAVE_COST_H
#define SPOT_TRAIN_SAVE_COST_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All zero: not known. */
struct spot_save_cost {
    double calm_s;   /* of a step without one, smoothed; 0: not known */
    double mean_s;   /* per generation, smoothed; may be negative */
    double excess_s; /* of the one in progress, over completed steps */
    int n_begun;     /* since the last step without one */
    bool is_beside;  /* the current step has, or had, one beside it */
    bool is_ended;   /* in the current step */
};

/* A generation has begun; has ended, written or given up. One at a time. */
void spot_save_cost_begun(struct spot_save_cost *cost);
void spot_save_cost_ended(struct spot_save_cost *cost);

/* A step took step_s; is a generation still in progress? A step that was slow or fast for another
 * reason has is_usual false: it is ignored. */
void spot_save_cost_step(struct spot_save_cost *cost, double step_s, bool is_busy, bool is_usual);

/* Seconds of steps that a generation costs, >= 0. */
double spot_save_cost_s(const struct spot_save_cost *cost);

/* Has it been so long since a step without a generation that one is needed for comparison? */
bool spot_save_cost_wants_calm(const struct spot_save_cost *cost);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SAVE_COST_H */
