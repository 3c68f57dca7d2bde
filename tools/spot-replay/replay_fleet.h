/* SPDX-License-Identifier: MIT */
/* replay_fleet.h - the parts of spot-replay fleet. */
#ifndef SPOT_REPLAY_REPLAY_FLEET_H
#define SPOT_REPLAY_REPLAY_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/tool.h"
#include "common/json.h"
#include "model/demand_doc.h"
#include "sim/fleet_mixed.h"
#include "sim/fleet_play.h"
#include "trace/load_trace.h"
#include "trace/trace.h"

/* The autoscaler reacts to a load that has been higher, or lower, for this long. */
enum { REPLAY_FLEET_UP_S = 300, REPLAY_FLEET_DOWN_S = 1200 };

enum { REPLAY_FLEET_POLICIES_MAX = 16 };

struct replay_fleet_options {
    struct spot_tool_common common;
    const char *trace, *policy, *plot, *serving, *load, *demand, *catalogue;
    uint64_t n;
    double per_replica, rho, window_s;
    /* cold start as known to policies; actual one */
    double cold_s[2];
    double tick_s, availability, unserved, price[2]; /* price: spot, on demand */
    bool steps;
};

/* --- the load: replay_fleet_load.c --- */

/* A load that is repeated when it has ended; each request counts with its work. */
struct replay_work {
    const struct spot_load *load;
    double *sum; /* [load.n + 1] sum of the work of earlier requests */
    double length_s;
};

/* work [load.n]; NULL: each request counts as 1. */
void replay_work_init(struct replay_work *w, const struct spot_load *load, const double *work,
                      double tick_s);
void replay_work_release(struct replay_work *w);

/* Work per second: came [n_tick] in each tick; seen [n_tick] in the window before it, which an
 * autoscaler observes (for the first tick the actual value). */
void replay_work_rates(const struct replay_work *w, const struct replay_fleet_options *o,
                       size_t n_tick, double *came, double *seen);

/* Replicas that an autoscaler asks for, asked [n_tick], to serve seen [n_tick] replicas of load at
 * utilisation rho. Returns the maximum over asked and arriving replicas. */
int32_t replay_autoscale(const struct replay_fleet_options *o, size_t n_tick, const double *came,
                         const double *seen, int32_t *asked);

/* --- the trace: replay_fleet.c --- */

/* Available instances of each series in each tick, [n_tick][n_series]; freed by the caller. */
int32_t *replay_fleet_counts(const struct spot_trace *trace, double tick_s, size_t n_tick);

/* --- several types: replay_fleet_mixed.c --- */

int replay_fleet_mixed(const struct replay_fleet_options *o, const struct spot_trace *trace,
                       size_t n_tick, struct spot_err *err);

/* --- output: replay_fleet.c --- */

struct replay_fleet_picture {
    const char *title;
    size_t n_tick, n_band;
    const char *const *band;      /* [n_band] */
    const int32_t *held;          /* [n_tick][n_band] */
    const double *unserved, *usd; /* [n_tick] */
    const char *unserved_title, *unserved_unit;
};
int replay_fleet_draw(const struct replay_fleet_options *o, const struct replay_fleet_picture *p,
                      struct spot_err *err);

/* --- shared by the files of spot-replay fleet --demand --- */

enum { REPLAY_MIXED_ROWS_MAX = 4 * (SPOT_MIXED_TYPES_MAX + 1), REPLAY_MIXED_NAME_BYTE = 96 };

struct replay_mixed_price;

struct replay_mixed_row {
    char name[REPLAY_MIXED_NAME_BYTE];
    struct spot_mixed_run run;
};

struct replay_mixed {
    const struct replay_fleet_options *o;
    const struct spot_trace *trace;
    struct spot_mixed_play play;
    struct replay_mixed_price *price;
    size_t n_price, cap_price;
    const char *type[SPOT_MIXED_TYPES_MAX];
    struct spot_mixed_offer offer[SPOT_MIXED_OFFERS_MAX];
    int32_t *count;
    struct spot_json_doc json;
    struct spot_demand_doc demand;
    struct spot_load load;
    double *per_s, *came, *seen; /* [n_bucket][n_type]; [n_tick][n_bucket] */
    struct spot_mixed_bound *bound;
    double law_usd; /* least cost for the aim if only the distribution of the load is known */
    struct replay_mixed_row row[REPLAY_MIXED_ROWS_MAX];
    size_t n_row;
    double load_usd; /* cost of on demand for the load alone, with fractional machines */
};

/* Add a row for a policy; type NULL: all types. */
struct replay_mixed_row *replay_mixed_new_row(struct replay_mixed *m, const char *policy,
                                              const char *type);

/* Add rows for each type alone that can serve all sizes, under a policy of fleet_sim.h. */
int replay_mixed_alone(struct replay_mixed *m, const struct spot_fleet_player *policy,
                       struct spot_err *err);

#endif /* SPOT_REPLAY_REPLAY_FLEET_H */
