/* SPDX-License-Identifier: MIT */
/* plan_deadline.h - what spot-plan deadline knows and decides, for what tells it. */
#ifndef PLAN_DEADLINE_H
#define PLAN_DEADLINE_H

#include "cli/tool.h"
#include "common/json.h"
#include "model/forecast_doc.h"
#include "model/price_doc.h"
#include "plan/ask_order.h"
#include "plan/market_read.h"
#include "sim/deadline_ahead.h"
#include "trace/trace.h"

enum { PLAN_DEADLINE_WHY_MAX = 3 * SPOT_MARKET_PLACES_MAX + 4, PLAN_DEADLINE_WHY_TEXT = 256 };

struct plan_deadline {
    struct spot_market market;
    struct spot_market_names names;
    struct spot_market_now now;
    struct spot_trace trace;
    const struct spot_trace_series *series[SPOT_MARKET_PLACES_MAX]; /* of the trace, by place */
    struct spot_json_doc json, price_json; /* of the forecast, of --prices */
    struct spot_forecast forecast;
    struct spot_price_doc price;
    double *path; /* [n_place][2][n_path] */
    size_t n_priced;
    double time_s;
    struct spot_run_dist law[SPOT_MARKET_PLACES_MAX];
    double granted[SPOT_MARKET_PLACES_MAX];      /* P(spot is there now) */
    struct spot_ask ask[SPOT_MARKET_PLACES_MAX]; /* of places that were probed, in order */
    size_t n_ask;
    double usd; /* expected in all */
    struct spot_deadline_outlook outlook;
    bool *there;       /* [n_row][MAX] of a trace */
    double *usd_per_h; /* the same */
    size_t n_row;
    double step_usd[SPOT_MARKET_PLACES_MAX][3];
    struct spot_market_step want, otherwise; /* if all that is asked refuse */
    struct spot_prov prov;
    char why[PLAN_DEADLINE_WHY_MAX][PLAN_DEADLINE_WHY_TEXT];
    size_t n_why;
};

extern const char *const plan_deadline_mode[]; /* idle, spot, on-demand */

/* A job of several. */
struct plan_deadline_job {
    char *name, *now, *at; /* at may be NULL */
    double work_s, deadline_s, done_s, elapsed_s, launching_s;
};

/* Weigh the steps of a job on the places of `s`: its step_usd, want. Returns 0, or -1. */
int plan_deadline_weigh(struct plan_deadline *s, const struct plan_deadline_job *job,
                        struct spot_err *err);

/* Read the jobs of --jobs, divide the quotas among them, write the plan. Returns 0, or -1. */
int plan_deadline_jobs(struct plan_deadline *s, const char *jobs, const char *path,
                       enum spot_format format, struct spot_err *err);

/* Is whether spot is there known only by asking? */
bool plan_deadline_is_asked(const struct plan_deadline *s, size_t place);

/* "spot in use1-az1, g5.xlarge", PLAN_DEADLINE_WHY_TEXT / 2 bytes at most. */
void plan_deadline_label(const struct plan_deadline *s, struct spot_market_step step, char *text);

/* mode, zone and instance_type of a step. */
void plan_deadline_write_step(struct spot_jw *jw, const struct plan_deadline *s,
                              struct spot_market_step step);

/* Fill why. */
void plan_deadline_explain(struct plan_deadline *s);

/* Returns 0, or -1 with *err. */
int plan_deadline_write(const struct plan_deadline *s, const char *path, enum spot_format format,
                        struct spot_err *err);

#endif /* PLAN_DEADLINE_H */
