/* SPDX-License-Identifier: MIT */
/* probes.h - the places of a market, from probes, counts and a provider's advice. */
#ifndef SPOT_FORECAST_PROBES_H
#define SPOT_FORECAST_PROBES_H

#include "forecast/capacity.h"
#include "model/forecast_doc.h"
#include "trace/advice.h"
#include "trace/probe_trace.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_probed {
    const char *zone, *instance_type; /* borrowed from the probes */
    struct spot_capacity_place place;
    double p[SPOT_CAPACITY_STATES];   /* at now_s */
    double age_s;                     /* of the newest answer; NaN: none */
    double usd_per_h;                 /* the last price given; NaN: none */
    struct spot_capacity_seen *owned; /* memory of place.seen */
};

struct spot_probes {
    struct spot_capacity market;
    struct spot_probed *probed; /* [n], by zone, then type; includes places with only a score */
    size_t n;
    double now_s; /* time of the newest row read */
};

/* Learn from all inputs. `counts` and `advice` may be NULL. A rising count is a grant, a fall to 0
 * a refusal. Scores of a region hold for its zones. */
void spot_probes_learn(struct spot_probes *probes, const struct spot_probe_trace *trace,
                       const struct spot_trace *counts, const struct spot_advice *advice);
void spot_probes_release(struct spot_probes *probes);

/* Without counts, convert probes to series of counts: the instances granted of those requested.
 * (Not in addition to counts of held machines: a planner would count both.) Returns 0, or -1 with
 * *err. */
int spot_probes_count(struct spot_trace *counts, const struct spot_probe_trace *trace,
                      struct spot_err *err);

/* Fills `start` of each probed series. */
void spot_probes_tell(const struct spot_probes *probes, struct spot_forecast *forecast);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_PROBES_H */
