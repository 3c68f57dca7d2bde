/* SPDX-License-Identifier: MIT */
/* replay_serve.h - shared by the parts of spot-replay serve. */
#ifndef SPOT_REPLAY_REPLAY_SERVE_H
#define SPOT_REPLAY_REPLAY_SERVE_H

#include "cli/table.h"
#include "peers/serve_peers.h"
#include "trace/load_trace.h"

enum { REPLAY_SERVE_POLICIES_MAX = 32 };

struct replay_served {
    enum spot_serve_policy policy;
    int64_t n; /* number of instances for on-demand */
    char name[48];
    struct spot_serve_result result;
};

struct replay_serve {
    struct spot_job_doc job;
    struct spot_trace trace;
    struct spot_load load;
    struct spot_serve_play play;
    struct replay_served played[REPLAY_SERVE_POLICIES_MAX]; /* [n_played] */
    size_t n_played;
    struct spot_layout layout; /* of --layout */
    struct spot_serve_moves moves;
    bool until_end; /* only requests answered by the end of the trace count */
    bool has_slo;
    double interval_s; /* for steps and figures */
};

/* Print one row for each policy, or for each policy and interval. */
void replay_serve_print_totals(const struct replay_serve *s, struct spot_table *table);
void replay_serve_print_steps(const struct replay_serve *s, struct spot_table *table);
extern const char replay_serve_total[], replay_serve_step[];

/* Nearest rank of sorted x [n]; NaN if n is 0. */
double replay_serve_rank(const double *x, size_t n, double share);

/* End-to-end seconds of the requests [from, to) of the load, sorted into `e2e`. Returns the number
 * of those that ended. */
size_t replay_serve_e2e(const struct replay_serve *s, const struct spot_serve_result *r,
                        size_t from, size_t to, double *e2e);

/* Draw latency over time with losses of instances, the instances, and the distribution of
 * latencies. */
int replay_serve_draw(const struct replay_serve *s, const char *path, struct spot_err *err);

#endif /* SPOT_REPLAY_REPLAY_SERVE_H */
