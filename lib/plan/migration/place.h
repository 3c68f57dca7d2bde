/* SPDX-License-Identifier: MIT */
/* place.h - searches for the best placement of nodes on positions when the cost of a placement is
 * known only as a whole (its makespan depends on which sources remain).
 *
 * The caller scores a placement; this module proposes: a start with the fewest bytes and one with
 * the least busy receiver (both exact assignments), then every distinct placement if there are few,
 * else swaps that involve the busiest receivers. It also returns lower bounds that hold for every
 * placement. Deterministic: effort is counted in scored placements, never in time.
 */
#ifndef SPOT_PLAN_MIGRATION_PLACE_H
#define SPOT_PLAN_MIGRATION_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compared in this order; smaller is better. */
struct spot_place_score {
    double makespan_s;
    double usd;
    int64_t byte;
    int n_touched;
};

/* Relative difference of two makespans or prices that are considered equal. */
#define SPOT_PLACE_EPSILON 1e-12

/* Score node_of_position[n_position]; may return any makespan above give_up_s once it knows that
 * the true one is above it. */
typedef struct spot_place_score (*spot_place_fn)(void *user, const int *node_of_position,
                                                 double give_up_s);

/* A sender set and the bytes that must leave it: fixed_byte, plus byte[q * n_node + i] if node i
 * takes position q (with single slots these add up). */
struct spot_place_cut {
    int64_t *byte; /* [n_position * n_node], of the caller */
    int64_t fixed_byte;
    double rate_byte_per_s; /* of the set, out */
};

/* The sender set that determines the earliest finish of the last placement scored; false if nothing
 * is sent. */
typedef bool (*spot_place_cut_fn)(void *user, struct spot_place_cut *cut);

struct spot_place_problem {
    int n_node, n_position;
    /* [n_position * n_node] that the node would receive for this position alone */
    const int64_t *in_byte;
    const double *in_byte_per_s; /* [n_node], > 0 */
    const uint8_t *can_place;    /* [n_node] */
    const int64_t *slots;        /* [n_node] positions that a node can take; NULL: one each */
    int64_t byte_floor;        /* lower bound for all placements; used if nodes share received bytes
                                  between positions (slots > 1) */
    double floor_s;            /* lower bound of the time, known to the caller */
    const int *node_class;     /* [n_node]: nodes of a class are interchangeable */
    const int *position_class; /* [n_position]: likewise */
    double out_byte_per_s;     /* of all nodes together */
    long score_max;            /* maximum placements scored by enumeration */
    long climb_max;            /* and by swapping, if enumeration was not complete */
    long bound_max;            /* steps on the bound, if enumeration was not complete */
    spot_place_fn score;
    spot_place_cut_fn cut; /* NULL: bounds from single positions only */
    void *user;
};

struct spot_place {
    int *node_of_position; /* [n_position] */
    struct spot_place_score score;
    double bound_s;     /* lower bound for all placements */
    int64_t bound_byte; /* likewise */
    bool is_exhaustive; /* every distinct placement was scored or excluded by a bound */
    long n_scored;
};

/* Returns 0, or -1 with *err (SPOT_EINFEASIBLE) if there are fewer placeable nodes than
 * positions. */
int spot_place_search(const struct spot_place_problem *problem, struct spot_place *place,
                      struct spot_err *err);
void spot_place_release(struct spot_place *place);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_PLACE_H */
