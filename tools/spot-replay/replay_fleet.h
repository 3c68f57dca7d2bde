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

/* The autoscaler follows a load that was above or below for so long. */
enum { REPLAY_FLEET_UP_S = 300, REPLAY_FLEET_DOWN_S = 1200 };

enum { REPLAY_FLEET_POLICIES_MAX = 16 };

struct replay_fleet_options {
    struct spot_tool_common common;
    const char *trace, *policy, *plot, *serving, *load, *demand, *catalogue;
    uint64_t n;
    double per_replica, rho, window_s;
    double cold_s[2];                                /* as policies have it, as it is */
    double tick_s, availability, unserved, price[2]; /* spot, on demand */
    bool steps;
};

/* --- the load: replay_fleet_load.c --- */

/* A load that begins anew when it is over; each request counts for its work. */
struct replay_work {
    const struct spot_load *load;
    double *sum; /* [load.n + 1] of the requests before */
    double length_s;
};

/* work [load.n]; NULL: each counts 1. */
void replay_work_init(struct replay_work *w, const struct spot_load *load, const double *work,
                      double tick_s);
void replay_work_release(struct replay_work *w);

/* Work a second: came [n_tick] in each tick, seen [n_tick] in the window before it, as an
 * autoscaler knows it (of the first tick it is told). */
void replay_work_rates(const struct replay_work *w, const struct replay_fleet_options *o,
                       size_t n_tick, double *came, double *seen);

/* Replicas that an autoscaler asks for, of a rate of rho each when it sees `seen` [n_tick] replicas
 * of load: asked [n_tick]. Returns the most that are ever asked for or come. */
int32_t replay_autoscale(const struct replay_fleet_options *o, size_t n_tick, const double *came,
                         const double *seen, int32_t *asked);

/* --- the trace: replay_fleet.c --- */

/* What can be had of each series in each tick, [n_tick][n_series]; the caller frees it. */
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

/* --- what the files of spot-replay fleet --demand share --- */

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
    double law_usd; /* the least for the aim where just the law of the load is known */
    struct replay_mixed_row row[REPLAY_MIXED_ROWS_MAX];
    size_t n_row;
    double load_usd; /* on demand for just the load, machines divided */
};

/* A row for a policy; type NULL: all. */
struct replay_mixed_row *replay_mixed_new_row(struct replay_mixed *m, const char *policy,
                                              const char *type);

/* Each type that answers all sizes, alone: rows of a policy of fleet_sim.h. */
int replay_mixed_alone(struct replay_mixed *m, const struct spot_fleet_player *policy,
                       struct spot_err *err);

#endif /* SPOT_REPLAY_REPLAY_FLEET_H */
