/* SPDX-License-Identifier: MIT */
/* plan_serve_place.h - where the members of a plan to serve go, what that moves, and when serving
 * restarts. */
#ifndef SPOT_PLAN_SERVE_PLACE_H
#define SPOT_PLAN_SERVE_PLACE_H

#include "model/cluster_doc.h"
#include "model/job_serve.h"
#include "model/layout_doc.h"
#include "model/plan_doc.h"
#include "plan/migration.h"

/* Zero it first but for the cap. */
struct serve_places {
    double memory_cap_byte;      /* a node may grow by while the moves last; INFINITY: any */
    struct spot_layout from;     /* what runs: who holds what, keys and values too */
    struct spot_cluster cluster; /* where it can run */
    struct spot_plan_place *place;
    size_t n_place;
    double makespan_s, restart_s; /* of the last grid that was placed */
    int64_t moved_byte, bound_byte;
};

int serve_places_load(struct serve_places *s, const char *layout, const char *cluster,
                      struct spot_prov *prov, struct spot_err *err);

/* Place the grid of a plan by the planner of spot-migrate plan, in the order with which serving
 * restarts soonest: the first pass, of the plan's batch, finds each layer there as it comes to it.
 * It is of a token if the layout has caches, else of prompts. Returns 0, or -1 with *err:
 * SPOT_EINFEASIBLE with fewer slots than members, SPOT_EDATA if a node would get two, which a plan
 * cannot say. */
int serve_places_make(struct serve_places *s, const struct spot_job_serve *serve,
                      const struct spot_plan_doc *doc, struct spot_err *err);
void serve_places_release(struct serve_places *s);

#endif /* SPOT_PLAN_SERVE_PLACE_H */
