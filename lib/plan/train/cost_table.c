/* SPDX-License-Identifier: MIT */
#include "plan/cost_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/liveput.h"
#include "plan/train/repartition.h"
#include "plan/train/warm_spare.h"

/* The largest change in Parcae's published runs. Above it, ties in a repartition always go to the
 * lower stage. */
enum { VICTIMS_BY_NODE = 6 };

int spot_cost_grid(const struct spot_cost_table *t, int d, int p)
{
    if (d < 1 || p < 1 || d > t->n_max || p > t->p_max)
        return SPOT_GRID_NONE;
    return t->index[d * (t->p_max + 1) + p];
}

/* The kind of change: instances are added if the new grid has more of them than survive of the old
 * one. */
static enum spot_change_kind change_kind(const struct spot_cost_table *t, int from, int lost,
                                         int to)
{
    return from == SPOT_GRID_NONE || t->d[to] * t->p[to] > t->d[from] * t->p[from] - lost
               ? SPOT_CHANGE_ADD
               : SPOT_CHANGE_REMOVE;
}

double spot_cost_start_s(const struct spot_cost_table *t, int to)
{
    const double restart = t->restart_s[2 * to + SPOT_CHANGE_ADD];

    if (!t->is_released)
        return restart;
    return restart + spot_migrate_p2p_s(&t->job->cost, 0) +
           (t->d[to] > 1 ? t->migrate.slowest_s[t->p[to]] : 0);
}

/* The most victims that a grid can have in this table. */
static int victims_of(const struct spot_cost_table *t, int g)
{
    const int size = t->d[g] * t->p[g];

    return size < t->lost_max ? size : t->lost_max;
}

/* Where the table for at most `most` victims in a stage is stored; in `all` if that is no limit. */
static double **at_most(const struct spot_cost_table *t, double **all, double ***bounded,
                        size_t n_all, size_t i, int from, int most)
{
    const size_t wide = (size_t)t->lost_max + 1;

    if (most >= t->d[from] || most >= victims_of(t, from))
        return &all[i];
    if (!*bounded)
        *bounded = spot_xcalloc(n_all * wide, sizeof(double *));
    return &(*bounded)[i * wide + (size_t)most];
}

/* hold[0..v] followed by move[0..v] of `from` keeping `keep` pipelines: v is its maximum number of
 * victims, at most `most` of them in a stage. */
static const double *same_of(struct spot_cost_table *t, int from, int keep, int most)
{
    const size_t i = (size_t)from * (size_t)(t->n_max + 1) + (size_t)keep;
    double **at = at_most(t, t->same, &t->same_most, spot_cost_n_same(t), i, from, most);
    const int v = victims_of(t, from);

    if (!*at) {
        *at = spot_xcalloc(2 * ((size_t)v + 1), sizeof(double));
        spot_repartition_same(&t->migrate, t->d[from], t->p[from], keep, most, v, *at, *at + v + 1);
    }
    return *at;
}

static const double *other_of(struct spot_cost_table *t, int from, int p2, int most)
{
    const size_t i = (size_t)from * (size_t)(t->p_max + 1) + (size_t)p2;
    double **at = at_most(t, t->other, &t->other_most, spot_cost_n_other(t), i, from, most);
    const int v = victims_of(t, from);

    if (!*at) {
        *at = spot_xcalloc((size_t)v + 1, sizeof(double));
        spot_repartition_other(&t->migrate, t->d[from], t->p[from], p2, most, v, *at);
        if (t->is_released)
            spot_repartition_by_node(&t->migrate, t->d[from], t->p[from], p2, most,
                                     v < VICTIMS_BY_NODE ? v : VICTIMS_BY_NODE, *at);
    }
    return *at;
}

/* --- warm spares -------------------------------------------------------------- */

/* A change of a grid with w warm spares to `keep` pipelines, by the number of victims among grid
 * and spares together. */
struct spot_warm_change {
    int n_warm, v_max;
    double move[SPOT_COST_LOST_MAX + 1], lost[SPOT_COST_LOST_MAX + 1];
};

/* The number of spares beside grid g of n instances that may mirror stages. */
static int warm_spares(const struct spot_cost_table *t, int n, int g)
{
    const int spares = n - t->d[g] * t->p[g];

    return spares <= 0 ? 0 : spares < t->warm ? spares : t->warm;
}

static bool has_warm(const struct spot_cost_table *t, int n, int from)
{
    return t->warm && t->samples_per_s[from] > 0 && warm_spares(t, n, from) > 0;
}

static double step_s(const struct spot_cost_table *t, int g)
{
    return (double)t->job->global_batch / t->samples_per_s[g];
}

double spot_cost_rate(struct spot_cost_table *t, int n, int g)
{
    const int w = t->warm ? warm_spares(t, n, g) : 0;
    struct spot_warm_cover cover;
    double *at;

    if (!w || t->samples_per_s[g] <= 0)
        return t->samples_per_s[g];
    if (!t->warm_rate)
        t->warm_rate = spot_xcalloc((size_t)(t->warm + 1) * (size_t)t->n_grid, sizeof(double));
    at = &t->warm_rate[(size_t)w * (size_t)t->n_grid + (size_t)g];
    if (*at > 0)
        return *at;
    spot_warm_cover_init(&cover, &t->migrate, t->p[g], w, step_s(t, g));
    *at = t->samples_per_s[g] * step_s(t, g) /
          (step_s(t, g) + spot_warm_mirror_s(&cover, &t->migrate));
    spot_warm_cover_release(&cover);
    return *at;
}

/* The changes of a grid with w warm spares: [(n_max + 1) * (lost_max + 1)], by pipelines kept and
 * the maximum of victims in a stage. */
static struct spot_warm_change **warm_changes(struct spot_cost_table *t, int w, int from)
{
    const size_t n = ((size_t)t->n_max + 1) * ((size_t)t->lost_max + 1);
    struct spot_warm_change ***at;

    if (!t->warmed)
        t->warmed = spot_xcalloc((size_t)(t->warm + 1) * (size_t)t->n_grid,
                                 sizeof(struct spot_warm_change **));
    at = &t->warmed[(size_t)w * (size_t)t->n_grid + (size_t)from];
    if (!*at)
        *at = spot_xcalloc(n, sizeof(struct spot_warm_change *));
    return *at;
}

/* Computed on demand, since large losses are rare. */
static const struct spot_warm_change *warm_change(struct spot_cost_table *t, int w, int from,
                                                  int keep, int most, int lost)
{
    enum { LOST_FEW = 8 };
    const int few = t->lost_max < LOST_FEW ? t->lost_max : (int)LOST_FEW;
    const int limit = most < t->lost_max ? most : t->lost_max;
    struct spot_warm_change **at =
        warm_changes(t, w, from) + (size_t)keep * ((size_t)t->lost_max + 1) + (size_t)limit;
    struct spot_warm_cover cover;

    if (*at && (*at)->v_max >= lost)
        return *at;
    if (!*at)
        *at = spot_xcalloc(1, sizeof(**at));
    (*at)->v_max = lost <= few ? few : t->lost_max;
    spot_warm_cover_init(&cover, &t->migrate, t->p[from], w, step_s(t, from));
    (*at)->n_warm = cover.n_warm;
    spot_warm_move(&cover, &t->migrate, t->d[from], keep, limit, (*at)->v_max, (*at)->move,
                   (*at)->lost);
    spot_warm_cover_release(&cover);
    return *at;
}

int spot_cost_mirroring(struct spot_cost_table *t, int n, int g)
{
    return has_warm(t, n, g) ? warm_change(t, warm_spares(t, n, g), g, t->d[g], t->d[g], 0)->n_warm
                             : 0;
}

/* Seconds saved by warm spares in a change that keeps P: the transfers to the places that they
 * take, over draws of up to `most` victims in a stage. */
static double saves(struct spot_cost_table *t, int n, int from, int lost, int to, int most)
{
    const int size = t->d[from] * t->p[from], v = victims_of(t, from);
    const struct spot_warm_change *x;
    const double *plain;
    double weight[SPOT_COST_LOST_MAX + 1], s = 0;

    if (!has_warm(t, n, from) || t->p[from] != t->p[to] || (!lost && t->d[from] == t->d[to]))
        return 0;
    x = warm_change(t, warm_spares(t, n, from), from, t->d[to], most, lost);
    if (!x->n_warm)
        return 0;
    plain = same_of(t, from, t->d[to], most) + v + 1;
    spot_liveput_spread(n, size, lost, weight);
    for (int j = 0; j <= lost && j <= v; j++)
        s += weight[j] * plain[j];
    spot_liveput_spread(n, size + x->n_warm, lost, weight);
    for (int k = 0; k <= lost && k <= size + x->n_warm; k++)
        s -= weight[k] * x->move[k];
    return fmax(0, s);
}

double spot_cost_warm_saves_s(struct spot_cost_table *t, int n, int from, int lost, int to)
{
    return saves(t, n, from, lost, to, t->d[from]);
}

/* E[restore_s], from the probability of losing every replica of some stage. Parcae's rules charge
 * that as a transfer. */
static double restore_of(const struct spot_cost_table *t, int from, int most, const double *weight)
{
    double wiped = 0;

    for (int j = t->d[from]; j <= most && t->job->cost.restore_s > 0; j++) {
        const struct spot_liveput g = { t->d[from], t->p[from], 0, j };

        if (weight[j] > 0)
            wiped += weight[j] * (1 - spot_liveput_hold(&g, 1));
    }
    return wiped * t->job->cost.restore_s;
}

/* The draws in which no stage loses more than `most`: with j victims in the grid, which has
 * probability weight[j], they are the part share[j]. */
struct draws {
    int most;
    const double *weight, *share; /* [lost + 1]; share NULL: every draw */
    double prob;                  /* set by all_draws */
};

static double share_of(const struct draws *x, int j)
{
    return x->share ? x->share[j] : 1;
}

/* The probability that some stage has no holder left, counting warm spares. */
static double warm_lost(struct spot_cost_table *t, int n, int from, int lost)
{
    const int w = warm_spares(t, n, from), size = t->d[from] * t->p[from];
    const struct spot_warm_change *const x = warm_change(t, w, from, 1, t->d[from], lost);
    double weight[SPOT_COST_LOST_MAX + 1], s = 0;

    spot_liveput_spread(n, size + x->n_warm, lost, weight);
    for (int v = 0; v <= lost && v <= size + x->n_warm; v++)
        s += weight[v] * x->lost[v];
    return s;
}

/* Seconds to move state to grids of p2 stages, summed over the draws. */
static double move_other(struct spot_cost_table *t, int from, int lost, int p2,
                         const struct draws *x)
{
    const int v = victims_of(t, from), up_to = lost < v ? lost : v;
    const double *f = other_of(t, from, p2, x->most);
    double s = 0;

    for (int j = 0; j <= up_to; j++)
        s += x->weight[j] * f[j];
    return s;
}

/* The probability of the draws. */
static double all_draws(const struct spot_cost_table *t, int from, int lost, const struct draws *x)
{
    const int v = victims_of(t, from), up_to = lost < v ? lost : v;
    double s = 0;

    for (int j = 0; j <= up_to; j++)
        s += x->weight[j] * share_of(x, j);
    return s;
}

/* Parcae's cost of a change, summed over the draws. moved: the result of move_other, if P changes.
 */
static double price(struct spot_cost_table *t, int from, int lost, int to, const struct draws *x,
                    double moved)
{
    const int v = victims_of(t, from), p2 = t->p[to], up_to = lost < v ? lost : v;
    const double restart = t->restart_s[2 * to + change_kind(t, from, lost, to)];
    const double *f;
    double s = 0;

    if (t->p[from] != p2)
        return moved + x->prob * (restart + (t->d[to] > 1 ? t->migrate.slowest_s[p2] : 0));
    if (!lost && t->d[from] == t->d[to]) /* nothing changed */
        return 0;
    f = same_of(t, from, t->d[to], x->most);
    for (int j = 0; j <= up_to; j++) {
        const double hold = f[j], move = f[v + 1 + j];

        if (x->weight[j] > 0)
            s += x->weight[j] * (hold * spot_migrate_intra_s(&t->job->cost, t->d[to], p2) +
                                 (share_of(x, j) - hold) * restart + move);
    }
    return s;
}

static size_t row_at(const struct spot_cost_table *t, int n, int from, int lost)
{
    assert(n >= t->n_low && n <= t->n_max && lost <= n && lost <= t->lost_max);
    assert(t->d[from] * t->p[from] <= n);
    return ((size_t)(n - t->n_low) * (size_t)t->n_grid + (size_t)from) * (size_t)(t->lost_max + 1) +
           (size_t)lost;
}

static struct draws draws_of(const struct spot_cost_table *t, const struct spot_cost_changes *x)
{
    return (struct draws){ .most = t->d[x->from], .weight = x->weight, .prob = x->prob };
}

struct spot_cost_changes *spot_cost_changes(struct spot_cost_table *t, int n, int from, int lost)
{
    const size_t n_grid = (size_t)t->n_grid;
    struct spot_cost_changes **at, *x;
    struct draws all;
    const int v = victims_of(t, from), size = t->d[from] * t->p[from];

    if (!lost && !t->warm) /* then the result does not depend on n */
        n = size > t->n_low ? size : t->n_low;
    at = &t->row[row_at(t, n, from, lost)];
    if (*at)
        return *at;
    x = spot_xcalloc(1, sizeof(*x) + (n_grid + (size_t)lost + 1) * sizeof(double));
    *x = (struct spot_cost_changes){
        .from = from, .lost = lost, .n = n, .weight = x->cost_s + n_grid
    };
    spot_liveput_spread(n, size, lost, x->weight);
    x->restore_s = has_warm(t, n, from) && t->job->cost.restore_s > 0
                       ? warm_lost(t, n, from, lost) * t->job->cost.restore_s
                       : restore_of(t, from, lost < v ? lost : v, x->weight);
    all = draws_of(t, x);
    x->prob = all_draws(t, from, lost, &all);
    return *at = x;
}

static double cost_of(struct spot_cost_table *t, struct spot_cost_changes *changes, int to,
                      const struct draws *all, double moved)
{
    double cost_s = price(t, changes->from, changes->lost, to, all, moved) + changes->restore_s;

    if (t->warm)
        cost_s = fmax(
            0, cost_s - spot_cost_warm_saves_s(t, changes->n, changes->from, changes->lost, to));
    return changes->cost_s[to] = cost_s;
}

double spot_cost_find(struct spot_cost_table *t, struct spot_cost_changes *changes, int to)
{
    const struct draws all = draws_of(t, changes);
    double moved = 0;

    if (t->p[changes->from] != t->p[to])
        moved = move_other(t, changes->from, changes->lost, t->p[to], &all);
    return cost_of(t, changes, to, &all, moved);
}

const double *spot_cost_row(struct spot_cost_table *t, int n, int from, int lost)
{
    struct spot_cost_changes *x;
    struct draws all;

    if (from == SPOT_GRID_NONE)
        return t->resume;
    x = spot_cost_changes(t, n, from, lost);
    if (x->is_full)
        return x->cost_s;
    all = draws_of(t, x);
    for (int i = 0; i < t->n_grid;) { /* grids with the same number of stages together */
        const int p2 = t->p[t->by_p[i]];
        const double moved = p2 != t->p[from] ? move_other(t, from, lost, p2, &all) : 0;

        for (; i < t->n_grid && t->p[t->by_p[i]] == p2; i++)
            if (x->cost_s[t->by_p[i]] <= 0)
                cost_of(t, x, t->by_p[i], &all, moved);
    }
    x->is_full = true;
    return x->cost_s;
}

double spot_cost_least_s(const struct spot_cost_table *t, int to, bool is_kept)
{
    const double *restart = &t->restart_s[2 * to];
    const double intra = spot_migrate_intra_s(&t->job->cost, t->d[to], t->p[to]);
    const double move =
        fmin(restart[0], restart[1]) + (t->d[to] > 1 ? t->migrate.slowest_s[t->p[to]] : 0);

    return is_kept ? fmin(move, intra) : move;
}

static double most_of(const double *x, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, x[i]);
    return most;
}

/* The cost of a change between two grids, for the costliest number of victims. */
static double most_between(struct spot_cost_table *t, int from, int to)
{
    const int v = victims_of(t, from), most = t->d[from];
    const double restart = fmax(t->restart_s[2 * (size_t)to], t->restart_s[2 * (size_t)to + 1]);

    if (t->p[from] != t->p[to])
        return most_of(other_of(t, from, t->p[to], most), v + 1) + restart +
               (t->d[to] > 1 ? t->migrate.slowest_s[t->p[to]] : 0);
    return most_of(same_of(t, from, t->d[to], most) + v + 1, v + 1) +
           fmax(restart, spot_migrate_intra_s(&t->job->cost, t->d[to], t->p[to]));
}

double spot_cost_most_s(struct spot_cost_table *t)
{
    double most = 0;

    for (int from = 0; t->most_s <= 0 && from < t->n_grid; from++)
        for (int to = 0; to < t->n_grid; to++)
            most = fmax(most, most_between(t, from, to));
    if (t->most_s <= 0)
        t->most_s = most * (1 + 1e-9) + t->job->cost.restore_s;
    return t->most_s;
}

/* Sums over the draws of up to `most` victims in a stage. Returns their probability; cost_s:
 * seconds to every grid. */
static double sum_draws(struct spot_cost_table *t, int n, int from, int lost, int most,
                        double *cost_s)
{
    const int size = t->d[from] * t->p[from];
    double weight[SPOT_COST_LOST_MAX + 1], share[SPOT_COST_LOST_MAX + 1], prob = 0;
    struct draws x = { most, weight, share, 0 };

    spot_liveput_spread(n, size, lost, weight);
    for (int j = 0; j <= lost; j++) {
        const struct spot_liveput g = { t->d[from], t->p[from], 0, j };

        share[j] = j > size ? 0 : spot_liveput_hold(&g, t->d[from] - most);
        prob += weight[j] * share[j];
    }
    x.prob = all_draws(t, from, lost, &x);
    for (int to = 0; to < t->n_grid; to++)
        cost_s[to] = price(t, from, lost, to, &x,
                           t->p[to] == t->p[from] ? 0 : move_other(t, from, lost, t->p[to], &x));
    for (int to = 0; t->warm && to < t->n_grid; to++)
        cost_s[to] -= saves(t, n, from, lost, to, most);
    return prob;
}

/* The outcomes by the number of intact pipelines M: M = d - most has the draws that a limit of
 * `most` victims in a stage allows and a limit of most - 1 does not. */
static struct spot_cost_outcomes *make_outcomes(struct spot_cost_table *t, int n, int from,
                                                int lost)
{
    static const double NEGLIGIBLE = 1e-9; /* smaller differences are rounding */
    const int size = t->d[from] * t->p[from], worst = lost < size ? lost : size;
    const int n_value = (worst < t->d[from] ? worst : t->d[from]) + 1;
    const size_t n_grid = (size_t)t->n_grid;
    struct spot_cost_outcomes *o = spot_xcalloc(1, sizeof(*o));
    double *sum = spot_xcalloc(2 * n_grid, sizeof(*sum)), *before = sum + n_grid, below = 0,
           all = 0, restore_s = t->job->cost.restore_s;

    o->pipelines = spot_xcalloc((size_t)n_value, sizeof(*o->pipelines));
    o->prob = spot_xcalloc((size_t)n_value, sizeof(*o->prob));
    o->cost_s = spot_xcalloc((size_t)n_value * n_grid, sizeof(*o->cost_s));
    for (int most = 0; most < n_value; most++) {
        const double up_to = sum_draws(t, n, from, lost, most, sum), prob = up_to - below;
        double *cost_s = o->cost_s + (size_t)o->n * n_grid;

        if (prob < NEGLIGIBLE)
            continue;
        if (restore_s > 0 && most == t->d[from] && has_warm(t, n, from))
            /* a mirror may have survived */
            restore_s *= fmin(1, warm_lost(t, n, from, lost) / prob);
        for (size_t to = 0; to < n_grid; to++)
            cost_s[to] =
                fmax(0, sum[to] - before[to]) / prob + (most == t->d[from] ? restore_s : 0);
        memcpy(before, sum, n_grid * sizeof(*sum));
        below = up_to;
        all += prob;
        o->pipelines[o->n] = t->d[from] - most;
        o->prob[o->n++] = prob;
    }
    for (int i = 0; i < o->n; i++)
        o->prob[i] /= all;
    free(sum);
    return o;
}

const struct spot_cost_outcomes *spot_cost_outcomes(struct spot_cost_table *t, int n, int from,
                                                    int lost)
{
    struct spot_cost_outcomes **at;

    if (!t->outcomes)
        t->outcomes = spot_xcalloc(spot_cost_n_row(t), sizeof(struct spot_cost_outcomes *));
    at = &t->outcomes[row_at(t, n, from, lost)];
    if (!*at)
        *at = make_outcomes(t, n, from, lost);
    return *at;
}

double spot_cost_drawn_s(struct spot_cost_table *t, int from, int lost, const int *dead, int to)
{
    const int d = t->d[from], p = t->p[from], d2 = t->d[to], p2 = t->p[to];
    const double restart = t->restart_s[2 * to + change_kind(t, from, lost, to)];
    double move, restore = 0;
    int holds;

    for (int k = 0; k < p; k++)
        if (dead[k] == d)
            restore = t->job->cost.restore_s;
    if (p != p2)
        return spot_repartition_other_drawn(&t->migrate, d, p, p2, dead) + restart + restore +
               (d2 > 1 ? t->migrate.slowest_s[p2] : 0);
    if (!lost && d == d2) /* the loss of spares does cost an intra-stage change */
        return 0;
    move = spot_repartition_same_drawn(&t->migrate, d, p, d2, dead, &holds);
    return restore + (holds ? spot_migrate_intra_s(&t->job->cost, d2, p2) : restart + move);
}
