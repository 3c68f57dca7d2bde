/* SPDX-License-Identifier: MIT */
/* run_dist.h - the hazard of a change by its age: how long what is there stays, and what is away.
 *
 * The lengths of runs, periods with or without, have a distribution in stages: an age of 2^j ticks
 * and more is stage j, and in each stage a run ends with a probability of its own. That is a Markov
 * chain, which a dynamic program can go by.
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
        seen[2][SPOT_RUN_STAGES]; /* ticks that ended a run, all ticks */
    bool is_up;                   /* in the newest tick */
    size_t age;                   /* of its run, ticks; 0: none yet */
};
void spot_run_count_add(struct spot_run_count *count, bool is_up);

struct spot_run_dist {
    double end_prob[2][SPOT_RUN_STAGES]; /* that the next tick does not belong to this run */
};

/* Observed runs, with the runs of eight other zones, of other years (deadline/run_dist.c), as a
 * prior with the weight of four ends of each stage: the better guess for a job of days in one zone.
 */
void spot_run_dist_learn_zone(struct spot_run_dist *dist, const struct spot_run_count *count,
                              double tick_s);

/* The two-state chain whose P(spot is available), compared with `up` [n] after 1, 2, .. ticks from
 * now, is nearest in least squares: the runs implied by a forecast. */
void spot_run_dist_fit(struct spot_run_dist *dist, bool is_up, const double *up, size_t n);

/* Ends of runs as the chance `stays` [n] tells them that what is there is so after 1, 2, .. ticks
 * of its run; those of ages beyond are as at the end. Runs away stay as they are. */
void spot_run_dist_fit_stays(struct spot_run_dist *dist, const double *stays, size_t n);

/* The mean over the ticks of a run of its chance to end; is_up: of one that is there. */
double spot_run_dist_mean_end(const struct spot_run_dist *dist, bool is_up);

/* The stage of an age in ticks, 1.. */
size_t spot_run_stage(size_t age);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_RUN_DIST_H */
