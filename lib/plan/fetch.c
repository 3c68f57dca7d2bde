/* SPDX-License-Identifier: MIT */
#include "plan/fetch.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/flow.h"

enum { SOURCE, SINK, FIRST_NODE, STEPS_MAX = 100 };

static double room_of(const struct spot_fetch *f, int node, double time_s)
{
    return fmin(f->out_byte_per_s[node] * time_s, f->limit_byte[node]);
}

/* Source -> demands -> holders -> sink; arc 2k is demand k, the holders' arcs follow in order. */
static void build(const struct spot_fetch *f, double time_s, struct spot_flow *flow)
{
    bool *is_used = spot_xcalloc((size_t)f->n_node, sizeof(bool));

    spot_flow_init(flow, FIRST_NODE + f->n_node + f->n_demand);
    for (int k = 0; k < f->n_demand; k++)
        spot_flow_add(flow, SOURCE, FIRST_NODE + f->n_node + k, f->demand[k].byte, 0);
    for (int k = 0; k < f->n_demand; k++)
        for (int h = 0; h < f->demand[k].n_holder; h++) {
            const int node = f->demand[k].holder[h];

            is_used[node] = true;
            spot_flow_add(flow, FIRST_NODE + f->n_node + k, FIRST_NODE + node, f->demand[k].byte,
                          f->demand[k].cost ? f->demand[k].cost[h] : 0);
        }
    for (int i = 0; i < f->n_node; i++)
        if (is_used[i]) /* rounded up: a byte more than the time allows, never one too few */
            spot_flow_add(flow, FIRST_NODE + i, SINK,
                          (int64_t)fmin(ceil(room_of(f, i, time_s)), 9e18), 0);
    free(is_used);
}

static int64_t total_of(const struct spot_fetch *f)
{
    int64_t total = 0;

    for (int k = 0; k < f->n_demand; k++)
        total += f->demand[k].byte;
    return total;
}

/* If every demand is spread evenly over its holders, is everyone done in time? Often yes. */
static bool fits_evenly(const struct spot_fetch *f, double time_s)
{
    double *load = spot_xcalloc((size_t)f->n_node, sizeof *load);
    bool is_fit = true;

    for (int k = 0; k < f->n_demand; k++)
        for (int h = 0; h < f->demand[k].n_holder; h++)
            load[f->demand[k].holder[h]] += (double)f->demand[k].byte / f->demand[k].n_holder;
    for (int i = 0; i < f->n_node; i++)
        is_fit = is_fit && load[i] <= room_of(f, i, time_s);
    free(load);
    return is_fit;
}

/* The time that the cut's demands need from its holders at least. */
static double time_of_cut(struct spot_fetch *f, const struct spot_flow *flow, double time_s)
{
    double byte = 0, rate = 0;

    for (int k = 0; k < f->n_demand; k++) {
        f->demand[k].in_cut = flow->level[FIRST_NODE + f->n_node + k] >= 0;
        byte += f->demand[k].in_cut ? (double)f->demand[k].byte : 0;
    }
    for (int i = 0; i < f->n_node; i++) {
        if (flow->level[FIRST_NODE + i] < 0)
            continue;
        if (f->limit_byte[i] <= f->out_byte_per_s[i] * time_s)
            byte -= f->limit_byte[i];
        else
            rate += f->out_byte_per_s[i];
    }
    return rate > 0 ? byte / rate : INFINITY;
}

void spot_fetch_time(struct spot_fetch *f)
{
    const int64_t total = total_of(f);

    f->time_s = f->floor_s;
    for (int k = 0; k < f->n_demand; k++)
        f->demand[k].in_cut = 0;
    if (!total || fits_evenly(f, f->time_s))
        return;
    for (int step = 0; step < STEPS_MAX; step++) {
        struct spot_flow flow;
        double next_s;
        bool is_done;

        build(f, f->time_s, &flow);
        is_done = spot_flow_max(&flow, SOURCE, SINK) >= total;
        next_s = is_done ? f->time_s : time_of_cut(f, &flow, f->time_s);
        spot_flow_release(&flow);
        if (is_done || next_s <= f->time_s * (1 + 1e-15))
            return;
        f->time_s = next_s;
        if (isinf(next_s))
            return;
    }
}

int spot_fetch_split(struct spot_fetch *f)
{
    bool is_free = true;
    struct spot_flow flow;
    int64_t got;
    size_t arc = 2 * (size_t)f->n_demand;

    for (int k = 0; k < f->n_demand; k++)
        is_free = is_free && !f->demand[k].cost;
    build(f, f->time_s, &flow);
    got = is_free ? spot_flow_max(&flow, SOURCE, SINK) : spot_flow_cheapest(&flow, SOURCE, SINK);
    f->cost = 0;
    for (int k = 0; k < f->n_demand; k++)
        for (int h = 0; h < f->demand[k].n_holder; h++, arc += 2) {
            const int64_t sent = flow.arc[arc + 1].left;

            f->cost += f->demand[k].cost ? (double)f->demand[k].cost[h] * (double)sent : 0;
            if (f->demand[k].sent)
                f->demand[k].sent[h] = sent;
        }
    spot_flow_release(&flow);
    return got >= total_of(f) ? 0 : -1;
}
