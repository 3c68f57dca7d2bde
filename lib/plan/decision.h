/* SPDX-License-Identifier: MIT */
/* decision.h - one decision, whoever asks for it: spot-plan once, spot-replay at every tick, a live
 * loop when something changed.
 *
 * A decider observes what is there and decides what to do. It has no clock, does no I/O and is told
 * nothing of later; what it decides is a function of its rule, of its state and of what it observed
 * last. The state is what it assumes to have been carried out; it can be saved and read.
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

/* Everything of the question that observations do not tell: that of the kind. */
struct spot_rule {
    const struct spot_train_question *train;
    const struct spot_deadline_rule *deadline;
    const struct spot_hold_rule *fleet;
    const struct spot_serve_rule *serve;
    const struct spot_share_rule *share;
};

/* What is known at a time. */
struct spot_seen {
    double time_s;
    /* train */
    const struct spot_forecast *forecast; /* made of what was seen so far; NULL: nothing changes */
    int there;                            /* instances; -1: those of the forecast */
    const int *announced; /* [n_announced], < 0 lost: changes of the coming intervals, if known */
    int n_announced;
    /* What runs, where it is known better than what was decided; D 0: it is not. */
    struct spot_grid runs;
    double pending_s; /* of a change to it, still to be waited for */
    /* deadline: a tick, also of those before the job */
    const bool *has_spot;              /* [n_place] */
    const double *spot_usd_per_h;      /* [n_place] now; NULL: as before */
    const struct spot_market_now *now; /* of the job, without what spot is there; NULL: before it */
    const struct spot_hold_now *fleet; /* what runs; what can be had is the forecast's */
    const struct spot_serve_seen *serve;
    const struct spot_share_seen *share;
};

struct spot_action {
    struct spot_grid grid;        /* train; D 0: suspend */
    struct spot_market_step step; /* deadline */
    struct spot_hold_step fleet;
    struct spot_serve_offer serve;
    const struct spot_share_plan *share; /* the decider's, until it observes anew */
};

/* What else a decision tells, unless NULL: the document and its reasons, the caller's to release.
 */
struct spot_told {
    struct spot_train_plan *train;
    double (*step_usd)[3]; /* deadline: [n_place], as of struct spot_market_table */
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
    /* One line of text of at most SPOT_DECISION_STATE_MAX - 1 bytes; "" is what a decider begins
     * with. Returns 0, or -1 with *err (SPOT_EDATA). NULL: what was observed is all of it. */
    void (*save)(const struct spot_decider *decider, char *line);
    int (*restore)(struct spot_decider *decider, const char *line, struct spot_err *err);
    void (*close)(struct spot_decider *decider);
};

enum { SPOT_DECISION_STATE_MAX = 384 };

extern const struct spot_policy spot_policy_train, spot_policy_deadline, spot_policy_fleet,
    spot_policy_serve;
extern const struct spot_policy
    spot_policy_share[]; /* by enum spot_share_aim; ends with a NULL name */

/* The one parser of --policy: the row of that kind and name, or NULL with *err (SPOT_EUSAGE), which
 * names those there are. */
const struct spot_policy *spot_policy_find(const char *kind, const char *name,
                                           struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DECISION_H */
