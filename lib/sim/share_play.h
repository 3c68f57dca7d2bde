/* SPDX-License-Identifier: MIT */
/* share_play.h - the interface of policies in share_sim.h, and the state of the cluster that they
 * see. */
#ifndef SPOT_SIM_SHARE_PLAY_H
#define SPOT_SIM_SHARE_PLAY_H

#include "plan/share_round.h"
#include "sim/share_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_share_run {
    bool is_active, is_over;
    double left; /* steps */
    /* time that the steps so far would have taken alone on an equal part of the cluster */
    double isolated_s;
    /* at the last update of isolated_s: steps/s on the equal part; steps left */
    double isolated_per_s, counted_left;
    double end_s, start_s; /* when it ended; when it first ran */
    int failures;
    double held_s; /* time with workers */
    /* its lease: */
    int type;                /* -1: none */
    int64_t scale, *worker;  /* [scale] */
    double lease_s, ready_s; /* start of the lease; time from which it makes steps */
    double checkpoint_s;     /* time of the first checkpoint of the lease */
    double lease_left, rate;
    size_t step, n_step; /* its steps of this round in the outcome */
};

/* The jobs to run in the next round, in the order of selection. */
struct spot_share_pick {
    size_t job;
    int type;
    int64_t scale;
    double rate;
};

struct spot_share_state {
    const struct spot_share_play *play;
    const struct spot_share_player *player;
    void *own; /* state of the policy */
    struct spot_share_outcome *outcome;
    size_t n_job, n_type, n_arrived, n_over;
    struct spot_share_run *job;
    double now_s, round_start_s, round_end_s;
    double until_s;             /* end of this round, exact */
    bool has_round, must_solve; /* jobs or workers changed since a player cleared it */
    int64_t *count;             /* [n_type] currently available workers */
    struct spot_share_pick *pick;
    size_t n_pick;
    /* For policies whose jobs may use several types: workers of each type that the policy picked,
     * and that a lease holds; worker[] is by type. NULL for the others. [n_job][n_type] */
    int64_t *mix, *held;
    double busy_s, there_s; /* worker-seconds */
    /* the same until the last arrival */
    double busy_open_s, there_open_s;
    struct spot_class_demand *demand; /* NULL: not used yet */
};

struct spot_policy; /* plan/decision.h */

struct spot_share_player {
    const char *name, *about;
    int (*pick)(struct spot_share_state *s, struct spot_err *err); /* fill s->pick */
    const struct spot_policy *policy; /* ours: the decision; NULL for others */
    int kind;                         /* number of the policy, for its own use */
    bool is_mixed;
    void (*open)(struct spot_share_state *s); /* may be NULL, like the two below */
    void (*close)(struct spot_share_state *s);
    /* Time that a job had workers of a type in this round. */
    void (*had)(struct spot_share_state *s, size_t job, size_t type, double held_s);
};

extern const struct spot_share_player spot_share_players[]; /* ours; ends with a NULL name */

/* The forecast of workers wanted by jobs of high priority, from those seen so far; NULL: nothing is
 * known, or jobs have no priorities. */
const struct spot_share_demand *spot_share_demand_now(struct spot_share_state *s);

/* Active jobs as a problem. */
struct spot_share_rule spot_share_rule_of(const struct spot_share_state *s);
void spot_share_view_of(const struct spot_share_state *s, struct spot_share_view *view);
/* The state of each job, [n_job]; freed by the caller. */
struct spot_share_job_now *spot_share_jobs_now(const struct spot_share_state *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SHARE_PLAY_H */
