/* SPDX-License-Identifier: MIT */
/* liveput_dp.h - the optimiser: a stochastic dynamic program over future instance counts.
 *
 * V(c, n, g, u) = E over (lost, gained) of max over g' of [ r + V(c', n', g', u') ],
 *
 * where n' = n - lost + gained, c is the context of the chain of counts (count_chain.h), c' the
 * next one, u the seconds left of an unfinished migration, and by the published rules
 *
 * r = throughput(g') * max(0, T - S), u' = max(0, S - T), S the seconds of the change:
 *
 * S = C if u = 0; C + restart(g') if a change meets an unfinished one; u if C = 0.
 *
 * C is the expected cost of the change (cost_table.h). With a notice the grid g' is chosen after
 * the change is known (the maximum is inside the expectation, as written). Without one it is chosen
 * before (the maximum is outside), and a grid that does not fit is reduced to fewer pipelines. If
 * losses have a notice and gains have none, the maximum is inside for each loss and outside for the
 * rest. If the notice names the leaving instances (sees_victims), the maximum is also inside the
 * expectation over M, the pipelines that survive, and C is E[C | M]. As long as no change outlasts
 * an interval r is linear in C, so only the mean of C matters if the victims are not known.
 *
 * V decreases in u, by at most the rate of g, and jumps at multiples of T (a migration that ends
 * with an interval leaves none). So u has nodes: node_per_span from just above k T to (k + 1) T, as
 * far as changes of a grid reach, but at most for 8 T. V is linear between two nodes, and decreases
 * at the rate of g beyond the last. If no change of a grid outlasts an interval there are no nodes;
 * then only a resumption from a suspension may outlast one.
 *
 * V is the value over an infinite future, stored for each c and n relative to being suspended. That
 * is sufficient, since no choice influences the counts, so choices only compare values of one c and
 * n. These relative values settle, while the absolute ones, which drift from count to count, would
 * take thousands of sweeps (relative value iteration). V is kept, and later solves start from it.
 * Symbols: T interval, n instances, g grid, C seconds, r and V samples. */
#ifndef SPOT_PLAN_LIVEPUT_DP_H
#define SPOT_PLAN_LIVEPUT_DP_H

#include <stdbool.h>

#include "model/count_chain.h"
#include "plan/cost_table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One context in all cases, or two; then context 1 lasts until the first change. */
enum { SPOT_LIVEPUT_TAIL_CONTEXTS = 2 };

struct spot_liveput_dp {
    struct spot_cost_table *table; /* borrowed */
    double interval_s;
    bool has_notice;
    bool sees_losses;  /* without a notice of gains: losses are known; set after init */
    bool sees_victims; /* with a notice: which pipelines survive is known as well; set after init */
    /* [(n_max + 1) * n_grid] by rank: not allowed on n instances; NULL: all are allowed; set after
     * init, freed with the rest; needs has_notice */
    bool *is_shut;
    bool is_finite;           /* values are totals of the sweeps so far, not relative */
    int n_low, n_max, n_grid; /* counts are clamped to n_low..n_max */
    int n_context;            /* the chain's; or 1: all are context 0; or TAIL_CONTEXTS */
    int *by_size;             /* [n_grid] grids ordered by D * P, then by number */
    int *rank;                /* [n_grid] the inverse */
    int *n_fit;               /* [n_max + 1] grids of up to n instances: a prefix of by_size */
    int node_per_span;        /* >= 2, 4 unless set after init; 0: no nodes */
    bool tries_all;           /* for tests: every sweep examines all targets; set after init */
    /* the state has neither victims nor unfinished migrations: costs are computed one by one; set
     * by a solve */
    bool is_lazy;
    bool asks;       /* the same for each outcome, if the state has victims; set by a solve */
    int n_node;      /* number of nodes of u: 0, then those of the spans; set by the first solve */
    double *node_s;  /* [n_node] u of each node; set with it */
    double *at_node; /* [n_node] scratch */
    double left_max_s; /* largest u of the changes seen so far */
    double *value; /* [n_context * (n_max - n_low + 1) * n_node * (n_grid + 1)] by rank; the last:
                      suspended, at the first node only */
    double *next;  /* the same for the next sweep */
    /* the values after the forecast, while `value` is that of a step of it */
    double *tail_value, *tail_next;
    int tail_context;
    int lost_max;                     /* largest loss among the chain's changes */
    struct spot_liveput_gain **gain;  /* made on demand, liveput_inner.h; [2 * (n_max - n_low + 1) *
                                         (n_grid + 1) * (lost_max + 1)] */
    struct spot_liveput_asked *asked; /* [n_asked] with `asks`: liveput_gain.c */
    size_t n_asked, asked_cap;
    struct spot_liveput_memo *memo; /* within a sweep: liveput_best.c */
    double *moved; /* [contexts * (n_max - n_low + 1)] the largest moves of values, summed */
    int era;       /* what was found before in a gain does not count any more */
    struct spot_liveput_search *search; /* liveput_search.c; with a notice, if neither victims nor
                                           unfinished migrations are in the state */
    struct spot_liveput_plain *plain;   /* liveput_plain.c */
    int *clip; /* [(n_max + 1) * n_grid] rank to which by_size[i] is reduced; n_grid: none */
    /* [n_grid] by rank: most samples in an interval that begins with a change to it; the same for a
     * change that moves state */
    double *most, *most_moved;
    /* [n_grid] by rank: number of stages; the next smaller grid with as many, or -1 */
    int *stages, *fewer;
};

/* A choice and its expected value. */
struct spot_liveput_choice {
    int grid;       /* or SPOT_GRID_NONE */
    double samples; /* of the next interval, plus the value of the future relative to the mean */
};

void spot_liveput_dp_init(struct spot_liveput_dp *dp, struct spot_cost_table *table,
                          double interval_s, bool has_notice);
void spot_liveput_dp_release(struct spot_liveput_dp *dp);

/* Iterate `sweeps` times under the chain, or until a sweep over all targets moves the values of
 * every context and count by amounts that differ by at most 1e-7 of what the fastest grid does in
 * an interval. Returns the number of sweeps. */
int spot_liveput_dp_solve(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                          int sweeps);

/* The values of exactly `left` >= 0 more intervals with nothing after them: the end of a run. A
 * later solve continues from these. */
void spot_liveput_dp_finish(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                            int left);

/* After a solve: `value` becomes that before step first + 1 of a forecast (train/horizon.h). After
 * the forecast come the previous values or, if it `ends`, nothing after step `last`. There is one
 * context, 0. _back() restores the previous values. The horizon must have the counts of the
 * program. */
struct spot_horizon;
void spot_liveput_dp_ahead(struct spot_liveput_dp *dp, const struct spot_horizon *horizon,
                           int first, int last, bool ends);
void spot_liveput_dp_back(struct spot_liveput_dp *dp);

/* Values of running each rank on n instances in a context, [n_node * (n_grid + 1)]; borrowed. After
 * a solve or _finish. */
const double *spot_liveput_dp_value(const struct spot_liveput_dp *dp, int context, int n);

/* What is known when a grid is chosen: the change of this interval, and those of further intervals
 * covered by the notice. */
struct spot_liveput_view {
    int n, from;          /* instances before, and their grid (or SPOT_GRID_NONE) */
    double carry_s;       /* of an unfinished migration */
    int context;          /* of the chain, before */
    int n_known;          /* >= 1 */
    const int *change;    /* [n_known], < 0 lost, > 0 gained; the first happens now */
    const double *cost_s; /* [table->n_grid] of the first change, if known (the victims, or a free
                             start); NULL: the mean */
};

/* Maximise over grids for all known intervals, followed by the values after them, including an
 * unfinished migration. With sees_victims only the first known interval is treated so. */
struct spot_liveput_choice spot_liveput_dp_after(struct spot_liveput_dp *dp,
                                                 const struct spot_liveput_view *view);

/* Samples of choosing each grid as in _after: score[g] for every grid that fits, -INFINITY for the
 * rest; score[n_grid] is for suspending. With more than one change known only the best is exact. */
void spot_liveput_dp_scores(struct spot_liveput_dp *dp, const struct spot_liveput_view *view,
                            double *score);

/* The change is not known: `step` is its distribution, and `context` the context before it. */
struct spot_liveput_choice spot_liveput_dp_before(struct spot_liveput_dp *dp, int n, int from,
                                                  double carry_s, int context,
                                                  const struct spot_count_step *step);

/* The same for every grid: score[n_grid + 1] as in _scores, also for grids that do not fit. */
void spot_liveput_dp_scores_before(struct spot_liveput_dp *dp, int n, int from, double carry_s,
                                   int context, const struct spot_count_step *step, double *score);

/* The part of the above in liveput_known.c: score[r], by rank, [n_grid + 1], of choosing rank r in
 * the first known interval, value[] after the last; if more than one is known only the best is
 * exact. */
void spot_liveput_known(const struct spot_liveput_dp *dp, const struct spot_liveput_view *view,
                        const double *value, double *score);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_LIVEPUT_DP_H */
