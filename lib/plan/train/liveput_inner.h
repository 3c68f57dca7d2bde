/* SPDX-License-Identifier: MIT */
/* liveput_inner.h - shared by the files of the stochastic program; used in lib/plan/liveput_*
 * only. */
#ifndef SPOT_PLAN_TRAIN_LIVEPUT_INNER_H
#define SPOT_PLAN_TRAIN_LIVEPUT_INNER_H

#include <math.h>

#include "plan/liveput_dp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a grid that is not allowed: below any number of samples, but finite, so that sums
 * with it work. */
#define SPOT_LIVEPUT_NEVER (-1e300)

/* One interval from (n, g, unfinished or not) with a given number of losses, for each possible
 * knowledge about the victims before the grid is chosen: a single entry for the mean, or one for
 * each number of surviving pipelines (cost_table.h). Arrays are by rank; "wide" is n_grid + 1, and
 * the last entry is suspended. */
struct spot_liveput_gain {
    int from;  /* rank */
    int there; /* instances that stay */
    bool is_loss;
    const struct spot_cost_outcomes *told; /* or NULL: the mean */
    struct spot_cost_changes *changes;     /* of the mean, if dp->asks and from a grid */
    int n;                                 /* outcomes */
    double *prob;                          /* [n] */
    struct spot_liveput_found *found;      /* [n] */
    const double *row_s; /* with an unfinished migration, from a grid: seconds to every grid */
    /* [n * wide] samples; -INFINITY if the grid continues unchanged with an unfinished migration:
     * then the rest of that migration determines them. NULL if dp->asks and from a grid: computed
     * on demand */
    double *of;
    /* [n * wide] seconds of the change that the interval does not finish; NULL: none */
    double *left_s;
    int *at;           /* [n * wide] with left_s: the node below it, times wide, plus rank */
    double *part;      /* [n * wide] with left_s: the weight of the node above */
    int *free;         /* [n * wide] with an unfinished migration: the ranks without cost */
    int *n_free;       /* [n] */
    double left_max_s; /* the largest left_s from a grid */
};

/* The result of one search. */
struct spot_liveput_found {
    double gain;  /* samples of its interval, if the caller uses them */
    double other; /* bound of all others, less the moves of the values up to then; INFINITY: new */
    int rank, era;
    int asked; /* the last of the asked prices of an outcome, or 0 */
};

/* The samples of a target in an outcome, if dp->asks, and where the one before is, or 0. */
struct spot_liveput_asked {
    double of;
    int rank, before;
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

    return (struct spot_liveput_outcome){ g->of ? g->of + row : NULL,
                                          g->left_s ? g->at + row : NULL,
                                          g->left_s ? g->part + row : NULL };
}

/* The value of rank r: samples of the interval plus those afterwards. Only with o->at; reads a row
 * beyond the last node of value[], with weight 0. */
static inline double spot_liveput_worth(const struct spot_liveput_outcome *o, const double *value,
                                        size_t wide, int r)
{
    const double *v = value + o->at[r];

    return o->of[r] + v[0] + o->part[r] * (v[wide] - v[0]);
}

/* For changes from n instances, `change` < 0 for losses; `is_owing`: a migration is unfinished.
 * Borrowed. */
const struct spot_liveput_gain *spot_liveput_gain_of(struct spot_liveput_dp *dp, int n, int rank,
                                                     int change, bool is_owing);
void spot_liveput_gain_release(struct spot_liveput_dp *dp);

/* The best value of an outcome on n2 instances, over all grids and suspending, and its rank;
 * value[] as below, and within a sweep that of dp->value itself. After losses it is kept in the
 * gain. */
double spot_liveput_best(struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int i,
                         const double *value, int n2, int *rank);

/* at[node] of every node >= 1 of an unfinished migration: `other`, the best value of the changes,
 * which leads to rank `to` after a change that takes longer there, or, for i >= 0, a greater one of
 * going on in outcome i on n2 instances. */
void spot_liveput_at_nodes(const struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain,
                           int i, const double *value, int n2, int to, double other, double *at);

/* A solve remembers which targets were best: between open and close every sweep asks for the same
 * maxima in the same order, and then reports how the values moved. keeps: false for a single sweep,
 * which has nothing to remember. */
void spot_liveput_memo_open(struct spot_liveput_dp *dp, bool keeps);
void spot_liveput_memo_sweep(struct spot_liveput_dp *dp);
void spot_liveput_memo_close(struct spot_liveput_dp *dp);

/* liveput_speed.c: replaces `next` [n], the result of a sweep from `value`, by values that are
 * probably nearer to the final ones. Entries that no sweep changes stay. */
struct spot_liveput_speed *spot_liveput_speed_new(size_t n);
void spot_liveput_speed_free(struct spot_liveput_speed *speed);
void spot_liveput_speed_up(struct spot_liveput_speed *speed, const double *value, double *next);

/* Report that the values become dp->next: the largest move of those of each count. */
void spot_liveput_moved(struct spot_liveput_dp *dp);
/* The values are new: nothing found before counts. */
void spot_liveput_found_forget(struct spot_liveput_dp *dp);

/* The result of the next search in the previous sweep. NULL outside a solve. */
struct spot_liveput_found *spot_liveput_memo_next(struct spot_liveput_dp *dp);

/* Within a sweep: which context and count value[] belongs to. */
static inline size_t spot_liveput_block(const struct spot_liveput_dp *dp, const double *value)
{
    return (size_t)(value - dp->value) / ((size_t)dp->n_node * ((size_t)dp->n_grid + 1));
}

/* The best value so far, with the samples of its interval, and an upper bound of all others. */
struct spot_liveput_race {
    double best, second, gain;
    int rank;
};

static inline void spot_liveput_enter(struct spot_liveput_race *race, int rank, double gain,
                                      double x)
{
    if (x > race->best) {
        race->second = race->best;
        *race = (struct spot_liveput_race){ x, race->second, gain, rank };
    } else if (x > race->second) {
        race->second = x;
    }
}

/* Record the result; moved: of its count. */
void spot_liveput_found_keep(struct spot_liveput_found *f, double moved,
                             const struct spot_liveput_race *race);
/* True if it is still the best, with its present value x. */
static inline bool spot_liveput_found_holds(const struct spot_liveput_found *f, double moved,
                                            double x)
{
    const double rounding = 1e-9, size = fabs(x);

    return f->other + moved < x - rounding * (size > 1 ? size : 1);
}

/* An upper bound of a target's value. */
struct spot_liveput_target {
    double most;
    int rank;
};

/* True if a change between two ranks moves state: P changes or D grows. */
static inline bool spot_liveput_moves(const struct spot_liveput_dp *dp, int from, int to)
{
    return from == dp->n_grid || dp->stages[from] != dp->stages[to] || to > from;
}

/* Within a sweep: the targets of value[] of a context and n instances, [n_fit], in descending order
 * of their bounds; gain[n_grid]: bounds of the samples in the interval, in a sweep always the same:
 * dp->most, or dp->most_moved. */
const struct spot_liveput_target *
spot_liveput_targets(struct spot_liveput_dp *dp, const double *gain, const double *value, int n);
/* Call when values have changed. */
void spot_liveput_targets_turn(struct spot_liveput_dp *dp);

/* The targets of a change from a rank in the order in which they are examined: a first one, those
 * that move no state, then the others in the order of their bounds. Where nothing is lost the first
 * has to be the same grid, since for staying no bound is known. */
struct spot_liveput_hunt {
    const struct spot_liveput_dp *dp;
    const double *value; /* of the context and count after the change */
    const struct spot_liveput_target *target;
    int from, first, kept, at, n_fit;
    bool has_begun;
    double left; /* upper bound of the targets left out so far */
};

static inline struct spot_liveput_hunt spot_liveput_hunt(struct spot_liveput_dp *dp, int from,
                                                         int first, const double *value, int n)
{
    return (struct spot_liveput_hunt){ .dp = dp,
                                       .value = value,
                                       .target = spot_liveput_targets(dp, dp->most_moved, value, n),
                                       .from = from,
                                       .first = first,
                                       .kept = from < dp->n_grid ? from : -1,
                                       .at = 0,
                                       .n_fit = dp->n_fit[n],
                                       .has_begun = false,
                                       .left = -INFINITY };
}

/* True if a bound is not above `best`; otherwise rounding decides. */
static inline bool spot_liveput_is_below(double bound, double best)
{
    return bound + 1e-9 * fabs(bound) <= best;
}

/* The next target that may be better than `best`, or -1. */
static inline int spot_liveput_hunt_next(struct spot_liveput_hunt *h, double best)
{
    if (!h->has_begun) {
        h->has_begun = true;
        if (h->first < h->n_fit)
            return h->first;
    }
    while (h->kept >= 0) {
        const int r = h->kept;
        double most;

        h->kept = h->dp->fewer[r];
        if (r >= h->n_fit || r == h->first)
            continue;
        most = h->dp->most[r] + h->value[r];
        if (!spot_liveput_is_below(most, best))
            return r;
        h->left = most > h->left ? most : h->left;
    }
    while (h->at < h->n_fit) {
        const struct spot_liveput_target *x = &h->target[h->at++];

        if (spot_liveput_is_below(x->most, best)) {
            h->left = x->most > h->left ? x->most : h->left;
            h->at = h->n_fit;
        } else if (x->rank != h->first && spot_liveput_moves(h->dp, h->from, x->rank)) {
            return x->rank;
        }
    }
    return -1;
}

/* If dp->is_lazy gains are only stored for suspended states: computes the samples of rank r in the
 * interval of a change. */
static inline double spot_liveput_gives(const struct spot_liveput_dp *dp,
                                        struct spot_cost_changes *changes, int r)
{
    const int to = dp->by_size[r];

    return dp->table->samples_per_s[to] * (dp->interval_s - spot_cost_of(dp->table, changes, to));
}

/* If dp->asks: computes the samples of rank r in outcome i, or finds them. */
double spot_liveput_ask(struct spot_liveput_dp *dp, const struct spot_liveput_gain *g, int i,
                        int r);

/* The samples of rank r in outcome i, without an unfinished migration. */
static inline double spot_liveput_gain_at(struct spot_liveput_dp *dp,
                                          const struct spot_liveput_gain *g, int i, int r)
{
    if (g->of)
        return g->of[(size_t)i * ((size_t)dp->n_grid + 1) + (size_t)r];
    return g->changes ? spot_liveput_gives(dp, g->changes, r) : spot_liveput_ask(dp, g, i, r);
}
void spot_liveput_search_release(struct spot_liveput_dp *dp);

/* The value of the state (n, rank), where rank is a grid, after a change that becomes known and
 * leads to `context`: samples of the interval plus those afterwards. */
double spot_liveput_search_best(struct spot_liveput_dp *dp, int n, int rank, int change,
                                int context);

/* Place nodes over the seconds that may be left unfinished by the gains computed so far: sets
 * n_node, and the positions of gains between nodes. */
void spot_liveput_place(struct spot_liveput_dp *dp);

/* Seconds left at a node; just above a multiple of the interval where the node represents that. */
static inline double spot_liveput_node_s(const struct spot_liveput_dp *dp, int node)
{
    return node ? dp->node_s[node] : 0;
}

/* The value of running `rank` with left_s >= 0 of its migration unfinished, among value[n_node *
 * wide] of a context and count. Linear between two nodes, beyond the last one at the grid's
 * rate. */
double spot_liveput_owing(const struct spot_liveput_dp *dp, const double *value, int rank,
                          double left_s);

/* then[node * then_by], [n_node]: the values of the state (n, rank) before a change that becomes
 * known; value[]: the values after it. */
void spot_liveput_after_change(struct spot_liveput_dp *dp, int n, int rank, int change,
                               const double *value, double *then, size_t then_by);

/* The same within a sweep, for a change that leads to `context`. */
void spot_liveput_follow(struct spot_liveput_dp *dp, int n, int rank, int change, int context,
                         double *then, size_t then_by);

/* The events of a step as one list, [SPOT_LIVEPUT_EVENTS]: change (< 0 lost), probability. Events
 * beyond the range of counts lead to the nearest count. event[0] is "still". */
struct spot_liveput_event {
    int change;
    double prob;
};
enum { SPOT_LIVEPUT_EVENTS = 2 * SPOT_CHAIN_SIZE_MAX + 3 };

int spot_liveput_events(const struct spot_liveput_dp *dp, int n, const struct spot_count_step *step,
                        struct spot_liveput_event *event);

/* The probabilities in a context that nothing changes, of a loss, of a gain. */
struct spot_liveput_way {
    double still, down, up;
};

/* One count, with its distribution for every context. The prob of an event is its share of its kind
 * (loss or gain), except for event[0], "still". */
struct spot_liveput_dists {
    int n_event;
    struct spot_liveput_event event[SPOT_LIVEPUT_EVENTS];
    struct spot_liveput_way way[SPOT_CHAIN_CONTEXTS];
};

/* A case in which rank r was chosen and the job continues as rank `to` when the event happens: then
 * the rest of a migration determines the value. */
struct spot_liveput_wait {
    int r, to, event;
};

/* Without a notice: inputs for the value of a target at an event. */
struct spot_liveput_at {
    struct spot_cost_changes *changes; /* or NULL: */
    struct spot_liveput_outcome outcome;
    const double *value; /* after the event */
    double moved;        /* sum of their largest moves */
    const int *cut;      /* by rank: the grid to which it is reduced */
    int n_fit;
};

/* Without a notice: upper bounds of targets at one count, for any grid before. */
struct spot_liveput_most {
    /* [n_grid] for losses, for gains; that for "still" depends on the context and is added */
    double *down, *up;
    double *fits_down, *fits_up;     /* [n_grid] shares of the events at which it is not reduced */
    int *order[SPOT_CHAIN_CONTEXTS]; /* [n_grid] by context, in descending order of the bound */
    double *of[SPOT_CHAIN_CONTEXTS]; /* [n_grid] bounds by rank */
    double *moved[SPOT_CHAIN_CONTEXTS]; /* the same after a change that moves state */
    bool is_filled, is_sorted[SPOT_CHAIN_CONTEXTS];
};

/* Scratch space. */
struct spot_liveput_space {
    double *then; /* [n_node * SPOT_LIVEPUT_EVENTS] */
    double *way;  /* [n_node * 2] for losses, for gains */
    /* with a notice: as dp->value, what follows a change without losses to a context and count from
     * the rank before; NAN: not computed yet */
    double *gained;
    /* without a notice */
    struct spot_liveput_at at[2][SPOT_LIVEPUT_EVENTS]; /* [1] with an unfinished migration */
    /* [n_grid + 1] sums over losses and over gains, by target; NAN: not computed yet */
    double *down[2], *up[2];
    double moved_down, moved_up;    /* largest moves of the values there */
    struct spot_liveput_most *most; /* [counts] */
    struct spot_liveput_wait *wait; /* [n_wait], by r */
    bool *waits;                    /* [n_grid + 1] */
    size_t n_wait, wait_cap;
    double *on; /* [n_wait * n_node] */
    size_t on_cap;
    struct spot_liveput_step *step; /* or NULL */
};

/* Call when values have changed. */
void spot_liveput_space_turn(const struct spot_liveput_dp *dp, struct spot_liveput_space *space);

/* Without a notice: compute dp->next of (n, rank) in every context. */
void spot_liveput_back_up_before(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                                 int n, int rank, struct spot_liveput_space *space);

/* The events of a forecast step from a count, in the form above. */
struct spot_horizon;
int spot_liveput_step_events(const struct spot_horizon *horizon, int step, int count,
                             struct spot_liveput_event *event);

/* The chance of an event in a context. */
double spot_liveput_prob(const struct spot_liveput_dists *dists, int context, int e);

/* Compute dp->next of (n, rank) in every context, with or without a notice. */
void spot_liveput_back_up(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                          int rank, struct spot_liveput_space *space);

/* liveput_plain.c: computes dp->next of a count in a step of a forecast for all ranks at once.
 * Possible if losses have a notice, gains have none, and no migration is unfinished. */
bool spot_liveput_is_plain(const struct spot_liveput_dp *dp);
void spot_liveput_plain(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n);
void spot_liveput_plain_free(struct spot_liveput_dp *dp);

/* liveput_step.c: the same where a migration may be unfinished, also after the forecast. _turn:
 * call when values have changed. */
bool spot_liveput_has_step(const struct spot_liveput_dp *dp);
struct spot_liveput_step *spot_liveput_step_new(struct spot_liveput_dp *dp);
void spot_liveput_step_turn(struct spot_liveput_step *step);
void spot_liveput_step_count(struct spot_liveput_step *step, const struct spot_liveput_dists *dists,
                             int n, struct spot_liveput_space *space);
void spot_liveput_step_free(struct spot_liveput_step *step);

/* Within a sweep without a notice: the bounds of targets at one count. */
const struct spot_liveput_most *spot_liveput_most_of(const struct spot_liveput_dp *dp,
                                                     const struct spot_liveput_dists *dists, int n,
                                                     int context, struct spot_liveput_space *space);

/* For the current nodes. */
void spot_liveput_space_init(struct spot_liveput_dp *dp, struct spot_liveput_space *space);
void spot_liveput_space_release(const struct spot_liveput_dp *dp, struct spot_liveput_space *space);

/* Give grids that are not allowed the value SPOT_LIVEPUT_NEVER. */
void spot_liveput_shut(const struct spot_liveput_dp *dp, double *value);

/* The value of continuing with rank r at a node >= 1: samples of the interval plus those
 * afterwards. */
static inline double spot_liveput_go_on(const struct spot_liveput_dp *dp, const double *value,
                                        int r, int node)
{
    if (node > dp->node_per_span)
        return value[(node - dp->node_per_span) * (dp->n_grid + 1) + r];
    return dp->table->samples_per_s[dp->by_size[r]] * (dp->interval_s - dp->node_s[node]) +
           value[r];
}

/* Start of the nodes of a context and count, n_grid + 1 apart. */
size_t spot_liveput_value_at(const struct spot_liveput_dp *dp, int context, int n);

/* The context of the values after a context and a change. */
int spot_liveput_context(const struct spot_liveput_dp *dp, int context, int change);

/* True if rank is allowed on n instances. */
bool spot_liveput_may_run(const struct spot_liveput_dp *dp, int n, int rank);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_LIVEPUT_INNER_H */
