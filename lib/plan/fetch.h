/* SPDX-License-Identifier: MIT */
/* fetch.h - the fastest way to serve given wants from given holders: a parametric maximum flow.
 *
 * Bytes can be split over holders. The time is max(busiest receiver, T_out); T_out is the greatest
 * D(S) / B(H(S)) over sets S of demands (Hall), found by Newton steps on minimum cuts, so the last
 * cut proves it. Preemptive open shop (Gonzalez and Sahni 1976): a schedule of that length exists.
 */
#ifndef SPOT_PLAN_FETCH_H
#define SPOT_PLAN_FETCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fetch_demand {
    int64_t byte;
    const int *holder; /* [n_holder] nodes that have it */
    int n_holder;
    const int64_t *cost; /* [n_holder] of a byte from each, NULL: free */
    int64_t *sent;       /* [n_holder] answer, NULL: not wanted */
    int in_cut;          /* answer: it belongs to the set that decides the time */
};

struct spot_fetch {
    int n_node, n_demand;
    const double *out_byte_per_s; /* [n_node] */
    const double *limit_byte;     /* [n_node] what a node can send at most before it is gone */
    struct spot_fetch_demand *demand;
    double floor_s; /* no need to be faster: the busiest receiver */
    double time_s;  /* answer, >= floor_s; INFINITY when the limits forbid it */
    double cost;    /* answer, of the cheapest way at time_s */
};

/* Fills time_s and in_cut. */
void spot_fetch_time(struct spot_fetch *fetch);

/* Also chooses who sends what: fills sent and cost. Call it with time_s as found; 0 if the bytes
 * fit into that time (they do), -1 otherwise. */
int spot_fetch_split(struct spot_fetch *fetch);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FETCH_H */
