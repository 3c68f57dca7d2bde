/* SPDX-License-Identifier: MIT */
/* plan_serve_place.h - where the members of a plan to serve go, and what that moves. */
#ifndef SPOT_PLAN_SERVE_PLACE_H
#define SPOT_PLAN_SERVE_PLACE_H

#include "model/cluster_doc.h"
#include "model/layout_doc.h"
#include "model/plan_doc.h"
#include "plan/migration.h"

/* Zero it first. */
struct serve_places {
    struct spot_layout from;     /* what runs: who holds what, keys and values too */
    struct spot_cluster cluster; /* where it can run */
    struct spot_plan_place *place;
    size_t n_place;
    double makespan_s; /* of the last grid that was placed */
    int64_t moved_byte, bound_byte;
};

int serve_places_load(struct serve_places *s, const char *layout, const char *cluster,
                      struct spot_prov *prov, struct spot_err *err);

/* Place a grid by the planner of spot-migrate plan. Returns 0, or -1 with *err: SPOT_EINFEASIBLE
 * with fewer slots than members, SPOT_EDATA if a node would get two, which a plan cannot say. */
int serve_places_make(struct serve_places *s, const struct spot_grid *grid, struct spot_err *err);
void serve_places_release(struct serve_places *s);

#endif /* SPOT_PLAN_SERVE_PLACE_H */
