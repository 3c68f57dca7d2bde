/* SPDX-License-Identifier: MIT */
/* share_level.h - two linear programs of shares, over classes of jobs that are alike. */
#ifndef SPOT_PLAN_SHARE_LEVEL_H
#define SPOT_PLAN_SHARE_LEVEL_H

#include "plan/share.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Maximise the minimum of sum over types of gain * x over the jobs. gain[n_job][n_type] >= 0, 0:
 * the job cannot run there. With `all`, jobs that hold the level down are fixed and the rest is
 * raised, until none is left: the lexicographic maximum. Ties: where jobs run now. Fills answer->x,
 * price, objective and bound; space for both is allocated by the caller. weight (NULL: not wanted)
 * of each job, with which no shares have a sum of weight * gain * x above the bound; ties are then
 * left unresolved. */
int spot_share_level(const struct spot_share_problem *problem, const double *gain, bool all,
                     double *weight, struct spot_share_answer *answer, struct spot_err *err);

/* Maximise the sum of gain * x; floor[n_job] (NULL: none): minimum steps/s of each job. Returns 1
 * if the floors are too high. */
int spot_share_sum(const struct spot_share_problem *problem, const double *gain,
                   const double *floor, struct spot_share_answer *answer, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SHARE_LEVEL_H */
