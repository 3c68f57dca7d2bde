/* SPDX-License-Identifier: MIT */
/* liveput_inner.h - what the files of the stochastic program share; used in lib/plan/liveput_*
 * only.
 */
#ifndef SPOT_PLAN_TRAIN_LIVEPUT_INNER_H
#define SPOT_PLAN_TRAIN_LIVEPUT_INNER_H

#include "plan/liveput_dp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a grid that may not be run: below any number of samples, but finite, so that sums
 * with it work. */
#define SPOT_LIVEPUT_NEVER (-1e300)

/* One interval from (n, g, unfinished or not) when so many are lost, for each thing that may become
 * known of who is lost before the grid is chosen: one, the mean, or the number of pipelines that
 * survive (cost_table.h). By rank; "wide" is n_grid + 1, the last is suspended. */
struct spot_liveput_gain {
    int n;          /* outcomes */
    double *prob;   /* [n] */
    double *of;     /* [n * wide] samples; -INFINITY where the grid goes on as it is: what is left
                       of its migration then decides, not this */
    double *left_s; /* [n * wide] what the interval does not finish of the change; NULL: nothing */
    int *at;        /* [n * wide] with left_s: the node below it, times wide, plus rank */
    double *part;   /* [n * wide] with left_s: the weight of the node above */
    int *free;      /* [n * wide] with an unfinished migration: the ranks that cost nothing */
    int *n_free;    /* [n] */
};

/* One outcome of a gain. */
struct spot_liveput_outcome {
    const double *of;
    const int *at; /* or NULL: nothing is left unfinished */
    const double *part;
};

static inline struct spot_liveput_outcome spot_liveput_outcome_of(const struct spot_liveput_gain *g,
                                                                  int i, int n_grid)
{
    const size_t row = (size_t)i * ((size_t)n_grid + 1);

    return (struct spot_liveput_outcome){ g->of + row, g->left_s ? g->at + row : NULL,
                                          g->left_s ? g->part + row : NULL };
}

/* What rank r gives: now, and from then on. Only with o->at; a row beyond value[]'s last node is
 * read, and has no weight. */
static inline double spot_liveput_worth(const struct spot_liveput_outcome *o, const double *value,
                                        size_t wide, int r)
{
    const double *v = value + o->at[r];

    return o->of[r] + v[0] + o->part[r] * (v[wide] - v[0]);
}

/* Of changes from n instances, < 0 lost; `is_owing`: a migration is unfinished. Borrowed. */
const struct spot_liveput_gain *spot_liveput_gain_of(struct spot_liveput_dp *dp, int n, int rank,
                                                     int change, bool is_owing);
void spot_liveput_gain_release(struct spot_liveput_dp *dp);

/* The most that an outcome gives on n2 instances, over all grids and to suspend, and the rank that
 * gives it; value[] as below, that of dp->value itself within a solve. */
double spot_liveput_best(struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int i,
                         const double *value, int n2, int *rank);

/* Samples that the state (n, rank) loses at a node, when it goes to rank `to` although a migration
 * is unfinished: a gain counts the change alone, and where an unfinished migration is carried on it
 * takes longer. The change is told; of what is not, 0 stands for all. */
double spot_liveput_held_up(const struct spot_liveput_dp *dp, int n, int rank, int change, int to,
                            int node);

/* A solve remembers which targets were best: from open to close every sweep asks for the same
 * maxima in the same order, and tells afterwards how unevenly the values of a count moved: the
 * most less the least. */
void spot_liveput_memo_open(struct spot_liveput_dp *dp);
void spot_liveput_memo_sweep(struct spot_liveput_dp *dp);
void spot_liveput_memo_moved(struct spot_liveput_dp *dp, int context, int n, double unevenly);
void spot_liveput_memo_close(struct spot_liveput_dp *dp);

/* The result of one search. */
struct spot_liveput_found {
    int rank;
    double gain;  /* of the interval with it, where the asker keeps that */
    double until; /* how unevenly its count may have moved while it is the best */
};

/* What the next search found in the previous sweep. NULL outside of a solve. */
struct spot_liveput_found *spot_liveput_memo_next(struct spot_liveput_dp *dp);

/* Within a solve: how unevenly a count's value[], as above, moved so far; against `until`. */
double spot_liveput_memo_sum(const struct spot_liveput_dp *dp, const double *value);

/* It is the best now, by `gap` at least. */
void spot_liveput_found_keep(struct spot_liveput_found *f, double moved, double best, double gap);

/* Where neither who goes nor what is left unfinished is in the state, no gains are made: the search
 * finds what they would give. Sort before the first search of a sweep. */
bool spot_liveput_searches(const struct spot_liveput_dp *dp);
void spot_liveput_search_sort(struct spot_liveput_dp *dp);
void spot_liveput_search_release(struct spot_liveput_dp *dp);

/* What the state (n, rank), a grid, comes to by a change that becomes known and leads to `context`:
 * now, and from then on. */
double spot_liveput_search_best(struct spot_liveput_dp *dp, int n, int rank, int change,
                                int context);

/* Lay nodes over what may be left after the gains made so far: n_node, and the gains' places
 * between nodes. */
void spot_liveput_place(struct spot_liveput_dp *dp);

/* Seconds left at a node; just above a multiple of the interval where that is what it is. */
double spot_liveput_node_s(const struct spot_liveput_dp *dp, int node);

/* The value of running `rank` with left_s >= 0 of its migration unfinished, among value[n_node *
 * wide] of a context and count. Between two nodes linear, beyond the last one at the grid's rate.
 */
double spot_liveput_owing(const struct spot_liveput_dp *dp, const double *value, int rank,
                          double left_s);

/* then[node * then_by], [n_node], of the state (n, rank) before a change that becomes known,
 * value[] the values after it. */
void spot_liveput_after_change(struct spot_liveput_dp *dp, int n, int rank, int change,
                               const double *value, double *then, size_t then_by);

/* The events of a step as one list, [SPOT_LIVEPUT_EVENTS]: change (< 0 lost), probability. What
 * leads beyond the counts that are looked at leads to the nearest of them. event[0] is "still". */
struct spot_liveput_event {
    int change;
    double prob;
};
enum { SPOT_LIVEPUT_EVENTS = 2 * SPOT_CHAIN_SIZE_MAX + 3 };

int spot_liveput_events(const struct spot_liveput_dp *dp, int n, const struct spot_count_step *step,
                        struct spot_liveput_event *event);

/* One state, its distribution known for every context; event[0] is "still", the rest are in the
 * same order in all contexts. */
struct spot_liveput_dists {
    int n_event;
    struct spot_liveput_event event[SPOT_CHAIN_CONTEXTS][SPOT_LIVEPUT_EVENTS];
};

/* To have chosen rank r and to go on as rank `to` if the event comes: then what is left of a
 * migration decides. */
struct spot_liveput_wait {
    int r, to, event;
};

/* Without a notice: what gives the worth of a target at an event. */
struct spot_liveput_at {
    struct spot_liveput_outcome outcome;
    const double *value; /* after the event */
    double moved;        /* how unevenly these moved since the solve began */
    const int *cut;      /* by rank, to what is left */
    int n_fit;
};

/* Scratch space. */
struct spot_liveput_space {
    struct spot_liveput_at at[2][SPOT_LIVEPUT_EVENTS]; /* [1] with a migration unfinished */
    bool is_filled[2];                                 /* target[] of all events but "still" */
    int last[2];                                       /* rank of once[], or -1 */
    double once[2][SPOT_LIVEPUT_EVENTS];               /* what it gives at all events but "still" */
    double *then;                                      /* [n_node * SPOT_LIVEPUT_EVENTS] */
    double *target; /* without a notice: [(2 * SPOT_LIVEPUT_EVENTS + 1) * (n_grid + 1)] */
    struct spot_liveput_wait *wait; /* [n_wait], by r */
    size_t n_wait, wait_cap;
    double *on; /* [n_wait * n_node] */
    size_t on_cap;
};

/* Without a notice: dp->next of (n, rank) in every context. */
void spot_liveput_back_up_before(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                                 int n, int rank, struct spot_liveput_space *space);

/* What it gives to go on with rank r at a node >= 1, and from then on. */
double spot_liveput_go_on(const struct spot_liveput_dp *dp, const double *value, int r, int node);

/* Where the nodes of a context and count begin, n_grid + 1 apart. */
size_t spot_liveput_value_at(const struct spot_liveput_dp *dp, int context, int n);

/* The context of the values after a context and a change. */
int spot_liveput_context(const struct spot_liveput_dp *dp, int context, int change);

/* Whether rank may be run on n instances. */
bool spot_liveput_may_run(const struct spot_liveput_dp *dp, int n, int rank);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_LIVEPUT_INNER_H */
