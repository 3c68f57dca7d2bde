/* SPDX-License-Identifier: MIT */
/* schedule.h - the learning rate of a step: warm-up, then constant, cosine or linear decay.
 *
 * A function of the step only, so that a recomputed step has the same rate.
 */
#ifndef SPOT_TRAIN_SCHEDULE_H
#define SPOT_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_lr_schedule { SPOT_LR_CONSTANT, SPOT_LR_COSINE, SPOT_LR_LINEAR };

/* Find a schedule by name, and its name; -1 if there is none. */
int spot_lr_schedule_find(const char *name);
const char *spot_lr_schedule_name(uint32_t kind);

/* Steps count from the job's first, which is step 1. Zeroed: a constant rate from the first step
 * on. */
struct spot_schedule {
    uint32_t kind;        /* enum spot_lr_schedule */
    int64_t warmup_steps; /* W: step s <= W has s/W of the rate */
    int64_t decay_steps;  /* N > W: from this step on it is min_lr; 0 if constant */
    double min_lr;        /* 0 if constant */
};

/* Optimizer settings that may change during training: in effect in the steps after `after`. */
struct spot_tuning {
    int64_t after;
    double lr, weight_decay; /* lr: the peak of the schedule */
    struct spot_schedule schedule;
};

/* Reject values out of range. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int spot_tuning_check(const struct spot_tuning *tuning, struct spot_err *err);

/* The rate of a step >= 1, in IEEE double arithmetic of our own: no libm, equal bits everywhere.
 *   s <= W      lr s / W
 *   else        min + (lr - min) f(t), t = (s - W) / (N - W), at most 1
 *   f           cosine (1 + cos(pi t)) / 2, line 1 - t */
double spot_tuning_lr(const struct spot_tuning *tuning, int64_t step);
/* True if the rate differs between steps. */
bool spot_tuning_is_scheduled(const struct spot_tuning *tuning);
/* True if equal except for `after`. */
bool spot_tuning_equal(const struct spot_tuning *a, const struct spot_tuning *b);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SCHEDULE_H */
