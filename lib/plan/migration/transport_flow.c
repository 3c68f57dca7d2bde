/* SPDX-License-Identifier: MIT */
#include "plan/migration/transport_flow.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/migration/flow.h"

enum { SOURCE, SINK, FIRST_NODE, STEPS_MAX = 100 };

static double room_of(const struct spot_transport *s, int node, double time_s)
{
    const double left_s = s->taken_s ? fmax(time_s - s->taken_s[node], 0) : time_s;

    return fmin(s->out_byte_per_s[node] * left_s, s->limit_byte[node]);
}

static int64_t whole(double byte)
{
    return (int64_t)fmin(ceil(byte), 9e18);
}

/* Network: source -> gates of receivers -> demands -> holders -> their gates -> sink. Arc 2k is
 * demand k, and the arcs of the holders follow in order; a demand of 0 bytes has none. */
static void build(const struct spot_transport *s, double time_s, struct spot_flow *flow)
{
    const int demand = FIRST_NODE + s->n_node, in = demand + s->n_demand, out = in + s->n_in;
    bool *is_used = spot_xcalloc((size_t)s->n_node, sizeof(bool));

    spot_flow_init(flow, out + s->n_out);
    for (int k = 0; k < s->n_demand; k++)
        spot_flow_add(flow, s->demand[k].gate ? in + s->demand[k].gate - 1 : SOURCE, demand + k,
                      s->demand[k].byte, 0);
    for (int k = 0; k < s->n_demand; k++)
        for (int h = 0; h < s->demand[k].n_holder && s->demand[k].byte; h++) {
            const int node = s->demand[k].holder[h];

            is_used[node] = true;
            spot_flow_add(flow, demand + k, FIRST_NODE + node, s->demand[k].byte,
                          s->demand[k].cost ? s->demand[k].cost[h] : 0);
        }
    for (int i = 0; i < s->n_node; i++)
        /* rounded up: one byte more than the time allows is safe, one too few is not */
        if (is_used[i])
            spot_flow_add(flow, FIRST_NODE + i,
                          s->n_out && s->out_gate[i] ? out + s->out_gate[i] - 1 : SINK,
                          whole(room_of(s, i, time_s)), 0);
    for (int g = 0; g < s->n_in; g++)
        spot_flow_add(flow, s->in[g].parent ? in + s->in[g].parent - 1 : SOURCE, in + g,
                      whole(s->in[g].limit_byte), 0);
    for (int g = 0; g < s->n_out; g++)
        spot_flow_add(flow, out + g, s->out[g].parent ? out + s->out[g].parent - 1 : SINK,
                      whole(s->out[g].limit_byte), 0);
    free(is_used);
}

static int64_t total_of(const struct spot_transport *s)
{
    int64_t total = 0;

    for (int k = 0; k < s->n_demand; k++)
        total += s->demand[k].byte;
    return total;
}

/* True if everyone is done in time when every demand is spread evenly over its holders. This is
 * often so. */
static bool fits_evenly(const struct spot_transport *s, double time_s)
{
    double *load = spot_xcalloc((size_t)s->n_node, sizeof *load);
    bool is_fit = true;

    for (int k = 0; k < s->n_demand; k++)
        for (int h = 0; h < s->demand[k].n_holder; h++)
            load[s->demand[k].holder[h]] += (double)s->demand[k].byte / s->demand[k].n_holder;
    for (int i = 0; i < s->n_node; i++)
        is_fit = is_fit && load[i] <= room_of(s, i, time_s);
    free(load);
    return is_fit;
}

/* The least time in which the holders of the cut can send its demands. */
static double time_of_cut(struct spot_transport *s, const struct spot_flow *flow, double time_s)
{
    double byte = 0, rate = 0;

    for (int k = 0; k < s->n_demand; k++) {
        s->demand[k].in_cut = flow->level[FIRST_NODE + s->n_node + k] >= 0;
        byte += s->demand[k].in_cut ? (double)s->demand[k].byte : 0;
    }
    for (int i = 0; i < s->n_node; i++) {
        if (flow->level[FIRST_NODE + i] < 0)
            continue;
        if (s->limit_byte[i] <= room_of(s, i, time_s)) {
            byte -= s->limit_byte[i];
            continue;
        }
        rate += s->out_byte_per_s[i];
        byte += s->taken_s ? s->taken_s[i] * s->out_byte_per_s[i] : 0;
    }
    return rate > 0 ? byte / rate : INFINITY;
}

void spot_transport_time(struct spot_transport *s)
{
    const int64_t total = total_of(s);

    s->time_s = s->floor_s;
    for (int k = 0; k < s->n_demand; k++)
        s->demand[k].in_cut = 0;
    if (!total || fits_evenly(s, s->time_s))
        return;
    for (int step = 0; step < STEPS_MAX; step++) {
        struct spot_flow flow;
        double next_s;
        bool is_done;

        build(s, s->time_s, &flow);
        is_done = spot_flow_max(&flow, SOURCE, SINK) >= total;
        next_s = is_done ? s->time_s : time_of_cut(s, &flow, s->time_s);
        spot_flow_release(&flow);
        if (is_done || next_s <= s->time_s * (1 + 1e-15))
            return;
        s->time_s = next_s;
        if (isinf(next_s) || (s->give_up_s > 0 && next_s > s->give_up_s))
            return;
    }
}

int spot_transport_split(struct spot_transport *s)
{
    bool is_free = true;
    struct spot_flow flow;
    int64_t got;
    size_t arc = 2 * (size_t)s->n_demand;

    for (int k = 0; k < s->n_demand; k++)
        is_free = is_free && !s->demand[k].cost;
    build(s, s->time_s, &flow);
    got = is_free ? spot_flow_max(&flow, SOURCE, SINK) : spot_flow_cheapest(&flow, SOURCE, SINK);
    s->cost = 0;
    for (int k = 0; k < s->n_demand; k++)
        for (int h = 0; h < s->demand[k].n_holder; h++) {
            const int64_t sent = s->demand[k].byte ? flow.arc[arc + 1].left : 0;

            arc += s->demand[k].byte ? 2 : 0;

            s->cost += s->demand[k].cost ? (double)s->demand[k].cost[h] * (double)sent : 0;
            if (s->demand[k].sent)
                s->demand[k].sent[h] = sent;
        }
    spot_flow_release(&flow);
    return got >= total_of(s) ? 0 : -1;
}

int64_t spot_transport_most(const struct spot_transport *s)
{
    struct spot_flow flow;
    int64_t most;

    build(s, s->time_s, &flow);
    most = spot_flow_max(&flow, SOURCE, SINK);
    spot_flow_release(&flow);
    return most;
}
