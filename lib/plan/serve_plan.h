/* SPDX-License-Identifier: MIT */
/* serve_plan.h - the document of a plan to serve, with reasons and alternatives. */
#ifndef SPOT_PLAN_SERVE_PLAN_H
#define SPOT_PLAN_SERVE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/job_doc.h"
#include "model/plan_doc.h"
#include "plan/serve_solver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_serve_plan {
    struct spot_plan_doc doc; /* to be written; its arrays and texts are below */
    struct spot_plan_alternative *alternative;
    char **text; /* [n_text] */
    size_t n_text;
    const char **why;
};

/* Make the plan from offers [n], n >= 1: the first with its reasons, the others as alternatives.
 * The caller sets the time. */
void spot_serve_plan_make(struct spot_serve_plan *plan, const struct spot_job_doc *job,
                          const struct spot_serve_ask *ask, const struct spot_serve_offer *offer,
                          size_t n);

/* Returns a sentence owned by the plan; _why also adds it to the reasons. */
SPOT_PRINTF(2, 3)
const char *spot_serve_plan_say(struct spot_serve_plan *plan, const char *fmt, ...);
SPOT_PRINTF(2, 3)
void spot_serve_plan_why(struct spot_serve_plan *plan, const char *fmt, ...);

/* Returns -1 with *err (SPOT_EINFEASIBLE), which states how many instances the model needs. */
int spot_serve_plan_refuse(const struct spot_job_doc *job, int64_t instances, struct spot_err *err);

void spot_serve_plan_release(struct spot_serve_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_PLAN_H */
