/* SPDX-License-Identifier: MIT */
/* serve_decide.h - the decision of kind "serve" (plan/decision.h): the number and shape of
 * pipelines, and spares, by plan/serve_solver.h. Since estimates vary slightly at every call, an
 * answer is kept for ten minutes unless the rule, the instances, the running shape, the rate,
 * dispersion or lengths of arrivals, the rate of losses, the pause of a change or the backlog
 * differ.
 */
#ifndef SPOT_PLAN_SERVE_DECIDE_H
#define SPOT_PLAN_SERVE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/grid.h"
#include "model/job_doc.h"
#include "plan/serve_solver.h"
#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SERVE_WINDOW_S = 300 };

/* The constant part of the question. */
struct spot_serve_rule {
    const struct spot_job_doc *job; /* of kind serve */
    struct spot_serve_slo slo;
    double window_s; /* window over which the rate is measured; > 0 */
    /* Rate assumed for the part of the window before observation began; 0: half of the capacity of
     * the instances. */
    double rate_per_s;
    double boot_s, switch_s; /* boot_s + switch_s: time until a lost instance is replaced */
    /* time until the next change; 0: from the losses, between a minute and an hour */
    double stay_s;
};

/* An observation. The number of instances, without those announced to leave, is in struct
 * spot_seen. */
struct spot_serve_seen {
    double since_s;                /* when observation began */
    bool is_timeless;              /* time_s is not given: no answer is reused */
    const struct spot_load *load;  /* later arrivals, and unfinished answers, are ignored */
    const int32_t *cached_token;   /* [load->n] tokens of prompts that a cache holds; NULL: none */
    double rate_per_s, dispersion; /* of arrivals, if given; rate negative: learned from the load */
    /* since since_s: instances lost, and the sum of seconds of all instances */
    double lost, instance_s;
    /* losses per instance and second, if known; negative: estimated from the above */
    double loss_per_s;
    /* [n_place], joint losses; n_place 0: losses are independent */
    const struct spot_serve_place *place;
    size_t n_place;
    bool is_forewarned;    /* losses are announced early enough that no spare is needed */
    double waiting;        /* requests waiting, in no batch */
    struct spot_grid runs; /* running grid; D 0: nothing runs; negative: the last decision */
    double switch_s;       /* the pause of a change to another shape */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_DECIDE_H */
