/* SPDX-License-Identifier: MIT */
/* transport_flow.h - the fastest way to send requested bytes from given holders: a parametric
 * maximum flow.
 *
 * Bytes can be split over holders. The time is max(busiest receiver, T_out); T_out is the greatest
 * D(S) / B(H(S)) over sets S of demands (Hall), found by Newton steps on minimum cuts, so the last
 * cut proves it. Preemptive open shop (Gonzalez and Sahni 1976): a schedule of that length exists.
 */
#ifndef SPOT_PLAN_MIGRATION_TRANSPORT_FLOW_H
#define SPOT_PLAN_MIGRATION_TRANSPORT_FLOW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A limit on the flow through several links together. Gates form trees: flow through one also
 * passes its parent. */
struct spot_gate {
    double limit_byte;
    int parent; /* index + 1, 0: none */
};

struct spot_demand {
    int64_t byte;
    int gate;          /* gate of spot_transport.in for its bytes, index + 1, 0: none */
    const int *holder; /* [n_holder] nodes that have it */
    int n_holder;
    const int64_t *cost; /* [n_holder] per byte from each, NULL: free */
    int64_t *sent;       /* [n_holder] answer, NULL: not needed */
    int in_cut;          /* answer: it belongs to the set that determines the time */
};

struct spot_transport {
    int n_node, n_demand;
    const double *out_byte_per_s; /* [n_node] */
    const double *taken_s;        /* [n_node] of time_s that a link is otherwise busy; NULL: none */
    const double *limit_byte;     /* [n_node] maximum bytes that a node can send before it leaves */
    const struct spot_gate *in;   /* [n_in] at the receivers; only spot_transport_most uses gates */
    const struct spot_gate *out;  /* [n_out] behind the holders */
    const int *out_gate;          /* [n_node] index + 1, 0: none; NULL without `out` */
    int n_in, n_out;
    struct spot_demand *demand;
    double floor_s;   /* sufficient time: the busiest receiver; >= any taken_s */
    double give_up_s; /* > 0: if the answer exceeds it, any time above it may be returned */
    double time_s;    /* answer, >= floor_s; INFINITY when the limits forbid it */
    double cost;      /* answer, of the cheapest solution at time_s */
};

/* Fills time_s and in_cut. */
void spot_transport_time(struct spot_transport *s);

/* Also chooses the senders: fills sent and cost. Call it with time_s as found. Returns 0, or -1 if
 * the bytes do not fit into that time (which does not happen for a time found by _time). */
int spot_transport_split(struct spot_transport *s);

/* Returns the maximum bytes of all demands that can be sent in time_s. */
int64_t spot_transport_most(const struct spot_transport *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_TRANSPORT_FLOW_H */
