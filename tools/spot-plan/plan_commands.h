/* SPDX-License-Identifier: MIT */
/* plan_commands.h - what the commands of spot-plan share. */
#ifndef SPOT_PLAN_PLAN_COMMANDS_H
#define SPOT_PLAN_PLAN_COMMANDS_H

#include <stdint.h>

#include "cli/tool.h"
#include "common/err.h"
#include "common/prov.h"
#include "model/cluster_doc.h"
#include "model/job_serve.h"
#include "model/layout_doc.h"
#include "model/plan_doc.h"
#include "plan/decision.h"
#include "plan/migration.h"

/* The rows of the table in main.c. */
extern const struct spot_cli plan_train_command;
extern const struct spot_cli plan_serve_command;
extern const struct spot_cli plan_fleet_command;
extern const struct spot_cli plan_deadline_command;
extern const struct spot_cli plan_share_command;
extern const struct spot_cli plan_job_command;

/* --- what runs, and the line that a decision keeps between calls: --current, --state --- */

#define PLAN_ROW_CURRENT(v)                                        \
    {                                                              \
        SPOT_OPT_STRING, 0, "current", v, "grid",                  \
            "what runs now (default: --state's, or nothing)", 0, 0 \
    }

/* An absent file is the first call, and so is NULL, which nothing is written to. */
int plan_state_read(const char *path, char line[SPOT_DECISION_STATE_MAX], struct spot_err *err);
int plan_state_write(const char *path, const char *line, struct spot_err *err);

/* --- spot-plan job --roofline: a profile of serving from a model's config and a row of a
 * catalogue --- */

struct plan_job_roofline {
    const char *model; /* config.json, or the directory that it lies in */
    const char *catalogue, *type, *dtype;
    uint64_t prompt_token, output_token, context; /* context 0: prompt and answer */
    uint64_t max_batch;
};

/* Write the job to `output` under `name`; prices come from the catalogue. */
int plan_job_roofline(const struct plan_job_roofline *options, const char *name,
                      struct spot_prov *prov, const char *output, struct spot_err *err);

/* --- where the members of a plan to serve go, what that moves, and when serving restarts --- */

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

#endif /* SPOT_PLAN_PLAN_COMMANDS_H */
