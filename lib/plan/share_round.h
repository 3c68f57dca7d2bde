/* SPDX-License-Identifier: MIT */
/* share_round.h - our policy: which job runs where in the next scheduling round.
 *
 * Each way to run a job (a type, a number of workers) has a value for the round, less the cost of
 * starting there and of spot losses. The choice is a generalised assignment: maximum value with at
 * most one way for each job and the available workers. Prices of workers, one for each type, are
 * found by an auction among jobs; they bound the value of any choice, and explain why a job waits.
 */
#ifndef SPOT_PLAN_SHARE_ROUND_H
#define SPOT_PLAN_SHARE_ROUND_H

#include "model/share_doc.h"
#include "plan/share.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A way to run a job. */
struct spot_share_way {
    size_t job, type;
    int64_t scale;
    double rate; /* steps/s */
};

struct spot_share_terms {
    enum spot_share_policy aim; /* one of ours */
    double round_s, switch_s, checkpoint_s;
    double hold_s; /* a switch must pay off within this; 0: ten rounds */
};

enum { SPOT_SHARE_NO_WAY = -1 };

struct spot_share_choice {
    ptrdiff_t *way; /* [n_job] index of the way, SPOT_SHARE_NO_WAY: it waits */
    double *value;  /* [n_way] */
    double *price;  /* [n_type] of a worker for the round, in value */
    double worth, bound;
};

/* The ways of jobs->job[job[k]], k < n_job, on the available workers (count[type]): its scale, and
 * if that may change, from scale_min to scale_max in powers of two. rate as in spot_share_rates.
 * Returns how many; *way is the caller's to free. */
size_t spot_share_ways(const struct spot_share_jobs *jobs, const size_t *job, size_t n_job,
                       const struct spot_share_cluster *cluster, const int64_t *count,
                       const struct spot_job_rates *throughput, const double *rate,
                       struct spot_share_way **way);

/* Ways of one job are adjacent, jobs ascending. Returns 0, or -1 with *err. */
int spot_share_round(const struct spot_share_problem *problem, const struct spot_share_way *way,
                     size_t n_way, const struct spot_share_terms *terms,
                     struct spot_share_choice *choice, struct spot_err *err);
void spot_share_choice_release(struct spot_share_choice *choice);

/* The round that follows shares x: maximises x, and running jobs stay where that is equally
 * good. */
void spot_share_follow(const struct spot_share_problem *problem, const double *x,
                       const struct spot_share_way *way, size_t n_way,
                       struct spot_share_choice *choice);

/* The choice itself: maximises the sum of value[n_way] within the workers of each type. */
void spot_share_market(const struct spot_share_way *way, size_t n_way, size_t n_job,
                       const int64_t *count, size_t n_type, struct spot_share_choice *choice);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SHARE_ROUND_H */
