/* SPDX-License-Identifier: MIT */
#include "plan/migration/flow.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"

void spot_flow_init(struct spot_flow *flow, int n_vertex)
{
    const size_t n = (size_t)n_vertex;

    *flow = (struct spot_flow){ .n_vertex = n_vertex };
    flow->first = spot_xcalloc(n, sizeof(int));
    flow->level = spot_xcalloc(n, sizeof(int));
    flow->at = spot_xcalloc(n, sizeof(int));
    flow->queue = spot_xcalloc(n, sizeof(int));
    for (size_t v = 0; v < n; v++)
        flow->first[v] = -1;
}

void spot_flow_release(struct spot_flow *flow)
{
    free(flow->first), free(flow->level), free(flow->at), free(flow->queue), free(flow->arc);
    *flow = (struct spot_flow){ 0 };
}

int spot_flow_add(struct spot_flow *flow, int from, int to, int64_t capacity, int64_t cost)
{
    const int index = (int)flow->n_arc;

    flow->arc = spot_xgrow(flow->arc, &flow->cap, flow->n_arc + 2, sizeof *flow->arc);
    flow->arc[index] = (struct spot_arc){ to, flow->first[from], capacity, cost };
    flow->arc[index + 1] = (struct spot_arc){ from, flow->first[to], 0, -cost };
    flow->first[from] = index;
    flow->first[to] = index + 1;
    flow->n_arc += 2;
    return index;
}

static bool find_levels(struct spot_flow *flow, int source, int sink)
{
    int n = 0;

    for (int v = 0; v < flow->n_vertex; v++)
        flow->level[v] = -1;
    flow->level[source] = 0;
    flow->queue[n++] = source;
    for (int k = 0; k < n; k++)
        for (int a = flow->first[flow->queue[k]]; a >= 0; a = flow->arc[a].next)
            if (flow->arc[a].left > 0 && flow->level[flow->arc[a].to] < 0) {
                flow->level[flow->arc[a].to] = flow->level[flow->queue[k]] + 1;
                flow->queue[n++] = flow->arc[a].to;
            }
    return flow->level[sink] >= 0;
}

/* The depth of the recursion is at most the number of levels, which is small in these networks. */
static int64_t push(struct spot_flow *flow, int v, int sink, int64_t most)
{
    int64_t pushed = 0;

    if (v == sink)
        return most;
    for (; flow->at[v] >= 0; flow->at[v] = flow->arc[flow->at[v]].next) {
        struct spot_arc *arc = &flow->arc[flow->at[v]];
        const int64_t room = arc->left < most - pushed ? arc->left : most - pushed;
        int64_t got;

        if (room <= 0 || flow->level[arc->to] != flow->level[v] + 1)
            continue;
        got = push(flow, arc->to, sink, room);
        arc->left -= got;
        flow->arc[flow->at[v] ^ 1].left += got;
        pushed += got;
        if (pushed == most)
            break;
    }
    return pushed;
}

int64_t spot_flow_max(struct spot_flow *flow, int source, int sink)
{
    int64_t total = 0;

    while (find_levels(flow, source, sink)) {
        for (int v = 0; v < flow->n_vertex; v++)
            flow->at[v] = flow->first[v];
        total += push(flow, source, sink, INT64_MAX);
    }
    return total;
}

/* Bellman-Ford with a queue; via[v] is the arc into v. */
static bool find_cheapest(struct spot_flow *flow, int source, int sink, int64_t *price, int *via)
{
    bool *is_queued = spot_xcalloc((size_t)flow->n_vertex, sizeof(bool));
    size_t head = 0, n = 0;

    for (int v = 0; v < flow->n_vertex; v++)
        price[v] = INT64_MAX, via[v] = -1;
    price[source] = 0;
    flow->queue[n++ % (size_t)flow->n_vertex] = source;
    while (head < n) {
        const int v = flow->queue[head++ % (size_t)flow->n_vertex];

        is_queued[v] = false;
        for (int a = flow->first[v]; a >= 0; a = flow->arc[a].next) {
            const struct spot_arc *arc = &flow->arc[a];

            if (arc->left <= 0 || price[v] + arc->cost >= price[arc->to])
                continue;
            price[arc->to] = price[v] + arc->cost;
            via[arc->to] = a;
            if (!is_queued[arc->to])
                flow->queue[n++ % (size_t)flow->n_vertex] = arc->to;
            is_queued[arc->to] = true;
        }
    }
    free(is_queued);
    return via[sink] >= 0;
}

int64_t spot_flow_cheapest(struct spot_flow *flow, int source, int sink)
{
    int64_t *price = spot_xcalloc((size_t)flow->n_vertex, sizeof *price), total = 0;
    int *via = spot_xcalloc((size_t)flow->n_vertex, sizeof *via);

    while (find_cheapest(flow, source, sink, price, via)) {
        int64_t most = INT64_MAX;

        for (int v = sink; v != source; v = flow->arc[via[v] ^ 1].to)
            if (flow->arc[via[v]].left < most)
                most = flow->arc[via[v]].left;
        for (int v = sink; v != source; v = flow->arc[via[v] ^ 1].to) {
            flow->arc[via[v]].left -= most;
            flow->arc[via[v] ^ 1].left += most;
        }
        total += most;
    }
    free(price), free(via);
    return total;
}
