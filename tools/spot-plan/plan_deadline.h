/* SPDX-License-Identifier: MIT */
/* plan_deadline.h - the inputs and the decision of spot-plan deadline, for the code that reports
 * them. */
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
    /* series of the trace, by place */
    const struct spot_trace_series *series[SPOT_MARKET_PLACES_MAX];
    struct spot_json_doc json, price_json; /* documents of the forecast, and of --prices */
    struct spot_forecast forecast;
    struct spot_price_doc price;
    double *path; /* [n_place][2][n_path] */
    size_t n_priced;
    double time_s;
    struct spot_run_dist law[SPOT_MARKET_PLACES_MAX];
    double granted[SPOT_MARKET_PLACES_MAX]; /* probability that spot is available now */
    struct spot_ask_answer answer;          /* places to ask, and the cost of each step */
    struct spot_deadline_outlook outlook;
    bool *there;       /* [n_row][MAX] availability in a trace */
    double *usd_per_h; /* likewise */
    size_t n_row;
    struct spot_market_step want; /* the step to take */
    struct spot_prov prov;
    char why[PLAN_DEADLINE_WHY_MAX][PLAN_DEADLINE_WHY_TEXT];
    size_t n_why;
    bool explains; /* on stderr */
};

extern const char *const plan_deadline_mode[]; /* idle, spot, on-demand */

/* One of several jobs. */
struct plan_deadline_job {
    char *name, *now, *at; /* at may be NULL */
    double work_s, deadline_s, done_s, elapsed_s, launching_s;
};

/* Evaluate the steps of a job on the places of `s`: sets its answer and `want`. Returns 0, or -1.
 */
int plan_deadline_weigh(struct plan_deadline *s, const struct plan_deadline_job *job,
                        struct spot_err *err);

/* Read the jobs of --jobs, divide the quotas among them, write the plan. Returns 0, or -1. */
int plan_deadline_jobs(struct plan_deadline *s, const char *jobs, const char *path,
                       enum spot_format format, struct spot_err *err);

/* True if only a request can tell whether spot is available there. */
bool plan_deadline_is_asked(const struct plan_deadline *s, size_t place);

/* For instance "spot in use1-az1, g5.xlarge", at most PLAN_DEADLINE_WHY_TEXT / 2 bytes. */
void plan_deadline_label(const struct plan_deadline *s, struct spot_market_step step, char *text);

/* Write mode, zone and instance_type of a step. */
void plan_deadline_write_step(struct spot_jw *jw, const struct plan_deadline *s,
                              struct spot_market_step step);

/* For instance "ask a, g (0.90), then b, g (0.40); else idle", with the probability of a grant; at
 * most PLAN_DEADLINE_WHY_TEXT bytes. */
void plan_deadline_ask_text(const struct plan_deadline *s, const struct spot_ask_answer *answer,
                            char *text);

/* Write the places to ask. */
void plan_deadline_write_ask(struct spot_jw *jw, const struct plan_deadline *s,
                             const struct spot_ask_answer *answer);

/* Fill in `why`. */
void plan_deadline_explain(struct plan_deadline *s);

/* Returns 0, or -1 with *err. */
int plan_deadline_write(const struct plan_deadline *s, const char *path, enum spot_format format,
                        struct spot_err *err);

#endif /* PLAN_DEADLINE_H */
