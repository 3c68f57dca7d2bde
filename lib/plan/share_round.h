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

#include "model/share_demand.h"
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

enum spot_share_aim {
    SPOT_SHARE_AIM_COMPLETION, /* least mean completion time */
    SPOT_SHARE_AIM_MAX_MIN,    /* equal progress */
    SPOT_SHARE_AIM_MAKESPAN,   /* end of the last job */
    SPOT_SHARE_AIM_COST,       /* cost per step */
    SPOT_SHARE_AIMS
};

struct spot_share_terms {
    enum spot_share_aim aim;
    double round_s, switch_s, checkpoint_s;
    double hold_s; /* a switch must pay off within this; 0: ten rounds */
};

enum { SPOT_SHARE_NO_WAY = -1 };

struct spot_share_choice {
    ptrdiff_t *way; /* [n_job] index of the way, SPOT_SHARE_NO_WAY: it waits */
    double *value;  /* [n_way] */
    double *price;  /* [n_type] of a worker for the round, in value */
    double worth, bound;
    /* [n_job] jobs of two priorities: the probability that the workers on which it may not begin
     * are taken; 0: it waits for another reason. Else NULL */
    double *risk;
};

/* The ways of jobs->job[job[k]], k < n_job, on the available workers (count[type]): its scale, and
 * if that may change, all from scale_min to scale_max that have a speed. rate as in
 * spot_share_rates. Returns how many; the caller frees *way. */
size_t spot_share_ways(const struct spot_share_jobs *jobs, const size_t *job, size_t n_job,
                       const struct spot_share_cluster *cluster, const int64_t *count,
                       const struct spot_job_rates *throughput, const double *rate,
                       struct spot_share_way **way);

/* Ways of one job are adjacent, jobs ascending. Returns 0, or -1 with *err. */
int spot_share_round(const struct spot_share_problem *problem, const struct spot_share_way *way,
                     size_t n_way, const struct spot_share_terms *terms,
                     struct spot_share_choice *choice, struct spot_err *err);
void spot_share_choice_release(struct spot_share_choice *choice);

/* The same for jobs of two priorities. Those of high priority keep their workers to their end, and
 * begin on all others, also on those of spot jobs; which of these give way is the cheapest choice
 * (spot_share_victims). A spot job keeps its workers otherwise, and begins on idle ones where the
 * probability that they are taken before its end is low (demand, NULL: not known). No bound is
 * proven (NAN). */
int spot_share_classes(const struct spot_share_problem *problem, const struct spot_share_way *way,
                       size_t n_way, const struct spot_share_terms *terms,
                       const struct spot_share_demand *demand, double now_s,
                       struct spot_share_choice *choice, struct spot_err *err);

/* Fills leaves[n]: the jobs with the least sum of costs (>= 0) whose workers are together at least
 * `need`; all, if they are fewer. */
void spot_share_victims(const int64_t *workers, const double *cost, size_t n, int64_t need,
                        bool *leaves);

/* The choice itself: maximises the sum of value[n_way] within the workers of each type. */
void spot_share_market(const struct spot_share_way *way, size_t n_way, size_t n_job,
                       const int64_t *count, size_t n_type, struct spot_share_choice *choice);

/* --- the decision (decision.h, kind share): the rows are by aim --- */

struct spot_share_rule {
    const struct spot_share_jobs *jobs;
    const struct spot_share_cluster *cluster;
    const struct spot_job_rates *speeds; /* NULL: none but rate */
    const double *rate;                  /* [jobs->n][cluster->n], of spot_share_rates */
    /* without the aim, which is that of the row in the table */
    struct spot_share_terms terms;
};

/* The state of a job. */
struct spot_share_job_now {
    bool is_there; /* it has arrived, and has steps left */
    double left, unsaved;
    double isolated_s; /* as in spot_share_want; < 0: computed from the completed work and the
                          current isolated part */
    int on;            /* its current type, -1: none */
    int64_t on_scale;
};

struct spot_share_seen {
    const struct spot_share_job_now *job; /* [jobs->n] */
    const int64_t *count;                 /* [cluster->n] available workers */
    /* of jobs of high priority; NULL: not known. Until the next observation */
    const struct spot_share_demand *demand;
};

/* The present jobs, as a problem. */
struct spot_share_view {
    struct spot_share_problem problem;
    size_t *job; /* [problem.n_job] of the rule's jobs */
    struct spot_share_want *want;
    struct spot_share_machines *type;
    double *rate;
};

void spot_share_view_init(struct spot_share_view *view, const struct spot_share_rule *rule,
                          const struct spot_share_seen *seen, double time_s);
void spot_share_view_release(struct spot_share_view *view);

/* The decision. */
struct spot_share_plan {
    struct spot_share_view view;
    struct spot_share_way *way; /* jobs as in view */
    size_t n_way;
    struct spot_share_choice choice;
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SHARE_ROUND_H */
