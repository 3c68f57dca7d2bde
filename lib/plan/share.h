/* SPDX-License-Identifier: MIT */
/* share.h - many jobs on one cluster of several types: allocates shares of types to jobs, and
 * decides where each job runs in the next scheduling round.
 *
 * x[job][type] is the share of wall time that a job spends on a type: x >= 0, sum over types <= 1,
 * sum over jobs of scale * x <= workers of the type. A job makes rate * x steps per second.
 * Policies are those of Gavel (Narayanan et al., OSDI 2020) as released, and our own. Jobs that are
 * alike (rates, scale, weight, work left) get equal shares, so that the order of jobs does not
 * matter.
 */
#ifndef SPOT_PLAN_SHARE_H
#define SPOT_PLAN_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_share_policy {
    SPOT_SHARE_SPOT,          /* ours: minimum mean completion time, or another objective */
    SPOT_SHARE_SPOT_MAX_MIN,  /* ours, equal progress */
    SPOT_SHARE_SPOT_MAKESPAN, /* ours, end of the last job */
    SPOT_SHARE_SPOT_COST,     /* ours, cost per step */
    SPOT_SHARE_MAX_MIN,       /* maximises the minimum share of wall time, whatever the speeds */
    SPOT_SHARE_MAX_MIN_PERF, /* the minimum speed relative to the proportional allocation's (LAS) */
    SPOT_SHARE_WATER_FILLING,  /* the same, then the second smallest, and so on */
    SPOT_SHARE_FTF,            /* finish-time fairness: largest ratio to the time when isolated */
    SPOT_SHARE_MAKESPAN,       /* time until all are done */
    SPOT_SHARE_SUM_THROUGHPUT, /* sum of steps per second */
    SPOT_SHARE_COST,           /* sum of steps per second and usd per hour */
    SPOT_SHARE_COST_SLO,       /* the same; each job meets its SLO, if all can */
    SPOT_SHARE_FIFO,           /* by arrival, each where most workers are free */
    SPOT_SHARE_FIFO_PERF,      /* by arrival, each where it is fastest among what is free */
    SPOT_SHARE_ISOLATED,       /* an equal part of every type for each */
    SPOT_SHARE_PROPORTIONAL,   /* the same, as wall time */
    SPOT_SHARE_HADAR,          /* prices that rise with use; tasks of a job may be on two types */
    SPOT_SHARE_POLICIES
};

extern const char *const spot_share_policy_name[];  /* "max-min-perf" */
extern const char *const spot_share_policy_about[]; /* a line for --policy list */

/* By name. Returns 0 or -1. */
int spot_share_policy_find(const char *name, enum spot_share_policy *policy);
static inline bool spot_share_is_ours(enum spot_share_policy policy)
{
    return policy <= SPOT_SHARE_SPOT_COST;
}

struct spot_share_want {
    double weight, left; /* steps left, > 0 */
    double age_s;        /* since it arrived */
    double isolated_s;   /* time that its work so far would have taken on its isolated part */
    double slo_left_s;   /* INFINITY: none */
    int64_t scale;
    int on;           /* its current type, -1: none */
    int64_t on_scale; /* its current number of workers */
    double unsaved;   /* steps that would be lost if it were stopped now */
};

struct spot_share_machines {
    int64_t count;
    double usd_per_h, hazard_per_h; /* of one worker */
};

/* Jobs by arrival. */
struct spot_share_problem {
    size_t n_job, n_type;
    const struct spot_share_want *want;     /* [n_job] */
    const double *rate;                     /* [n_job][n_type] steps/s, 0: cannot */
    const struct spot_share_machines *type; /* [n_type] */
};

struct spot_share_answer {
    double *x;        /* [n_job][n_type] */
    double objective; /* of the policy: see spot_share_policy_about */
    double bound;  /* no allocation has a better objective: proven by the prices; NAN: not proven */
    double *price; /* [n_type]: gain of the objective per additional worker; NAN if unknown */
    bool is_slo_dropped;
};

/* Returns 0, or -1 with *err: SPOT_EINFEASIBLE if a job has no type, SPOT_ESYS if the solver fails.
 * Not for ours and hadar, which have scheduling rounds (spot_share_market) instead of shares. */
int spot_share_allocate(const struct spot_share_problem *problem, enum spot_share_policy policy,
                        struct spot_share_answer *answer, struct spot_err *err);
void spot_share_answer_release(struct spot_share_answer *answer);

/* steps/s of each job on an equal part of every type, and on the proportional part. */
void spot_share_isolated_rate(const struct spot_share_problem *problem, double *per_s);
void spot_share_proportional_rate(const struct spot_share_problem *problem, double *per_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SHARE_H */
