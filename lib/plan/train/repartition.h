/* SPDX-License-Identifier: MIT */
/* repartition.h - expected seconds to move state when a grid changes, given how many of its
 * instances died; exact, for Parcae's rules (docs/design/06-liveput.md).
 *
 * j of the D*P instances of a grid die, uniformly. Times come from lib/model/migrate_cost.h.
 */
#ifndef SPOT_PLAN_TRAIN_REPARTITION_H
#define SPOT_PLAN_TRAIN_REPARTITION_H

#include "model/migrate_cost.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_REPARTITION_VICTIMS_MAX = 64 };

/* Only draws in which no stage loses more than `most` are counted (most >= d: all of them); others
 * contribute nothing.
 *
 * P stays, and `keep` pipelines remain. For j = 0..j_max, j_max <= d * p:
 *
 * hold[j]: probability that survivors can form them without moving state.
 *
 * move[j]: E[max(X, Y)] over the other draws, where X is the slowest transfer of a stage that is
 * short of replicas and Y the sum over the stages without a holder. In the last stage a single
 * replica counts as none, as in the published code. */
void spot_repartition_same(const struct spot_migrate_cost *cost, int d, int p, int keep, int most,
                           int j_max, double *hold, double *move);

/* P changes to p2. fetch[j] = E[transfer of what the last stage taken by a survivor lacks], for j =
 * 0..j_max. New stages choose in order, each the unused survivor that lacks least; ties go to the
 * lower old stage. */
void spot_repartition_other(const struct spot_migrate_cost *cost, int d, int p, int p2, int most,
                            int j_max, double *fetch);

/* The same with ties as in Parcae's release: to the lower pipeline, then to the lower stage. If no
 * survivor is left for a new stage the one before it is the last. The work grows with the number of
 * victims: for small numbers. */
void spot_repartition_by_node(const struct spot_migrate_cost *cost, int d, int p, int p2, int most,
                              int j_max, double *fetch);

/* The same three for a known outcome: lost[k] of stage k's d replicas died. */
double spot_repartition_same_drawn(const struct spot_migrate_cost *cost, int d, int p, int keep,
                                   const int *lost, int *holds);
double spot_repartition_other_drawn(const struct spot_migrate_cost *cost, int d, int p, int p2,
                                    const int *lost);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_REPARTITION_H */
