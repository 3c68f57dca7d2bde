/* SPDX-License-Identifier: MIT */
/* liveput_dp.h - the optimiser: a stochastic dynamic program over what may happen to the count.
 *
 *   V(c, n, g) = E over (lost, gained) of [ r(n, g, lost -> g') + V(c', n', g') ],
 *   n' = n - lost + gained, c the context of the chain of counts (count_chain.h), c' the next
 *   r = throughput(g') * (T - C)   where C is the expected cost of the change (cost_table.h),
 *                                  negative where the migration outlasts the interval.
 * With a notice the grid g' is chosen after the change is known (max inside the expectation);
 * without, before it (max outside), and what does not fit is cut to fewer pipelines. Where who
 * goes is known at the notice (sees_victims) the maximum stands inside the expectation over
 * how many pipelines survive, too:
 *   V(c, n, g) = E over (lost, gained) of E over M of max over g' of [ throughput(g')
 *                (T - E[C | M]) + V(c', n', g') ].
 * r is linear in C, so where the maximum stands outside of who goes its mean is all that counts.
 *
 * V is the value over an unending future, relative to its mean (relative value iteration), so that
 * no horizon cuts it off. It is solved for the chain of counts in use and kept; later solves start
 * from it. Symbols: T interval, n instances, g grid, C seconds, r and V samples.
 */
#ifndef SPOT_PLAN_LIVEPUT_DP_H
#define SPOT_PLAN_LIVEPUT_DP_H

#include <stdbool.h>

#include "plan/cost_table.h"
#include "plan/count_chain.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_liveput_dp {
    struct spot_cost_table *table; /* borrowed */
    double interval_s;
    bool has_notice;
    bool sees_victims; /* with a notice: what survives is known as well; set after init */
    bool *is_shut;     /* [(n_max + 1) * n_grid] by rank: never to be run on n instances; NULL:
                          all may; set after init, freed with the rest; needs has_notice */
    bool is_finite;    /* values are sums over the sweeps so far, not relative */
    int n_low, n_max, n_grid; /* counts outside n_low..n_max are taken for the nearest inside */
    int n_context;            /* 1: the chain's law is that of context 0 in all of them */
    int *by_size;             /* [n_grid] grids in order of D * P, then of number */
    int *rank;                /* [n_grid] the inverse */
    int *n_fit;               /* [n_max + 1] grids of up to n instances: a prefix of by_size */
    double *value;            /* [(n_max + 1) * (n_grid + 1)] by rank; the last: suspended */
    double *next;             /* the same, being made */
    int lost_max;             /* of the chain's changes, the largest that may be a loss */
    struct spot_liveput_gain **gain; /* [(n_max - n_low + 1) * (n_grid + 1) * (lost_max + 1)] */
    int *clip; /* [(n_max + 1) * n_grid] rank of what by_size[i] is cut to; n_grid: none */
};

/* r(n, g, lost -> .) by rank, for each thing that may become known of who is lost before the
 * grid is chosen: one, the mean, or the number of pipelines that survive (cost_table.h). */
struct spot_liveput_gain {
    int n;        /* outcomes */
    double *prob; /* [n] */
    double *of;   /* [n * (n_grid + 1)] samples */
};

/* A choice and what it promises. */
struct spot_liveput_choice {
    int grid;       /* or SPOT_GRID_NONE */
    double samples; /* of the next interval, plus the value of what follows relative to the mean */
};

void spot_liveput_dp_init(struct spot_liveput_dp *dp, struct spot_cost_table *table,
                          double interval_s, bool has_notice);
void spot_liveput_dp_release(struct spot_liveput_dp *dp);

/* Iterate `sweeps` times under the chain, or until the values settle to 1e-6 of an interval. */
int spot_liveput_dp_solve(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                          int sweeps);

/* The values of exactly `left` >= 0 more intervals with nothing after them: the end of a run. A
 * later solve goes on from these. */
void spot_liveput_dp_finish(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                            int left);

/* Values of running each rank on n instances in a context, [n_grid + 1]; borrowed. */
const double *spot_liveput_dp_value(const struct spot_liveput_dp *dp, int context, int n);

/* What is known when a grid is chosen: the change of this interval, and those of as many further
 * intervals as the notice covers. */
struct spot_liveput_view {
    int n, from;          /* instances before, and what they ran (or SPOT_GRID_NONE) */
    double carry_s;       /* of an unfinished migration */
    int context;          /* of the chain, before */
    int n_known;          /* >= 1 */
    const int *change;    /* [n_known], < 0 lost, > 0 gained; the first happens now */
    const double *cost_s; /* [table->n_grid] of the first change, where it is known who goes; NULL:
                             the mean */
};

/* Maximise over grids for all known intervals, then the value. What is left of a migration passes
 * from interval to interval by the rules of parcae.h; beyond the known ones it is charged at the
 * rate of its grid. With sees_victims only the first known interval counts as one in this. */
struct spot_liveput_choice spot_liveput_dp_after(struct spot_liveput_dp *dp,
                                                 const struct spot_liveput_view *view);

/* Samples of choosing each grid as in _after, one change known: score[g] for every grid that fits,
 * -INFINITY for the rest; score[n_grid] is to suspend. */
void spot_liveput_dp_scores(struct spot_liveput_dp *dp, const struct spot_liveput_view *view,
                            double *score);

/* The change is not known; `step` is its law, `context` that before it. */
struct spot_liveput_choice spot_liveput_dp_before(struct spot_liveput_dp *dp, int n, int from,
                                                  double carry_s, int context,
                                                  const struct spot_count_step *step);

/* The part of the above in liveput_known.c: score[r], by rank, [n_grid + 1], of choosing rank r in
 * the first known interval, value[] after the last; only the best is exact where more than one is
 * known. */
void spot_liveput_known(const struct spot_liveput_dp *dp, const struct spot_liveput_view *view,
                        const double *value, double *score);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_LIVEPUT_DP_H */
