/* SPDX-License-Identifier: MIT */
/* plan_commands.h - shared by the commands of spot-plan. */
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

/* --- the current grid, and the line that a decision keeps between calls: --current, --state --- */

#define PLAN_ROW_CURRENT(v)                                        \
    {                                                              \
        SPOT_OPT_STRING, 0, "current", v, "grid",                  \
            "what runs now (default: --state's, or nothing)", 0, 0 \
    }

/* Read the saved line; an absent file means the first call. path NULL: nothing is read or written.
 */
int plan_state_read(const char *path, char line[SPOT_DECISION_STATE_MAX], struct spot_err *err);
int plan_state_write(const char *path, const char *line, struct spot_err *err);

/* --- spot-plan job --roofline: a serving profile from a model's config and a row of a catalogue
 * --- */

struct plan_job_roofline {
    const char *model; /* config.json, or the directory that contains it */
    const char *catalogue, *type, *dtype;
    uint64_t prompt_token, output_token, context; /* context 0: the sum of prompt and answer */
    uint64_t max_batch;
};

/* Write the job to `output` under `name`; prices come from the catalogue. */
int plan_job_roofline(const struct plan_job_roofline *options, const char *name,
                      struct spot_prov *prov, const char *output, struct spot_err *err);

/* --- where the members of a serving plan go, what that moves, and when serving restarts --- */

/* Zero it first, except the cap. */
struct serve_places {
    /* memory by which a node may grow during the moves; INFINITY: no limit */
    double memory_cap_byte;
    struct spot_layout from;     /* the running layout: who holds what, including caches */
    struct spot_cluster cluster; /* the nodes on which it can run */
    struct spot_plan_place *place;
    size_t n_place;
    double makespan_s, restart_s; /* for the last grid placed */
    int64_t moved_byte, bound_byte;
};

int serve_places_load(struct serve_places *s, const char *layout, const char *cluster,
                      struct spot_prov *prov, struct spot_err *err);

/* Place the grid of a plan with the planner of spot-migrate plan, with moves in the order in which
 * serving restarts soonest: the first pass of the plan's batch finds each layer present when it
 * reaches it. That pass computes a token if the layout has caches, else prompts. Returns 0, or -1
 * with *err: SPOT_EINFEASIBLE if there are fewer slots than members, SPOT_EDATA if a node would get
 * two, which a plan cannot express. */
int serve_places_make(struct serve_places *s, const struct spot_job_serve *serve,
                      const struct spot_plan_doc *doc, struct spot_err *err);
void serve_places_release(struct serve_places *s);

#endif /* SPOT_PLAN_PLAN_COMMANDS_H */
