/* SPDX-License-Identifier: MIT */
/* evacuation.h - which groups of state to save from nodes that leave: all of a group, or nothing.
 *
 * A group is worth its value only if all of its bytes get out. One copy of each byte must leave
 * through the links of nodes that hold it, and a node sends only so much before it is gone: a 0-1
 * knapsack whose capacity is a flow (of one node: the classic one). Branch and bound, densest group
 * first. The bound lets groups be cut: the bytes that can leave form a polymatroid, on which greedy
 * by density is optimal (Edmonds 1970; of one node: Dantzig 1957). Gates behind the holders keep it
 * one; those at the receivers do not, so the bound leaves them out.
 */
#ifndef SPOT_PLAN_MIGRATION_EVACUATION_H
#define SPOT_PLAN_MIGRATION_EVACUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/migration/transport_flow.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_EVACUATION_EXACT = 16,    /* up to so many groups the answer is always the best */
    SPOT_EVACUATION_FLOWS = 60000, /* beyond, as long as so many flows suffice */
};

/* Nodes that hold the same bytes: node numbers [n_holder]. */
struct spot_evacuation_set {
    const int *holder;
    int n_holder;
    int gate; /* of `in`, index + 1, 0: none */
};

struct spot_evacuation {
    int n_node, n_set, n_group;
    const double *limit_byte; /* [n_node] what a node can still send, INFINITY: any amount */
    const struct spot_evacuation_set *set;
    const struct spot_gate *in, *out; /* [n_in], [n_out] see transport_flow.h */
    const int *out_gate;              /* [n_node] */
    int n_in, n_out;
    const int64_t *byte; /* [n_group * n_set] of group g that the nodes of set k hold */
    const double *value; /* [n_group] >= 0; those of no value are saved last, if they fit */

    bool *is_saved;      /* [n_group] answer, owned by the caller */
    double saved, bound; /* answer: value saved; no choice saves more than bound >= saved */
    bool is_exact;       /* answer: every choice was compared or ruled out */
};

/* Never worse than greedy by density, nor than the best single group. Of equally good choices the
 * one is taken that is found first, so equal inputs give equal answers. */
void spot_evacuation(struct spot_evacuation *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_EVACUATION_H */
