/* SPDX-License-Identifier: MIT */
/* probes.h - the places of a market, from probes, counts and what a provider says. */
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
    double usd_per_h;                 /* told last; NaN: never */
    struct spot_capacity_seen *owned; /* what place.seen lies in */
};

struct spot_probes {
    struct spot_capacity market;
    struct spot_probed *probed; /* [n], by zone, then type; also those with a score alone */
    size_t n;
    double now_s; /* the newest row of all that was read */
};

/* Learn from everything. `counts` and `advice` may be NULL: a count that rises is a grant, one that
 * falls to 0 a refusal. Scores of a region hold for its zones. */
void spot_probes_learn(struct spot_probes *probes, const struct spot_probe_trace *trace,
                       const struct spot_trace *counts, const struct spot_advice *advice);
void spot_probes_release(struct spot_probes *probes);

/* Where there are no counts, probes become series of them: what was granted of what was asked. (Not
 * beside counts of machines that are held: who plans would take them for more of those.)
 * Returns 0, or -1 with *err. */
int spot_probes_count(struct spot_trace *counts, const struct spot_probe_trace *trace,
                      struct spot_err *err);

/* `start` of each series that was probed. */
void spot_probes_tell(const struct spot_probes *probes, struct spot_forecast *forecast);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_PROBES_H */
