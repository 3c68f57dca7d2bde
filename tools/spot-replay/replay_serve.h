/* SPDX-License-Identifier: MIT */
/* replay_serve.h - what the parts of spot-replay serve share. */
#ifndef SPOT_REPLAY_REPLAY_SERVE_H
#define SPOT_REPLAY_REPLAY_SERVE_H

#include "cli/table.h"
#include "peers/serve_peers.h"
#include "trace/load_trace.h"

enum { REPLAY_SERVE_POLICIES_MAX = 32 };

struct replay_served {
    enum spot_serve_policy policy;
    int64_t n; /* of on-demand */
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
    bool until_end; /* only requests that were answered by the end of the trace count */
    bool has_slo;
    double interval_s; /* of steps and pictures */
};

/* A row for each policy, or for each and interval. */
void replay_serve_print_totals(const struct replay_serve *s, struct spot_table *table);
void replay_serve_print_steps(const struct replay_serve *s, struct spot_table *table);
extern const char replay_serve_total[], replay_serve_step[];

/* Nearest rank of sorted x [n]; NaN of none. */
double replay_serve_rank(const double *x, size_t n, double share);

/* Seconds that requests [from, to) of the load took to their end, sorted into `e2e`. Returns how
 * many had one. */
size_t replay_serve_e2e(const struct replay_serve *s, const struct spot_serve_result *r,
                        size_t from, size_t to, double *e2e);

/* Latency over time with losses of instances, instances, and how latencies are spread. */
int replay_serve_draw(const struct replay_serve *s, const char *path, struct spot_err *err);

#endif /* SPOT_REPLAY_REPLAY_SERVE_H */
