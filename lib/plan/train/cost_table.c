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

/* Large losses are rare: tables are computed for a few victims, and for all once asked for more. */
static int victims_for(const struct spot_cost_table *t, int from, int lost)
{
    enum { FEW = 8 };
    const int v = victims_of(t, from);

    return lost <= FEW && v > FEW ? (int)FEW : v;
}

/* A table of n columns by victims, 0..v each: at[0] is how many victims it has so far. True if it
 * is to be computed for `victims`. */
static bool is_wanted(double **at, int n, int v, int victims)
{
    if (!*at) {
        *at = spot_xcalloc(1 + (size_t)n * ((size_t)v + 1), sizeof(double));
        (*at)[0] = -1;
    }
    if ((*at)[0] >= victims)
        return false;
    (*at)[0] = victims;
    return true;
}

/* hold[0..v] followed by move[0..v] of `from` keeping `keep` pipelines, for up to `lost` victims,
 * at most `most` of them in a stage; v is its maximum number of victims. */
static const double *same_of(struct spot_cost_table *t, int from, int keep, int most, int lost)
{
    const size_t i = (size_t)from * (size_t)(t->n_max + 1) + (size_t)keep;
    double **at = at_most(t, t->same, &t->same_most, spot_cost_n_same(t), i, from, most);
    const int v = victims_of(t, from), victims = victims_for(t, from, lost);

    if (is_wanted(at, 2, v, victims))
        spot_repartition_same(&t->migrate, t->d[from], t->p[from], keep, most, victims, *at + 1,
                              *at + v + 2);
    return *at + 1;
}

static const double *other_of(struct spot_cost_table *t, int from, int p2, int most, int lost)
{
    const size_t i = (size_t)from * (size_t)(t->p_max + 1) + (size_t)p2;
    double **at = at_most(t, t->other, &t->other_most, spot_cost_n_other(t), i, from, most);
    const int v = victims_of(t, from), victims = victims_for(t, from, lost);

    if (is_wanted(at, 1, v, victims)) {
        spot_repartition_other(&t->migrate, t->d[from], t->p[from], p2, most, victims, *at + 1);
        if (t->is_released)
            spot_repartition_by_node(&t->migrate, t->d[from], t->p[from], p2, most,
                                     v < VICTIMS_BY_NODE ? v : VICTIMS_BY_NODE, *at + 1);
    }
    return *at + 1;
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
    plain = same_of(t, from, t->d[to], most, lost) + v + 1;
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
    const double *f = other_of(t, from, p2, x->most, lost);
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
    double s = 0, intra;

    if (t->p[from] != p2)
        return moved + x->prob * (restart + (t->d[to] > 1 ? t->migrate.slowest_s[p2] : 0));
    if (!lost && t->d[from] == t->d[to]) /* nothing changed */
        return 0;
    f = same_of(t, from, t->d[to], x->most, lost);
    intra = spot_migrate_intra_s(&t->job->cost, t->d[to], p2);
    for (int j = 0; j <= up_to; j++) {
        const double hold = f[j], move = f[v + 1 + j];

        if (x->weight[j] > 0)
            s += x->weight[j] * (hold * intra + (share_of(x, j) - hold) * restart + move);
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
        return most_of(other_of(t, from, t->p[to], most, v), v + 1) + restart +
               (t->d[to] > 1 ? t->migrate.slowest_s[t->p[to]] : 0);
    return most_of(same_of(t, from, t->d[to], most, v) + v + 1, v + 1) +
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

/* The longest transfer of up to that many bytes; longer ones may be quicker. */
static double longest_s(const struct spot_job_cost *cost, double byte)
{
    double s = spot_migrate_p2p_s(cost, byte);

    for (size_t i = 0; i < cost->n_p2p && (!i || cost->p2p[i].x < byte); i++)
        s = fmax(s, cost->p2p[i].y);
    return s;
}

double spot_cost_limit_s(const struct spot_cost_table *t, int lost)
{
    const struct spot_migrate_cost *m = &t->migrate;
    const struct spot_job_cost *cost = &t->job->cost;
    double most = 0;

    for (int to = 0; to < t->n_grid; to++) {
        const int p = t->p[to];
        const double begin = fmax(fmax(t->restart_s[2 * to], t->restart_s[2 * to + 1]),
                                  spot_migrate_intra_s(cost, t->d[to], p));
        const double params = most_of(m->params + (size_t)p * (size_t)m->p_max, p);
        /* a stage more than was lost: the last replica of the last stage counts as none */
        const double all_s = fmin(m->all_s[p], (lost + 1) * m->slowest_s[p]);

        most = fmax(most,
                    begin + fmax(all_s, m->slowest_s[p] +
                                            longest_s(cost, params * cost->move_byte_per_param)));
    }
    return most + cost->restore_s;
}

/* The draws of up to `most` victims in a stage, as parts of those with j victims in the grid. */
static const double *shares_of(struct spot_cost_table *t, int from, int most)
{
    const int v = victims_of(t, from);
    double **at = &t->share[(size_t)from * ((size_t)t->lost_max + 1) + (size_t)most];

    if (*at)
        return *at;
    *at = spot_xcalloc((size_t)v + 1, sizeof(double));
    for (int j = 0; j <= v; j++) {
        const struct spot_liveput g = { t->d[from], t->p[from], 0, j };

        (*at)[j] = spot_liveput_hold(&g, t->d[from] - most);
    }
    return *at;
}

/* The outcomes by the number of intact pipelines M: M = d - most has the draws that a limit of
 * `most` victims in a stage allows and a limit of most - 1 does not. */
static struct spot_cost_outcomes *make_outcomes(struct spot_cost_table *t, int n, int from,
                                                int lost)
{
    static const double NEGLIGIBLE = 1e-9; /* smaller differences are rounding */
    const int size = t->d[from] * t->p[from], worst = lost < size ? lost : size;
    const int n_value = (worst < t->d[from] ? worst : t->d[from]) + 1;
    struct spot_cost_outcomes *o = spot_xcalloc(1, sizeof(*o));
    double below = 0, all = 0;

    *o = (struct spot_cost_outcomes){
        .instances = n, .from = from, .lost = lost, .restore_s = t->job->cost.restore_s
    };
    o->pipelines = spot_xcalloc((size_t)n_value, sizeof(*o->pipelines));
    o->prob = spot_xcalloc(2 * (size_t)n_value + (size_t)lost + 1, sizeof(*o->prob));
    o->up_to = o->prob + n_value;
    o->weight = o->up_to + n_value;
    spot_liveput_spread(n, size, lost, o->weight);
    for (int most = 0; most < n_value; most++) {
        const struct draws x = { .weight = o->weight, .share = shares_of(t, from, most) };
        const double up_to = all_draws(t, from, lost, &x), prob = up_to - below;

        if (prob < NEGLIGIBLE)
            continue;
        if (o->restore_s > 0 && most == t->d[from] && has_warm(t, n, from))
            /* a mirror may have survived */
            o->restore_s *= fmin(1, warm_lost(t, n, from, lost) / prob);
        all += prob;
        o->up_to[o->n] = below = up_to;
        o->pipelines[o->n] = t->d[from] - most;
        o->prob[o->n++] = prob;
    }
    for (int i = 0; i < o->n; i++)
        o->prob[i] /= all;
    return o;
}

/* Seconds to a grid, summed over the draws that leave at least as many pipelines as outcome i. */
static double sum_up_to(struct spot_cost_table *t, const struct spot_cost_outcomes *o, int i,
                        int to)
{
    const int from = o->from, most = t->d[from] - o->pipelines[i];
    const struct draws x = { most, o->weight, shares_of(t, from, most), o->up_to[i] };
    const double moved = t->p[to] == t->p[from] ? 0 : move_other(t, from, o->lost, t->p[to], &x);

    return price(t, from, o->lost, to, &x, moved) -
           (t->warm ? saves(t, o->instances, from, o->lost, to, most) : 0);
}

double spot_cost_outcome_s(struct spot_cost_table *t, const struct spot_cost_outcomes *o, int i,
                           int to)
{
    const double prob = o->up_to[i] - (i ? o->up_to[i - 1] : 0);
    const double sum = sum_up_to(t, o, i, to) - (i ? sum_up_to(t, o, i - 1, to) : 0);

    return fmax(0, sum) / prob + (o->pipelines[i] ? 0 : o->restore_s);
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
