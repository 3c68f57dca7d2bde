/* SPDX-License-Identifier: MIT */
/* train_score.h - the two solvers of train_plan.c that charge changes; used there only. */
#ifndef SPOT_PLAN_TRAIN_SCORE_H
#define SPOT_PLAN_TRAIN_SCORE_H

#include "plan/train_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The grids worth judging, ascending in the throughput's order; *grid is the caller's to free. All
 * of them where a cost table can hold them, else the fastest few of every count within
 * WINDOW of what is there. Returns how many. */
int spot_train_grids(const struct spot_train_question *q, int **grid);

/* Fill cost_s, samples_per_s and score of every choice for q->solver; the choices are among
 * grid[n_grid].
 * *bound: samples_per_s that nobody can beat. *suspend: the score of running nothing.
 * Returns 0, or -1 with *err. */
int spot_train_score(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, const int *grid, int n_grid,
                     double *bound, double *suspend, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_SCORE_H */
