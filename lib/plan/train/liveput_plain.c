/* SPDX-License-Identifier: MIT */
/* A step of a forecast if losses are known in advance and gains are not, and the state has no
 * unfinished migration: all grids of one count at once. What a change to a target gives is cached
 * as a column, indexed by the grid before, so that one loop evaluates a target for all of these
 * grids. Targets are taken in descending order of their upper bounds, up to the first that improves
 * none. Sums are added in the order of liveput_before.c: the values are equal to the bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

/* Samples gained in the interval of a change. */
struct spot_liveput_plain {
    /* [counts * (lost_max + 1) * n_grid] by count, victims and target: [n_fit] by rank before.
     * Without victims all counts share one, [n_grid]. */
    double **column;
    double **stay;   /* [counts * (lost_max + 1)] the same for staying on the same grid, [n_fit] */
    double *resumed; /* [n_grid] from a suspension, by target */
    double *told, *then, *sum; /* [n_grid] by rank before */
    /* [n_grid] by target: upper bound; what to add to it where a reduction costs nothing */
    double *most, *free;
    double *resume; /* [n_grid] by target: value from a suspension */
    double *best;   /* [n_grid] by rank before: best value so far */
};

static size_t n_key(const struct spot_liveput_dp *dp)
{
    return (size_t)(dp->n_max - dp->n_low + 1) * ((size_t)dp->table->lost_max + 1);
}

void spot_liveput_plain_free(struct spot_liveput_dp *dp)
{
    struct spot_liveput_plain *p = dp->plain;

    if (!p)
        return;
    for (size_t i = 0; i < n_key(dp) * (size_t)dp->n_grid; i++)
        free(p->column[i]);
    for (size_t i = 0; i < n_key(dp); i++)
        free(p->stay[i]);
    free(p->column);
    free(p->stay);
    free(p->resumed);
    free(p);
    dp->plain = NULL;
}

static void make(struct spot_liveput_dp *dp)
{
    const size_t n_grid = (size_t)dp->n_grid;
    struct spot_liveput_plain *p = spot_xcalloc(1, sizeof(*p));
    double *memory = spot_xcalloc(8 * n_grid + 1, sizeof(*memory));
    const double *cost_s = spot_cost_row(dp->table, dp->n_max, SPOT_GRID_NONE, 0);

    p->column = spot_xcalloc(n_key(dp) * n_grid + 1, sizeof(*p->column));
    p->stay = spot_xcalloc(n_key(dp), sizeof(*p->stay));
    p->resumed = memory;
    p->told = memory + n_grid;
    p->then = memory + 2 * n_grid;
    p->sum = memory + 3 * n_grid;
    p->most = memory + 4 * n_grid; /* these four are cleared together */
    p->free = memory + 5 * n_grid;
    p->resume = memory + 6 * n_grid;
    p->best = memory + 7 * n_grid;
    for (int r = 0; r < dp->n_grid; r++) {
        const int to = dp->by_size[r];

        p->resumed[r] = dp->table->samples_per_s[to] * (dp->interval_s - cost_s[to]);
    }
    dp->plain = p;
}

static double gives(struct spot_liveput_dp *dp, int n, int from, int lost, int to)
{
    return spot_liveput_gives(dp, spot_cost_changes(dp->table, n, dp->by_size[from], lost), to);
}

static size_t key_of(const struct spot_liveput_dp *dp, int n, int lost)
{
    return lost ? (size_t)(n - dp->n_low) * ((size_t)dp->table->lost_max + 1) + (size_t)lost : 0;
}

static const double *column_of(struct spot_liveput_dp *dp, int n, int lost, int to)
{
    double **at = &dp->plain->column[key_of(dp, n, lost) * (size_t)dp->n_grid + (size_t)to];
    const int n_from = lost ? dp->n_fit[n] : dp->n_grid;

    if (*at)
        return *at;
    *at = spot_xcalloc((size_t)n_from, sizeof(**at));
    for (int from = 0; from < n_from; from++)
        (*at)[from] = gives(dp, lost ? n : dp->n_max, from, lost, to);
    return *at;
}

static const double *stay_of(struct spot_liveput_dp *dp, int n, int lost)
{
    double **at = &dp->plain->stay[key_of(dp, n, lost)];
    const int n_from = lost ? dp->n_fit[n] : dp->n_grid;

    if (*at)
        return *at;
    *at = spot_xcalloc((size_t)n_from + 1, sizeof(**at));
    for (int from = 0; from < n_from; from++)
        (*at)[from] = gives(dp, lost ? n : dp->n_max, from, lost, from);
    return *at;
}

/* best[] = max(best[], x[]). Returns the smallest best[]. */
static double raise_to(double *restrict best, const double *restrict x, int n)
{
    double least = INFINITY;

    for (int i = 0; i < n; i++)
        best[i] = x[i] > best[i] ? x[i] : best[i];
    for (int i = 0; i < n; i++)
        least = best[i] < least ? best[i] : least;
    return least;
}

/* --- a loss, known in advance --- */

static double after_loss_of_nothing(const struct spot_liveput_dp *dp, int n2)
{
    const double *value = spot_liveput_dp_value(dp, 0, n2);
    double best = value[dp->n_grid];

    for (int r = 0; r < dp->n_fit[n2]; r++)
        best = dp->plain->resumed[r] + value[r] > best ? dp->plain->resumed[r] + value[r] : best;
    return best;
}

/* then[], by rank before with n instances: the best value when `lost` of them leave. */
static void after_loss(struct spot_liveput_dp *dp, int n, int lost, double *then)
{
    const int n_from = dp->n_fit[n], n2 = n - lost, n_fit = dp->n_fit[n2];
    const double *value = spot_liveput_dp_value(dp, 0, n2), *stay = stay_of(dp, n, lost);
    const struct spot_liveput_target *target = spot_liveput_targets(dp, dp->most, value, n2);
    double *sum = dp->plain->sum, least = -INFINITY;

    for (int r = 0; r < n_from; r++)
        then[r] = value[dp->n_grid];
    for (int r = 0; r < n_fit; r++)
        then[r] = stay[r] + value[r] > then[r] ? stay[r] + value[r] : then[r];
    for (int i = 0; i < n_fit; i++) {
        const int to = target[i].rank;
        const double *column;

        if (target[i].most + 1e-9 * fabs(target[i].most) <= least)
            break;
        column = column_of(dp, n, lost, to);
        for (int r = 0; r < n_from; r++)
            sum[r] = column[r] + value[to];
        least = raise_to(then, sum, n_from);
    }
}

/* --- no change or a gain: the target is chosen before it is known --- */

/* The events at one count: the gains, then no change, in the order in which they are summed. */
struct coming {
    struct spot_liveput_dp *dp;
    int n, n_event;
    struct {
        double prob;
        const double *value; /* values after it */
        const int *cut;      /* [target] the grid to which it is reduced; n_grid: suspended */
    } event[SPOT_LIVEPUT_EVENTS];
};

static void add_coming(struct coming *c, const struct spot_liveput_event *event)
{
    const int n = c->n + event->change;
    const struct spot_liveput_dp *dp = c->dp;

    c->event[c->n_event].prob = event->prob;
    c->event[c->n_event].value = spot_liveput_dp_value(dp, 0, n);
    c->event[c->n_event++].cut = dp->clip + (size_t)n * ((size_t)dp->n_grid + 1);
}

/* Add an event to the bounds of all targets: first those that fit, then those that have to be
 * reduced. */
static void fill_event(const struct coming *c, int e, const double *restrict stay)
{
    const struct spot_liveput_dp *dp = c->dp;
    struct spot_liveput_plain *p = dp->plain;
    const int n_from = dp->n_fit[c->n], *cut = c->event[e].cut;
    const double prob = c->event[e].prob, *restrict value = c->event[e].value;
    double *restrict most = p->most, *restrict resume = p->resume, *restrict best = p->best;

    for (int r = 0; r < n_from; r++) {
        most[r] += prob * (dp->most[r] + value[r]);
        resume[r] += prob * (p->resumed[r] + value[r]);
        best[r] += prob * (stay[r] + value[r]);
    }
    for (int r = n_from; r < dp->n_grid; r++) {
        const int to = cut[r];
        const bool runs = to < dp->n_grid;

        most[r] += prob * ((runs ? dp->most[to] : 0) + value[to]);
        resume[r] += prob * ((runs ? p->resumed[to] : 0) + value[to]);
        if (runs && to != r)
            p->free[r] +=
                prob * (dp->table->samples_per_s[dp->by_size[to]] * dp->interval_s - dp->most[to]);
    }
}

/* Compute most[], free[] and resume[] of all targets, and best[] of continuing with the same grid.
 */
static void fill(const struct coming *c)
{
    struct spot_liveput_plain *p = c->dp->plain;
    const double *stay = stay_of(c->dp, c->n, 0);

    memset(p->most, 0, 4 * (size_t)c->dp->n_grid * sizeof(*p->most));
    for (int e = 0; e < c->n_event; e++)
        fill_event(c, e, stay);
}

/* sum[n]: the value of choosing r, by rank before from `first` on. */
static void sum_from(const struct coming *c, int r, int first, int n, double *restrict sum)
{
    struct spot_liveput_dp *dp = c->dp;

    for (int i = 0; i < n; i++)
        sum[i] = 0;
    for (int e = 0; e < c->n_event; e++) {
        const int to = r == dp->n_grid ? r : c->event[e].cut[r];
        const double prob = c->event[e].prob, then = c->event[e].value[to];
        const double *restrict give;

        if (to == dp->n_grid) {
            for (int i = 0; i < n; i++)
                sum[i] += prob * then;
            continue;
        }
        give = dp->plain->column[to] ? dp->plain->column[to] : column_of(dp, c->n, 0, to);
        give += first;
        for (int i = 0; i < n; i++)
            sum[i] += prob * (give[i] + then);
    }
}

/* The target with the highest bound above `least` among those not examined yet, or -1. */
static int next_of(const struct coming *c, double least)
{
    const struct spot_liveput_plain *p = c->dp->plain;
    int at = -1;

    for (int r = 0; r < c->dp->n_grid; r++)
        if (p->most[r] + 1e-9 * fabs(p->most[r]) > least) {
            least = p->most[r] + 1e-9 * fabs(p->most[r]);
            at = r;
        }
    return at;
}

/* Try r from the grids to which it is reduced: to stay on those costs nothing. */
static void try_cuts(const struct coming *c, int r)
{
    const struct spot_liveput_dp *dp = c->dp;
    struct spot_liveput_plain *p = dp->plain;
    const double most = p->most[r] + p->free[r];
    int before = -1;

    for (int e = 0; e < c->n_event; e++) {
        const int from = c->event[e].cut[r];
        double x;

        if (from == before || from >= dp->n_fit[c->n] || from == r)
            continue;
        before = from;
        if (most + 1e-9 * fabs(most) <= p->best[from])
            continue;
        sum_from(c, r, from, 1, &x);
        p->best[from] = fmax(p->best[from], x);
    }
}

/* Compute best[] for each rank before with n instances; returns that of a suspension. */
static double choose(const struct coming *c)
{
    struct spot_liveput_dp *dp = c->dp;
    struct spot_liveput_plain *p = dp->plain;
    const int n_from = dp->n_fit[c->n];
    double resumed, least;

    fill(c);
    sum_from(c, dp->n_grid, 0, 1, &resumed);
    for (int r = 0; r < n_from; r++) /* being suspended gives the same from every grid */
        p->best[r] = p->best[r] > resumed ? p->best[r] : resumed;
    for (int r = 0; r < dp->n_grid; r++)
        resumed = p->resume[r] > resumed ? p->resume[r] : resumed;
    least = n_from ? -INFINITY : INFINITY;
    for (int r; (r = next_of(c, least)) >= 0; p->most[r] = -INFINITY) {
        sum_from(c, r, 0, n_from, p->sum);
        least = raise_to(p->best, p->sum, n_from);
    }
    for (int r = n_from; r < dp->n_grid; r++)
        try_cuts(c, r);
    return resumed;
}

bool spot_liveput_is_plain(const struct spot_liveput_dp *dp)
{
    return dp->sees_losses && !dp->has_notice && !dp->sees_victims && dp->n_node == 1 &&
           dp->n_context == 1 && !dp->table->warm && !dp->is_shut && !dp->tries_all;
}

void spot_liveput_plain(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n)
{
    struct coming c = { .dp = dp, .n = n };
    double *next = dp->next + spot_liveput_value_at(dp, 0, n), resumed, nothing = 0;
    struct spot_liveput_plain *p;

    if (!dp->plain)
        make(dp);
    p = dp->plain;
    memset(p->told, 0, (size_t)dp->n_grid * sizeof(*p->told));
    for (int e = 1; e < dists->n_event; e++) {
        const double prob = dists->event[e].prob;
        const int lost = -dists->event[e].change;

        if (lost < 0)
            add_coming(&c, &dists->event[e]);
        if (lost <= 0)
            continue;
        after_loss(dp, n, lost, p->then);
        for (int r = 0; r < dp->n_fit[n]; r++)
            p->told[r] += prob * p->then[r];
        nothing += prob * after_loss_of_nothing(dp, n - lost);
    }
    add_coming(&c, &dists->event[0]);
    resumed = choose(&c);
    for (int r = 0; r < dp->n_fit[n]; r++)
        next[r] = p->best[r] + p->told[r];
    next[dp->n_grid] = resumed + nothing;
}
