/* SPDX-License-Identifier: MIT */
/* fleet_plan.h - asks for the plan of a turn: by --plan-command, or by the tools of our own that
 * forecast what is on offer and plan for a load. */
#ifndef SPOT_RUN_FLEET_PLAN_H
#define SPOT_RUN_FLEET_PLAN_H

#include <stdint.h>

#include "fleet/controller.h"
#include "fleet_command.h"

struct fleet_plan_options {
    const char *command;          /* NULL: ours, with the rest */
    const char *offers;           /* prints the trace of what was on offer so far */
    const char *catalogue, *load; /* load: spot.demand/1; NULL: n replicas */
    const char *join;             /* the front, whose requests are the rate; NULL: that of load */
    const char *key_file;         /* of the front; NULL: none */
    double n, availability, cold_s, tick_s;
    const char *dir; /* where plan.json and what plans remember lie; NULL: nothing is kept */
    int dir_fd;
};

struct fleet_plan;

struct fleet_plan *fleet_plan_new(const struct fleet_plan_options *options);
void fleet_plan_free(struct fleet_plan *plan);

/* The plan of now is the fleet's target. Returns 0, or -1 with *err: then it is as before. */
int fleet_plan_make(struct fleet_plan *plan, struct fleet_runner *runner, struct spot_fleet *fleet,
                    struct spot_err *err);

#endif /* SPOT_RUN_FLEET_PLAN_H */
