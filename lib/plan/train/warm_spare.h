/* SPDX-License-Identifier: MIT */
/* warm_spare.h - spares that mirror stages: the time that they save when instances are lost, and
 * their cost.
 *
 * In a training job spares receive the gradient sums of stages (lib/train/trainer_warm.c), so that
 * one of them can replace a replica that died and nothing has to move. The assignment is the same
 * as there: each of w spares gets a stage, in order. With fewer spares than stages the remaining
 * stages are assigned as well, so a spare may have several; with more, stages get a second spare. A
 * spare receives sums for at most half of a step's time, and further stages are not mirrored. So
 * the stages form sets, each with its own spares: several stages and one spare, or one stage and
 * several spares. */
#ifndef SPOT_PLAN_TRAIN_WARM_SPARE_H
#define SPOT_PLAN_TRAIN_WARM_SPARE_H

#include "model/migrate_cost.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_warm_cover {
    int p, n_set;
    int *set;    /* [p] of each stage; -1: not mirrored */
    int *spares; /* [n_set] number that mirror all stages of the set */
    int n_warm;  /* spares of all sets */
};

/* For p stages and w >= 0 spares; a step takes step_s. Release it. */
void spot_warm_cover_init(struct spot_warm_cover *cover, const struct spot_migrate_cost *cost,
                          int p, int w, double step_s);
void spot_warm_cover_release(struct spot_warm_cover *cover);

/* Seconds of a step in which sums are sent to spares: those of the busiest sender, a stage, or
 * receiver. The sums are ready at the end of the step, so that it becomes longer by that. */
double spot_warm_mirror_s(const struct spot_warm_cover *cover,
                          const struct spot_migrate_cost *cost);

/* v of the d * p + n_warm instances die, uniformly, and `keep` pipelines are formed. For v =
 * 0..v_max: move[v] = E[max(X, Y)] as in spot_repartition_same, with two differences: a stage that
 * is short counts in X only if the remaining spares cannot take the places (the costliest stages
 * are served first); a stage has no holder (Y) only if its spares died too.
 *
 * Only draws in which no stage loses more than `most` replicas are counted (most >= d: all of
 * them); others contribute nothing to move[]. lost[v]: probability that some stage has no holder,
 * with all its replicas and spares dead. */
void spot_warm_move(const struct spot_warm_cover *cover, const struct spot_migrate_cost *cost,
                    int d, int keep, int most, int v_max, double *move, double *lost);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_WARM_SPARE_H */
