/* SPDX-License-Identifier: MIT */
/* run_dist.h - the distribution of the lengths of runs, that is periods with or without spot: the
 * probability that a run ends depends on its age in stages. Ages of 2^j ticks and more are stage j,
 * and each stage has its own probability of an end. The result is a Markov chain, which a dynamic
 * program can use.
 */
#ifndef SPOT_PLAN_RUN_DIST_H
#define SPOT_PLAN_RUN_DIST_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_RUN_STAGES = 7 };

/* Observed runs: [0] without spot, [1] with spot. */
struct spot_run_count {
    double ended[2][SPOT_RUN_STAGES],
        /* number of ticks after which a run ended, and of all ticks, by stage */
        seen[2][SPOT_RUN_STAGES];
    bool is_up; /* spot was available in the newest tick */
    size_t age; /* age of the current run in ticks; 0: no tick was observed */
};
void spot_run_count_add(struct spot_run_count *count, bool is_up);

struct spot_run_dist {
    double end_prob[2][SPOT_RUN_STAGES]; /* probability that the run ends before the next tick */
};

/* Learn from observed runs, with a prior from the runs of eight zones in other years
 * (deadline/run_dist.c), whose weight is four ends of each stage: the better estimate for a job of
 * days in one zone. */
void spot_run_dist_learn_zone(struct spot_run_dist *dist, const struct spot_run_count *count,
                              double tick_s);

/* Fit the two-state chain whose probability of spot after 1, 2, .. ticks is nearest to `up` [n] in
 * least squares: the runs implied by a forecast. */
void spot_run_dist_fit(struct spot_run_dist *dist, bool is_up, const double *up, size_t n);

/* Set the ends of runs with spot from stays[n], the probability that a run lasts 1, 2, .. ticks;
 * older ages get the last value. Runs without spot are unchanged. */
void spot_run_dist_fit_stays(struct spot_run_dist *dist, const double *stays, size_t n);

/* The mean probability of an end over the ticks of a run; is_up: a run with spot. */
double spot_run_dist_mean_end(const struct spot_run_dist *dist, bool is_up);

/* The stage of an age in ticks, 1.. */
size_t spot_run_stage(size_t age);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_RUN_DIST_H */
