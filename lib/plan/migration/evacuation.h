/* SPDX-License-Identifier: MIT */
/* evacuation.h - which groups of state to save from leaving nodes: a whole group, or nothing.
 *
 * A group has its value only if all of its bytes are saved. One copy of each byte must leave
 * through the links of nodes that hold it, and a node can send only a limited number before it is
 * gone: a 0-1 knapsack whose capacity is a flow (for one node: the classic one). Branch and bound,
 * densest group first. The bound allows fractional groups: the bytes that can leave form a
 * polymatroid, on which greedy by density is optimal (Edmonds 1970; for one node: Dantzig 1957).
 * Gates behind the holders preserve that; those at the receivers do not, so the bound ignores them.
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
    SPOT_EVACUATION_EXACT = 16,    /* up to this many groups the answer is always optimal */
    SPOT_EVACUATION_FLOWS = 60000, /* with more groups: optimal if this many flows are enough */
};

/* Nodes that hold the same bytes: their numbers [n_holder]. */
struct spot_evacuation_set {
    const int *holder;
    int n_holder;
    int gate; /* gate of `in`, index + 1; 0: none */
};

struct spot_evacuation {
    int n_node, n_set, n_group;
    const double *limit_byte; /* [n_node] what a node can still send, INFINITY: any amount */
    const struct spot_evacuation_set *set;
    const struct spot_gate *in, *out; /* [n_in], [n_out] see transport_flow.h */
    const int *out_gate;              /* [n_node] */
    int n_in, n_out;
    const int64_t *byte; /* [n_group * n_set] of group g that the nodes of set k hold */
    const double *value; /* [n_group] >= 0; groups of value 0 are saved last, if they fit */

    bool *is_saved;      /* [n_group] answer, owned by the caller */
    double saved, bound; /* answer: value saved; no choice saves more than `bound` */
    bool is_exact;       /* answer: every choice was compared or ruled out */
};

/* Never worse than greedy by density, nor than the best single group. Among equally good choices
 * the first found is taken, so equal inputs give equal answers. */
void spot_evacuation(struct spot_evacuation *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_EVACUATION_H */
