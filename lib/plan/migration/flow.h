/* SPDX-License-Identifier: MIT */
/* flow.h - maximum flow in integers (Dinic 1970), and the cheapest maximum flow (successive
 * shortest paths) if arcs have costs. Deterministic: the newest arc of a vertex is tried first. */
#ifndef SPOT_PLAN_MIGRATION_FLOW_H
#define SPOT_PLAN_MIGRATION_FLOW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_arc {
    int to, next;
    int64_t left; /* unused capacity */
    int64_t cost;
};

struct spot_flow {
    int n_vertex, *first;
    struct spot_arc *arc; /* arc k and k ^ 1 are each other's reverse */
    size_t n_arc, cap;
    int *level, *at, *queue;
};

void spot_flow_init(struct spot_flow *flow, int n_vertex);
void spot_flow_release(struct spot_flow *flow);

/* Returns the index of the arc; the flow over it is arc[index ^ 1].left. */
int spot_flow_add(struct spot_flow *flow, int from, int to, int64_t capacity, int64_t cost);

/* Augment as far as possible; returns the added flow. After spot_flow_max, level[v] >= 0 exactly
 * for the source's side of a minimum cut. */
int64_t spot_flow_max(struct spot_flow *flow, int source, int sink);

/* The same at minimum cost; cost >= 0 on every added arc. */
int64_t spot_flow_cheapest(struct spot_flow *flow, int source, int sink);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_FLOW_H */
