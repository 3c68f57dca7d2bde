/* SPDX-License-Identifier: MIT */
/* decision.h - the interface of decisions, common to spot-plan (one decision), spot-replay (one per
 * tick) and live loops (one per change). A decider observes the current situation and returns a
 * decision. It has no clock, does no I/O and knows nothing of the future; the decision is a
 * function of its rule, its state and the last observation. The state records the decisions assumed
 * to be carried out; it can be saved and loaded.
 */
#ifndef SPOT_PLAN_DECISION_H
#define SPOT_PLAN_DECISION_H

#include "common/err.h"
#include "model/forecast_doc.h"
#include "model/grid.h"
#include "plan/deadline.h"
#include "plan/fleet_hold.h"
#include "plan/serve_decide.h"
#include "plan/train_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* plan/share_round.h */
struct spot_share_rule;
struct spot_share_seen;
struct spot_share_plan;

/* The constant part of the question, by kind. */
struct spot_rule {
    const struct spot_train_question *train;
    const struct spot_deadline_rule *deadline;
    const struct spot_hold_rule *fleet;
    const struct spot_serve_rule *serve;
    const struct spot_share_rule *share;
};

/* An observation. */
struct spot_seen {
    double time_s;
    /* train */
    /* computed from the observations so far; NULL: nothing changes */
    const struct spot_forecast *forecast;
    int there;            /* instances; -1: those of the forecast */
    const int *announced; /* [n_announced], < 0 lost: changes of the coming intervals, if known */
    int n_announced;
    /* The running grid, if it is known; D 0: assume that the last decision was carried out. */
    struct spot_grid runs;
    double pending_s; /* remaining time of the change to it */
    /* deadline: a tick, also of those before the job */
    const bool *has_spot;         /* [n_place] */
    const double *spot_usd_per_h; /* [n_place] now; NULL: as before */
    /* state of the job, without has_spot; NULL: the job has not begun */
    const struct spot_market_now *now;
    const struct spot_hold_now *fleet; /* running replicas; availability is in the forecast */
    const struct spot_serve_seen *serve;
    const struct spot_share_seen *share;
};

struct spot_action {
    struct spot_grid grid;        /* train; D 0: suspend */
    struct spot_market_step step; /* deadline */
    struct spot_hold_step fleet;
    struct spot_serve_offer serve;
    /* owned by the decider, valid until its next observation */
    const struct spot_share_plan *share;
};

/* Further results of a decision, each may be NULL: the document and its reasons, which the caller
 * releases.
 */
struct spot_told {
    struct spot_train_plan *train;
    double (*step_usd)[3]; /* deadline: [n_place], as of spot_market_weigh */
    struct spot_serve_plan *serve;
};

struct spot_decider;

struct spot_policy {
    const char *kind, *name, *summary;
    struct spot_decider *(*open)(const struct spot_rule *rule);
    int (*observe)(struct spot_decider *decider, const struct spot_seen *seen,
                   struct spot_err *err);
    int (*decide)(struct spot_decider *decider, struct spot_action *action,
                  const struct spot_told *told, struct spot_err *err);
    /* Save and load the state as one line of at most SPOT_DECISION_STATE_MAX - 1 bytes; "" is the
     * initial state. load returns 0, or -1 with *err (SPOT_EDATA). NULL: the decider has no
     * state. */
    void (*save)(const struct spot_decider *decider, char *line);
    int (*restore)(struct spot_decider *decider, const char *line, struct spot_err *err);
    void (*close)(struct spot_decider *decider);
};

enum { SPOT_DECISION_STATE_MAX = 384 };

extern const struct spot_policy spot_policy_train, spot_policy_deadline, spot_policy_fleet,
    spot_policy_serve;
extern const struct spot_policy
    spot_policy_share[]; /* by enum spot_share_aim; ends with a NULL name */

/* Parse --policy: the row of that kind and name, or NULL with *err (SPOT_EUSAGE), which lists the
 * valid names. */
const struct spot_policy *spot_policy_find(const char *kind, const char *name,
                                           struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DECISION_H */
