/* SPDX-License-Identifier: MIT */
/* place.h - search for the best placement of nodes on positions when the price of a placement is
 * known only as a whole (its makespan depends on which sources remain).
 *
 * The caller scores a placement; this module proposes: a start of least bytes and one of least
 * busiest receiver (both exact assignments), then every distinct placement where those are few,
 * else swaps that touch the busiest receivers. Lower bounds that hold for every placement come out
 * beside the answer. Deterministic: effort is counted in scored placements, never in time.
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

/* Relative difference of two makespans or prices that counts as one. */
#define SPOT_PLACE_EPSILON 1e-12

/* Score node_of_position[n_position]; may return any makespan above give_up_s once it knows that
 * the true one is above it. */
typedef struct spot_place_score (*spot_place_fn)(void *user, const int *node_of_position,
                                                 double give_up_s);

/* A set of senders and what has to leave it: fixed_byte, and byte[q * n_node + i] more if node i
 * takes position q (in single slots these add up). */
struct spot_place_cut {
    int64_t *byte; /* [n_position * n_node], of the caller */
    int64_t fixed_byte;
    double rate_byte_per_s; /* of the set, out */
};

/* The set that decides how soon the senders of the placement scored last can be done; false if
 * nothing is sent. */
typedef bool (*spot_place_cut_fn)(void *user, struct spot_place_cut *cut);

struct spot_place_problem {
    int n_node, n_position;
    const int64_t *in_byte;      /* [n_position * n_node] that the node would have to
                                    receive for this position alone */
    const double *in_byte_per_s; /* [n_node], > 0 */
    const uint8_t *can_place;    /* [n_node] */
    const int64_t *slots;        /* [n_node] positions that a node can take; NULL: one each */
    int64_t byte_floor;          /* no placement moves less; used where nodes share what they
                                    receive between positions (slots > 1) */
    double floor_s;              /* no placement is faster, as the caller knows */
    const int *node_class;       /* [n_node]: nodes of a class are interchangeable */
    const int *position_class;   /* [n_position]: likewise */
    double out_byte_per_s;       /* of all nodes together */
    long score_max;              /* placements to score in the enumeration at most */
    long climb_max;              /* and by swapping, where that did not end */
    long bound_max;              /* steps on the bound, where that did not end */
    spot_place_fn score;
    spot_place_cut_fn cut; /* NULL: bounds from single positions only */
    void *user;
};

struct spot_place {
    int *node_of_position; /* [n_position] */
    struct spot_place_score score;
    double bound_s;     /* no placement can beat it */
    int64_t bound_byte; /* likewise */
    bool is_exhaustive; /* every distinct placement was scored or excluded by a bound */
    long n_scored;
};

/* Returns 0, or -1 with *err (SPOT_EINFEASIBLE) with fewer placeable nodes than positions. */
int spot_place_search(const struct spot_place_problem *problem, struct spot_place *place,
                      struct spot_err *err);
void spot_place_release(struct spot_place *place);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_PLACE_H */
