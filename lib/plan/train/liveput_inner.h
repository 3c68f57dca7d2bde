/* SPDX-License-Identifier: MIT */
/* liveput_inner.h - shared by the files of the stochastic program; used in lib/plan/liveput_*
 * only. */
#ifndef SPOT_PLAN_TRAIN_LIVEPUT_INNER_H
#define SPOT_PLAN_TRAIN_LIVEPUT_INNER_H

#include "plan/liveput_dp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a grid that is not allowed: below any number of samples, but finite, so that sums
 * with it work. */
#define SPOT_LIVEPUT_NEVER (-1e300)

/* One interval from (n, g, unfinished or not) with a given number of losses, for each possible
 * knowledge about the victims before the grid is chosen: one entry, the mean, or the number of
 * pipelines that survive (cost_table.h). By rank; "wide" is n_grid + 1, the last is suspended. */
struct spot_liveput_gain {
    int from;     /* rank */
    int n;        /* outcomes */
    double *prob; /* [n] */
    double *of;   /* [n * wide] samples; -INFINITY if the grid continues unchanged: then the rest of
                     its migration decides, not this */
    double *
        left_s; /* [n * wide] seconds of the change that the interval does not finish; NULL: none */
    int *at;    /* [n * wide] with left_s: the node below it, times wide, plus rank */
    double *part;      /* [n * wide] with left_s: the weight of the node above */
    int *free;         /* [n * wide] with an unfinished migration: the ranks without cost */
    int *n_free;       /* [n] */
    double left_max_s; /* the most of left_s from a grid */
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
 * read, with weight 0. */
static inline double spot_liveput_worth(const struct spot_liveput_outcome *o, const double *value,
                                        size_t wide, int r)
{
    const double *v = value + o->at[r];

    return o->of[r] + v[0] + o->part[r] * (v[wide] - v[0]);
}

/* For changes from n instances, < 0 lost; `is_owing`: a migration is unfinished. Borrowed. */
const struct spot_liveput_gain *spot_liveput_gain_of(struct spot_liveput_dp *dp, int n, int rank,
                                                     int change, bool is_owing);
/* The next rank will soon be asked for its gain, of itself and of `to`: they lie all over the
 * memory. */
void spot_liveput_gain_fetch(const struct spot_liveput_dp *dp, int n, int rank, int change, int to);
void spot_liveput_gain_release(struct spot_liveput_dp *dp);

/* The maximum that an outcome gives on n2 instances, over all grids and suspending, and the rank
 * that gives it; value[] as below, that of dp->value itself within a solve. */
double spot_liveput_best(struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int i,
                         const double *value, int n2, int *rank);

/* The mean of that over the outcomes of (n, rank) after a change, nothing being unfinished. */
double spot_liveput_mean(struct spot_liveput_dp *dp, int n, int rank, int change,
                         const double *value);

/* Samples that the state (n, rank) loses at a node, when it changes to rank `to` although a
 * migration is unfinished: a gain counts the change alone, and an unfinished migration that is
 * continued takes longer. `change` is the known change; 0 stands for all unknown ones. */
double spot_liveput_held_up(const struct spot_liveput_dp *dp, int n, int rank, int change, int to,
                            int node);

/* A solve remembers which targets were best: from open to close every sweep asks for the same
 * maxima in the same order, and reports afterwards how unevenly the values of a count moved:
 * maximum less minimum. */
void spot_liveput_memo_open(struct spot_liveput_dp *dp);
void spot_liveput_memo_sweep(struct spot_liveput_dp *dp);
void spot_liveput_memo_moved(struct spot_liveput_dp *dp, int context, int n, double unevenly);
void spot_liveput_memo_close(struct spot_liveput_dp *dp);

/* liveput_speed.c: `next`, [n], what a sweep made of `value`, becomes what is probably nearer to
 * the end. Entries that no sweep changes stay. */
struct spot_liveput_speed *spot_liveput_speed_new(size_t n);
void spot_liveput_speed_free(struct spot_liveput_speed *speed);
void spot_liveput_speed_up(struct spot_liveput_speed *speed, const double *value, double *next);

/* The result of one search. */
struct spot_liveput_found {
    int rank;
    int n;        /* outcomes of its gain, if it gives gain + value[rank]; else 0 */
    double prob;  /* of its outcome */
    double gain;  /* of its interval, if the caller uses it */
    double until; /* how unevenly its count may have moved while it remains the best */
};

/* The result of the next search in the previous sweep. NULL outside a solve. */
struct spot_liveput_found *spot_liveput_memo_next(struct spot_liveput_dp *dp);

/* Within a solve: how unevenly a count's value[], as above, has moved so far; to compare with
 * `until`. */
double spot_liveput_memo_sum(const struct spot_liveput_dp *dp, const double *value);

/* It is the best now, by at least `gap`. */
void spot_liveput_found_keep(struct spot_liveput_found *f, double moved, double best, double gap);

/* What a target gives at most, now and from then on: after any change, after one that moves state.
 */
struct spot_liveput_target {
    double most, moved;
    int rank;
};

/* Within a sweep: those of a context and count, [n_fit], `most` descending. */
const struct spot_liveput_target *spot_liveput_targets(struct spot_liveput_dp *dp, int context,
                                                       int n);
/* Values have changed. */
void spot_liveput_targets_turn(struct spot_liveput_dp *dp);

/* If dp->is_lazy no gains are stored but of suspended states: what rank r gives in the interval of
 * a change. */
static inline double spot_liveput_gives(const struct spot_liveput_dp *dp,
                                        struct spot_cost_changes *changes, int r)
{
    const int to = dp->by_size[r];

    return dp->table->samples_per_s[to] * (dp->interval_s - spot_cost_of(dp->table, changes, to));
}
void spot_liveput_search_release(struct spot_liveput_dp *dp);

/* The value of the state (n, rank), a grid, after a change that becomes known and leads to
 * `context`: now, and from then on. */
double spot_liveput_search_best(struct spot_liveput_dp *dp, int n, int rank, int change,
                                int context);

/* Place nodes over the seconds that may be left after the gains made so far: n_node, and the gains'
 * positions between nodes. */
void spot_liveput_place(struct spot_liveput_dp *dp);

/* Seconds left at a node; just above a multiple of the interval where the node represents that. */
double spot_liveput_node_s(const struct spot_liveput_dp *dp, int node);

/* The value of running `rank` with left_s >= 0 of its migration unfinished, among value[n_node *
 * wide] of a context and count. Linear between two nodes, beyond the last one at the grid's
 * rate. */
double spot_liveput_owing(const struct spot_liveput_dp *dp, const double *value, int rank,
                          double left_s);

/* then[node * then_by], [n_node], of the state (n, rank) before a change that becomes known,
 * value[] the values after it. */
void spot_liveput_after_change(struct spot_liveput_dp *dp, int n, int rank, int change,
                               const double *value, double *then, size_t then_by);

/* The same within a sweep, for a change that leads to `context`; then_by is SPOT_LIVEPUT_EVENTS. */
void spot_liveput_follow(struct spot_liveput_dp *dp, int n, int rank, int change, int context,
                         double *then);

/* The events of a step as one list, [SPOT_LIVEPUT_EVENTS]: change (< 0 lost), probability. Events
 * beyond the range of counts lead to the nearest count. event[0] is "still". */
struct spot_liveput_event {
    int change;
    double prob;
};
enum { SPOT_LIVEPUT_EVENTS = 2 * SPOT_CHAIN_SIZE_MAX + 3 };

int spot_liveput_events(const struct spot_liveput_dp *dp, int n, const struct spot_count_step *step,
                        struct spot_liveput_event *event);

/* What a context makes likely: that nothing changes, a loss, a gain. */
struct spot_liveput_way {
    double still, down, up;
};

/* One count, its distribution known for every context: prob of an event but event[0], which is
 * "still", is its share of its way. */
struct spot_liveput_dists {
    int n_event;
    struct spot_liveput_event event[SPOT_LIVEPUT_EVENTS];
    struct spot_liveput_way way[SPOT_CHAIN_CONTEXTS];
};

/* To have chosen rank r and to continue as rank `to` if the event happens: then the rest of a
 * migration decides. */
struct spot_liveput_wait {
    int r, to, event;
};

/* Without a notice: inputs for the worth of a target at an event. */
struct spot_liveput_at {
    struct spot_cost_changes *changes; /* or NULL: */
    struct spot_liveput_outcome outcome;
    const double *value; /* after the event */
    double moved;        /* how unevenly these have moved since the solve began */
    const int *cut;      /* by rank, what it is cut to */
    int n_fit;
};

/* Without a notice: what each target gives at most, whatever it comes from, on one count. */
struct spot_liveput_most {
    double *down, *up;               /* [n_grid], by way; what a context's still gives is added */
    double *fits_down, *fits_up;     /* [n_grid] shares of the events at which it is not cut */
    int *order[SPOT_CHAIN_CONTEXTS]; /* [n_grid] of a context, the most first */
    double *of[SPOT_CHAIN_CONTEXTS]; /* [n_grid] by rank */
    double *moved[SPOT_CHAIN_CONTEXTS]; /* the same of a change that moves state */
    bool is_filled, is_sorted[SPOT_CHAIN_CONTEXTS];
};

/* Scratch space. */
struct spot_liveput_space {
    double *then; /* [n_node * SPOT_LIVEPUT_EVENTS] */
    double *way;  /* [n_node * 2] of losses, of gains */
    /* without a notice */
    struct spot_liveput_at at[2][SPOT_LIVEPUT_EVENTS]; /* [1] with a migration unfinished */
    double *down[2], *up[2];        /* [n_grid + 1] by way, of a target; NAN: not summed yet */
    double moved_down, moved_up;    /* how unevenly the values there have moved */
    struct spot_liveput_most *most; /* [counts] */
    struct spot_liveput_wait *wait; /* [n_wait], by r */
    bool *waits;                    /* [n_grid + 1] */
    size_t n_wait, wait_cap;
    double *on; /* [n_wait * n_node] */
    size_t on_cap;
};

/* Values have changed. */
void spot_liveput_space_turn(const struct spot_liveput_dp *dp, struct spot_liveput_space *space);

/* Without a notice: dp->next of (n, rank) in every context. */
void spot_liveput_back_up_before(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                                 int n, int rank, struct spot_liveput_space *space);

/* The events of a step of a forecast from a count, as above. */
struct spot_horizon;
int spot_liveput_step_events(const struct spot_horizon *horizon, int step, int count,
                             struct spot_liveput_event *event);

/* The chance of an event in a context. */
double spot_liveput_prob(const struct spot_liveput_dists *dists, int context, int e);

/* dp->next of (n, rank) in every context, by either of the two. */
void spot_liveput_back_up(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                          int rank, struct spot_liveput_space *space);

/* liveput_plain.c: dp->next of a count in a step of a forecast, of every rank at once, where that
 * can be done: losses are told, gains are not, nothing is left unfinished. */
bool spot_liveput_is_plain(const struct spot_liveput_dp *dp);
void spot_liveput_plain(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n);
void spot_liveput_plain_free(struct spot_liveput_dp *dp);

/* For the nodes there are. */
void spot_liveput_space_init(const struct spot_liveput_dp *dp, struct spot_liveput_space *space);
void spot_liveput_space_release(const struct spot_liveput_dp *dp, struct spot_liveput_space *space);

/* A grid that may not be run is never chosen. */
void spot_liveput_shut(const struct spot_liveput_dp *dp, double *value);

/* The value of continuing with rank r at a node >= 1, now and from then on. */
double spot_liveput_go_on(const struct spot_liveput_dp *dp, const double *value, int r, int node);

/* Start of the nodes of a context and count, n_grid + 1 apart. */
size_t spot_liveput_value_at(const struct spot_liveput_dp *dp, int context, int n);

/* The context of the values after a context and a change. */
int spot_liveput_context(const struct spot_liveput_dp *dp, int context, int change);

/* Is rank allowed on n instances? */
bool spot_liveput_may_run(const struct spot_liveput_dp *dp, int n, int rank);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_LIVEPUT_INNER_H */
