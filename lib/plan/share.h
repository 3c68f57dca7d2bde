/* SPDX-License-Identifier: MIT */
/* share.h - many jobs on one cluster of several types: the problem at one time, and the shares of
 * wall time that end it soonest.
 *
 * x[job][type] is the share of wall time that a job spends on a type: x >= 0, sum over types <= 1,
 * sum over jobs of scale * x <= workers of the type. A job makes rate * x steps per second. Jobs
 * that are alike (rates, scale, weight, work left) get equal shares, so that the order of jobs does
 * not matter. Which job runs where in the next round: share_round.h.
 */
#ifndef SPOT_PLAN_SHARE_H
#define SPOT_PLAN_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/share_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_share_want {
    double weight, left; /* steps left, > 0 */
    double age_s;        /* since it arrived */
    double isolated_s;   /* time that its work so far would have taken on its isolated part */
    double slo_left_s;   /* time left until the SLO; INFINITY: none */
    int64_t scale;
    int on;           /* its current type, -1: none */
    int64_t on_scale; /* its current number of workers */
    double unsaved;   /* steps that would be lost if it were stopped now */
    enum spot_share_priority priority;
};

struct spot_share_machines {
    int64_t count;
    double usd_per_h, hazard_per_h; /* of one worker */
};

/* Jobs by arrival. */
struct spot_share_problem {
    size_t n_job, n_type;
    const struct spot_share_want *want; /* [n_job] */
    /* [n_job][n_type] steps/s, 0: the job cannot run there */
    const double *rate;
    const struct spot_share_machines *type; /* [n_type] */
};

struct spot_share_answer {
    double *x;        /* [n_job][n_type] */
    double objective; /* seconds; for other programs the value that they define */
    double bound;  /* no allocation has a better objective: proven by the prices; NAN: not proven */
    double *price; /* [n_type]: gain of the objective per additional worker; NAN if unknown */
    bool is_slo_dropped;
};

/* Allocates x, and prices that are unknown. Returns 0, or -1 with *err (SPOT_EINFEASIBLE) if a job
 * has no type. */
int spot_share_answer_init(const struct spot_share_problem *problem,
                           struct spot_share_answer *answer, struct spot_err *err);
void spot_share_answer_release(struct spot_share_answer *answer);

/* The least time until all are done. Returns 0, or -1 with *err: SPOT_EINFEASIBLE if a job has no
 * type, SPOT_ESYS if the solver fails. */
int spot_share_makespan(const struct spot_share_problem *problem, struct spot_share_answer *answer,
                        struct spot_err *err);

/* An equal part of every type for a job: x[n_type]; and steps/s of each job on it. */
void spot_share_isolated_part(const struct spot_share_problem *problem, size_t job, double *x);
void spot_share_isolated_rate(const struct spot_share_problem *problem, double *per_s);

/* steps/s of a job with the shares x[n_type]. */
double spot_share_rate(const struct spot_share_problem *problem, size_t job, const double *x);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SHARE_H */
