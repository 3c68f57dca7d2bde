/* SPDX-License-Identifier: MIT */
/* serve_decide.h - what the decision of serving (plan/decision.h, kind "serve") is made of: how
 * many pipelines of which shape, and spares, by plan/serve_solver.h.
 *
 * An answer is kept for ten minutes unless the rule, instances, what runs, the rate of arrivals,
 * their dispersion or lengths, that of losses, the pause of a change or the backlog are others:
 * what is estimated moves a little at every look.
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

/* Everything of the question that observations do not tell. */
struct spot_serve_rule {
    const struct spot_job_doc *job; /* of kind serve */
    struct spot_serve_slo slo;
    double window_s; /* the rate is that of the last window_s; > 0 */
    /* While fewer seconds were seen this rate is taken for the rest of the window; 0: half of the
     * most that what is there can answer. */
    double rate_per_s;
    double boot_s, switch_s; /* a lost instance is replaced in their sum */
    double stay_s;           /* until the next change; 0: from the losses, a minute to an hour */
};

/* What is known at a time; struct spot_seen has the instances that are there, without those that
 * are announced to leave. */
struct spot_serve_seen {
    double since_s;                /* when watching began */
    bool is_timeless;              /* nothing says what time it is: no answer is kept */
    const struct spot_load *load;  /* later arrivals, and answers that go on, are not looked at */
    const int32_t *cached_token;   /* [load->n] tokens of prompts that a cache holds; NULL: none */
    double rate_per_s, dispersion; /* of arrivals, if told; rate negative: learned from the load */
    double lost, instance_s; /* since then: instances lost, and seconds of all that were there */
    double loss_per_s;       /* of an instance, if that is known; negative: learned from these */
    const struct spot_serve_place *place; /* [n_place], how neighbours fall; n_place 0: alone */
    size_t n_place;
    bool is_forewarned;    /* losses are known early enough: none needs a spare */
    double waiting;        /* requests that are in no batch */
    struct spot_grid runs; /* D 0: nothing; negative: what was decided last */
    double switch_s;       /* the pause of a change to another shape */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_DECIDE_H */
