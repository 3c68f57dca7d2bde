/* SPDX-License-Identifier: MIT */
/* share_state.h - the state of a shared cluster; private to share_*.c. */
#ifndef SPOT_SIM_SHARE_STATE_H
#define SPOT_SIM_SHARE_STATE_H

#include "common/rng.h"
#include "sim/python_random.h"
#include "sim/share_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct share_job {
    bool is_active, is_over;
    double left;       /* steps */
    double isolated_s; /* time that the steps so far would have taken alone on an equal part */
    double isolated_per_s, counted_left; /* state of the last update */
    double end_s, start_s;               /* when it ended; when it first ran */
    int failures;
    /* its lease: */
    int type;                /* -1: none */
    int64_t scale, *worker;  /* [scale] */
    double lease_s, ready_s; /* since when, and since when it makes steps */
    double checkpoint_s;     /* the first of the lease */
    double lease_left, rate;
    size_t span, n_span; /* of the outcome */
};

/* What is to run in the next round, in the order of selection. */
struct share_pick {
    size_t job;
    int type;
    int64_t scale;
    double rate;
};

struct share_state {
    const struct spot_share_play *play;
    enum spot_share_policy policy;
    struct spot_share_outcome *outcome;
    size_t n_job, n_type, n_arrived, n_over;
    struct share_job *job;
    double now_s, round_start_s, round_end_s;
    bool has_round, must_solve;
    /* priorities as released, all [n_job][n_type] */
    double *x, *time_s, *deficit_s, *priority;
    bool *has_x;                         /* [n_job] */
    double *worker_time_s, last_reset_s; /* [n_type] */
    struct spot_python_random shuffler;
    int64_t *count; /* [n_type] currently available workers */
    struct share_pick *pick;
    size_t n_pick;
    /* hadar, whose jobs may use several types: workers of each that it picked, and that a lease
     * has; its worker[] is by type. NULL for the others. [n_job][n_type] */
    int64_t *mix, *held;
    double busy_s, there_s; /* worker-seconds */
};

/* Active jobs as a problem; job[] has their indices. */
struct share_view {
    struct spot_share_problem problem;
    size_t *job;
    struct spot_share_want *want;
    struct spot_share_machines *type;
    double *rate;
};
void share_view_init(struct share_view *view, const struct share_state *s);
void share_view_release(struct share_view *view);

/* Fill s->pick. */
int share_pick_by_priority(struct share_state *s, struct spot_err *err); /* share_priority.c */
int share_pick_ours(struct share_state *s, struct spot_err *err);        /* share_ours.c */
void share_pick_hadar(struct share_state *s);                            /* share_mixed.c */

/* Steps of a job since its last checkpoint at time_s, which it would lose. share_lease.c */
double share_unsaved(const struct share_state *s, const struct share_job *job, double time_s);
/* Extend its spans to time_s. */
void share_lease_until(struct share_state *s, const struct share_job *job, double time_s);
void share_lease_end(struct share_state *s, size_t i, double time_s);
/* Workers of a type in the lease of a job. */
int64_t share_lease_held(const struct share_state *s, size_t i, size_t type);
/* Give the picked jobs workers: continuing ones keep theirs. */
void share_lease_all(struct share_state *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SHARE_STATE_H */
