/* SPDX-License-Identifier: MIT */
/* moves.h - who takes which place in a new grid, and who sends what to whom.
 *
 * The state is a set of units (a bundle, or a shard range of a plane); nodes hold units, positions
 * of the new grid need units. The answer assigns nodes to positions and lists transfers. Order of
 * goals: never lose the last copy of a unit, then least makespan, least bytes, fewest nodes
 * touched; equal inputs give equal answers.
 */
#ifndef SPOT_PLAN_MOVES_H
#define SPOT_PLAN_MOVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_move_problem {
    int n_node, n_position, n_unit;
    const int64_t *unit_byte;     /* [n_unit], >= 0 */
    const uint8_t *holds;         /* [n_node * n_unit], 1 if the node has a current copy */
    const uint8_t *needs;         /* [n_position * n_unit], 1 if the position needs it */
    const uint8_t *can_place;     /* [n_node], 0 for a node that is leaving: it only sends */
    const double *out_byte_per_s; /* [n_node], > 0; NULL: all equal */
    const double *in_byte_per_s;  /* [n_node], > 0; NULL: all equal */
};

struct spot_move {
    int unit, from, to; /* from -1: no node has it; it must come from durable storage */
};

struct spot_move_plan {
    int *node_of_position;  /* [n_position] */
    struct spot_move *move; /* [n_move], in the order in which they should start */
    size_t n_move;
    int64_t total_byte; /* over the network */
    int64_t lost_byte;  /* of units that no node holds and some position needs */
    double makespan_s;  /* busiest link direction; 1 byte/s links where rates are NULL */
    double bound_s;     /* no plan can be faster */
};

/* Returns 0, or -1 with *err: SPOT_EINFEASIBLE with fewer placeable nodes than positions.
 * Release the plan with spot_move_plan_release. */
int spot_moves_plan(const struct spot_move_problem *problem, struct spot_move_plan *plan,
                    struct spot_err *err);
void spot_move_plan_release(struct spot_move_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MOVES_H */
