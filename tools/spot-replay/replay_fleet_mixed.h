/* SPDX-License-Identifier: MIT */
/* replay_fleet_mixed.h - what the files of spot-replay fleet --demand share. */
#ifndef SPOT_REPLAY_REPLAY_FLEET_MIXED_H
#define SPOT_REPLAY_REPLAY_FLEET_MIXED_H

#include "common/json.h"
#include "model/demand_doc.h"
#include "replay_fleet.h"
#include "sim/fleet_mixed.h"
#include "sim/fleet_play.h"

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

#endif /* SPOT_REPLAY_REPLAY_FLEET_MIXED_H */
