/* SPDX-License-Identifier: MIT */
/* plan_fleet.h - the parts of spot-plan fleet. */
#ifndef SPOT_PLAN_PLAN_FLEET_H
#define SPOT_PLAN_PLAN_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/tool.h"
#include "common/json.h"
#include "common/prov.h"
#include "model/demand_doc.h"
#include "model/plan_buy.h"
#include "model/price_doc.h"
#include "plan/fleet.h"
#include "plan/fleet_risk.h"
#include "plan/fleet_scale.h"

enum { PLAN_FLEET_WHY = 384, PLAN_FLEET_WHY_MAX = 64 };
/* Scenarios for planning, and other ones for testing the plan. */
enum { PLAN_FLEET_SCENARIOS = 1000, PLAN_FLEET_FRESH = 2000 };

struct plan_fleet_options {
    struct spot_tool_common common;
    const char *kind, *catalogue, *load, *policy, *market;
    const char *forecast, *prices, *current, *requests;
    uint64_t slices, zone_max;
    double rho, limit_s, unserved, cold_start_s, time_s, window_s;
    bool explain;
};

struct plan_fleet_offer {
    char *zone, *type;
    bool is_spot;
};

struct plan_fleet {
    const struct plan_fleet_options *o;
    struct spot_json_doc json, current, price_json;
    struct spot_demand_doc doc;  /* parsed from json */
    struct spot_price_doc price; /* of --prices; without it no series */
    bool *is_priced;             /* [price.n_series] the price is used for some offer */
    struct spot_fleet_demand demand;
    const char **bucket;
    double *rate_per_s, *per_s; /* [n_bucket], [n_bucket][n_offer] */
    struct plan_fleet_offer *offer;
    struct spot_fleet_offer *priced;
    size_t cap_offer, cap_priced;
    struct spot_fleet_answer answer; /* the answer with or without risk; usd_per_h and bound */
    struct spot_fleet_risk_answer risk;
    struct spot_fleet_promise fresh; /* on scenarios that were not used in planning */
    bool is_risk, has_fresh;
    size_t n_scenario;
    struct spot_plan_buy *held; /* the fleet of --current */
    size_t n_held;
    struct spot_fleet_scale scale;
    bool is_scaled, is_waiting; /* is_waiting: the current fleet is kept for now */
    double time_s;
    struct spot_prov prov;
    char (*why)[PLAN_FLEET_WHY];
    size_t n_why, cap_why;
};

/* A new line of `why`, to be written to; beyond PLAN_FLEET_WHY_MAX lines it is not shown. */
char *plan_fleet_why(struct plan_fleet *s);

/* --prices: expected prices of offers. To be called before the catalogue is read; a forecast price
 * replaces the catalogue's price for that zone, type and market. */
int plan_fleet_load_prices(struct plan_fleet *s, struct spot_err *err);
/* The expected price of a zone and type; -1: unknown. */
double plan_fleet_price(struct plan_fleet *s, const char *zone, const char *type, bool is_spot);
/* Report in `why` which prices were not used. */
void plan_fleet_explain_prices(struct plan_fleet *s);
void plan_fleet_release_prices(struct plan_fleet *s);

/* Solve with scenarios, or with limits on zones: fills answer, risk, why. */
int plan_fleet_solve_risk(struct plan_fleet *s, struct spot_err *err);

/* Read the rates from --requests, and the fleet of --current. */
int plan_fleet_read_requests(struct plan_fleet *s, struct spot_err *err);
int plan_fleet_scale(struct plan_fleet *s, struct spot_err *err);

/* --- spot-plan fleet --kind replicas --- */

struct plan_fleet_hold {
    const struct spot_tool_common *common;
    const char *catalogue, *forecast, *current, *state, *requests;
    uint64_t n;
    double availability, cold_s; /* cold_s 0: one step of the forecast */
    double per_replica;          /* requests per second of a replica, for `requests` */
};

int plan_fleet_hold(const struct plan_fleet_hold *options, struct spot_err *err);

/* --- spot-plan fleet --kind train --- */

struct plan_fleet_train {
    const struct spot_tool_common *common;
    const char *job, *catalogue, *forecast, *market, *solver, *current;
    double loss, loss_now, samples, deadline_s, restart_s, loss_per_h;
    bool explain;
};

int plan_fleet_train(const struct plan_fleet_train *options, struct spot_err *err);

/* --- resources of a training job: catalogue, forecast, current instances --- */

struct train_offer {
    char *zone, *type;
    bool is_spot;
    double usd_per_h, loss_per_h;
    int64_t quota, held;
};

struct train_offers {
    struct train_offer *offer;
    size_t n, cap;
    const struct plan_fleet_train *options;
    /* true for types that the job can use; others are skipped */
    bool (*runs)(const char *type, void *user);
    void *user;
};

/* Read the files that `options` name. Returns 0, or -1 with *err. */
int train_offers_read(struct train_offers *offers, struct spot_prov *prov, struct spot_err *err);
void train_offers_release(struct train_offers *offers);

#endif /* SPOT_PLAN_PLAN_FLEET_H */
