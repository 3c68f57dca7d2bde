/* SPDX-License-Identifier: MIT */
/* Losses are known in advance, gains are not, and a migration may be unfinished: all grids of one
 * count at once. Where nothing is lost, what a change gives depends on the count that it leads to,
 * not on the count before: it is computed once for each count, target and grid before, and the
 * value of a target is a sum of such rows over the gains. Sums are added in the order of
 * liveput_before.c: the values are equal to the bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/simd.h"
#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

/* A gain: the target is chosen before it is known. */
struct gained {
    double share;
    const double *value; /* after it */
    const double *gives; /* [n_grid * 2 * row] by target */
    const int *cut;      /* by rank: the grid to which it is reduced; n_grid: suspended */
};

/* A row is by rank before, first without and then with an unfinished migration. */
struct spot_liveput_step {
    struct spot_liveput_dp *dp;
    size_t row;    /* n_grid + 1 or a little more */
    double *gives; /* [n_context * counts * n_grid * 2 * row]; 0 where an unfinished migration goes
                      on: the rest of it determines that */
    bool *goes_on; /* [n_grid * row] by target and rank before: such a change costs nothing */
    /* of one count */
    int n, n_gained;
    struct gained gained[SPOT_LIVEPUT_EVENTS];
    double *up;    /* [(n_grid + 1) * 2 * row] by target: the sum over gains */
    bool *has_up;  /* [n_grid + 1] */
    bool *waits;   /* [n_grid * row] by target and rank before: it goes on in some event */
    double *known; /* [n_node * row] the sum over losses */
    double *best;  /* [2 * row] in one context; with an unfinished migration without waits */
    double *sum;   /* [2 * row] */
    int *to;       /* [row] the best target with an unfinished migration */
};

static size_t gives_at(const struct spot_liveput_step *s, int context, int n)
{
    const struct spot_liveput_dp *dp = s->dp;

    return (size_t)(context * (dp->n_max - dp->n_low + 1) + n - dp->n_low) * (size_t)dp->n_grid *
           2 * s->row;
}

bool spot_liveput_has_step(const struct spot_liveput_dp *dp)
{
    return dp->sees_losses && !dp->has_notice && !dp->sees_victims && dp->n_node > 1 &&
           dp->n_context <= SPOT_LIVEPUT_TAIL_CONTEXTS && !dp->table->warm && !dp->is_shut &&
           !dp->tries_all;
}

struct spot_liveput_step *spot_liveput_step_new(struct spot_liveput_dp *dp)
{
    struct spot_liveput_step *s = spot_xcalloc(1, sizeof(*s));
    const size_t n_grid = (size_t)dp->n_grid, row = (n_grid + 4) / 4 * 4;
    const size_t all = (size_t)(dp->n_context * (dp->n_max - dp->n_low + 1)) * n_grid * 2 * row;
    const size_t n_node = (size_t)dp->n_node;

    s->dp = dp;
    s->row = row;
    s->gives = spot_xcalloc(all + (2 * n_grid + 6 + n_node) * row, sizeof(double));
    s->up = s->gives + all;
    s->best = s->up + (n_grid + 1) * 2 * row;
    s->sum = s->best + 2 * row;
    s->known = s->sum + 2 * row;
    s->goes_on = spot_xcalloc((2 * n_grid + 1) * row, sizeof(bool));
    s->waits = s->goes_on + n_grid * row;
    s->has_up = s->waits + n_grid * row;
    s->to = spot_xcalloc(row, sizeof(int));
    return s;
}

void spot_liveput_step_free(struct spot_liveput_step *s)
{
    if (!s)
        return;
    free(s->gives);
    free(s->goes_on);
    free(s->to);
    free(s);
}

static void fill_rank(struct spot_liveput_step *s, int rank, bool is_owing)
{
    struct spot_liveput_dp *dp = s->dp;
    const struct spot_liveput_gain *g = spot_liveput_gain_of(dp, dp->n_max, rank, 0, is_owing);
    const struct spot_liveput_outcome o = spot_liveput_outcome_of(g, 0, dp->n_grid);
    const size_t wide = (size_t)dp->n_grid + 1, at = (size_t)is_owing * s->row + (size_t)rank;

    for (int c = 0; c < dp->n_context; c++)
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            const double *value = spot_liveput_dp_value(dp, c, n);
            double *gives = s->gives + gives_at(s, c, n) + at;

            for (int r = 0; r < dp->n_fit[n]; r++)
                gives[(size_t)r * 2 * s->row] = o.of[r] == -INFINITY ? 0
                                                : o.at ? spot_liveput_worth(&o, value, wide, r)
                                                       : o.of[r] + value[r];
        }
    for (int r = 0; is_owing && r < dp->n_grid; r++)
        s->goes_on[(size_t)r * s->row + (size_t)rank] = o.of[r] == -INFINITY;
}

void spot_liveput_step_turn(struct spot_liveput_step *s)
{
    for (int rank = 0; rank <= s->dp->n_grid; rank++) {
        fill_rank(s, rank, false);
        if (rank < s->dp->n_grid)
            fill_rank(s, rank, true);
    }
}

static const int *cut_at(const struct spot_liveput_step *s, int n)
{
    return s->dp->clip + (size_t)n * ((size_t)s->dp->n_grid + 1);
}

static void add_gain(struct spot_liveput_step *s, const struct spot_liveput_event *event)
{
    const int n = s->n + event->change;

    s->gained[s->n_gained++] = (struct gained){ event->prob, spot_liveput_dp_value(s->dp, 0, n),
                                                s->gives + gives_at(s, 0, n), cut_at(s, n) };
}

/* --- losses, known in advance --- */

static void add_loss(struct spot_liveput_step *s, double prob, int lost)
{
    struct spot_liveput_dp *dp = s->dp;
    const int n2 = s->n - lost;
    const double *value = spot_liveput_dp_value(dp, 0, n2);
    const struct spot_liveput_gain *g;
    int to;

    for (int rank = 0; rank < dp->n_fit[s->n]; rank++) {
        double *known = s->known + rank, other;

        g = spot_liveput_gain_of(dp, s->n, rank, -lost, false);
        *known += prob * spot_liveput_best(dp, g, 0, value, n2, &to);
        g = spot_liveput_gain_of(dp, s->n, rank, -lost, true);
        other = spot_liveput_best(dp, g, 0, value, n2, &to);
        spot_liveput_at_nodes(dp, g, 0, value, n2, to, other, dp->at_node);
        for (int node = 1; node < dp->n_node; node++)
            known[(size_t)node * s->row] += prob * dp->at_node[node];
    }
    g = spot_liveput_gain_of(dp, s->n, dp->n_grid, -lost, false);
    s->known[dp->n_grid] += prob * spot_liveput_best(dp, g, 0, value, n2, &to);
}

/* --- no change or a gain: the target is chosen before it is known --- */

/* up[] of target r; n_grid: suspended. */
SPOT_SIMD_INLINE void fill_up_inline(struct spot_liveput_step *s, int r)
{
    const int n_grid = s->dp->n_grid;
    const size_t row = 2 * s->row;
    double *restrict up = s->up + (size_t)r * row;

    for (size_t i = 0; i < row; i++)
        up[i] = 0;
    for (int e = 0; e < s->n_gained; e++) {
        const struct gained *g = &s->gained[e];
        const int to = r == n_grid ? r : g->cut[r];
        const double share = g->share, nothing = share * g->value[n_grid];
        const double *restrict gives = g->gives + (size_t)to * row;

        for (size_t i = 0; to == n_grid && i < row; i++)
            up[i] += nothing;
        for (size_t i = 0; to < n_grid && i < row; i++)
            up[i] += share * gives[i];
    }
    s->has_up[r] = true;
}

SPOT_SIMD_TWICE(fill_up, (struct spot_liveput_step * s, int r), (s, r))

static void mark(struct spot_liveput_step *s, int r, int to)
{
    for (size_t i = 0; to < s->dp->n_grid && i < s->row; i++)
        s->waits[(size_t)r * s->row + i] |= s->goes_on[(size_t)to * s->row + i];
}

static void find_waits(struct spot_liveput_step *s)
{
    const int *cut = cut_at(s, s->n);

    memset(s->waits, 0, (size_t)s->dp->n_grid * s->row * sizeof(bool));
    for (int r = 0; r < s->dp->n_grid; r++) {
        int last = cut[r];

        mark(s, r, last);
        for (int e = 0; e < s->n_gained; e++)
            if (s->gained[e].cut[r] != last)
                mark(s, r, last = s->gained[e].cut[r]);
    }
}

/* sum[]: the value of choosing r in a context. */
static void sum_of(struct spot_liveput_step *s, const struct spot_liveput_way *way, int context,
                   int r)
{
    const int n_grid = s->dp->n_grid, to = r == n_grid ? r : cut_at(s, s->n)[r];
    const size_t row = 2 * s->row;
    const double still = way->still, gain = way->up, *restrict up = s->up + (size_t)r * row;
    const double nothing = still * spot_liveput_dp_value(s->dp, context, s->n)[n_grid];
    const double *restrict gives = s->gives + gives_at(s, context, s->n) + (size_t)to * row;
    double *restrict sum = s->sum;

    if (!s->has_up[r])
        fill_up(s, r);
    for (size_t i = 0; to == n_grid && i < row; i++)
        sum[i] = nothing + gain * up[i];
    for (size_t i = 0; to < n_grid && i < row; i++)
        sum[i] = still * gives[i] + gain * up[i];
}

/* best[] and to[] from one rank, if sum[] of target r is better. */
static void enter(struct spot_liveput_step *s, int r, int rank)
{
    const size_t i = s->row + (size_t)rank;

    s->best[rank] = s->sum[rank] > s->best[rank] ? s->sum[rank] : s->best[rank];
    if (s->sum[i] > s->best[i] && !s->waits[(size_t)r * s->row + (size_t)rank]) {
        s->best[i] = s->sum[i];
        s->to[rank] = r;
    }
}

/* Try one target from every rank. Returns the least of the best values so far. */
static double try(struct spot_liveput_step *s, int r)
{
    const int n_grid = s->dp->n_grid;
    double least;

    s->best[n_grid] = fmax(s->best[n_grid], s->sum[n_grid]);
    least = s->best[n_grid];
    for (int rank = 0; rank < s->dp->n_fit[s->n]; rank++) {
        const double *best = s->best + rank;

        enter(s, r, rank);
        least = best[0] < least ? best[0] : least;
        least = best[s->row] < least ? best[s->row] : least;
    }
    return least;
}

static void choose(struct spot_liveput_step *s, const struct spot_liveput_dists *dists, int context,
                   struct spot_liveput_space *space)
{
    const struct spot_liveput_dp *dp = s->dp;
    const struct spot_liveput_way *way = &dists->way[context];
    const struct spot_liveput_most *most = spot_liveput_most_of(dp, dists, s->n, context, space);
    double least = -INFINITY;

    sum_of(s, way, context, dp->n_grid);
    memcpy(s->best, s->sum, 2 * s->row * sizeof(*s->best));
    for (size_t i = 0; i < s->row; i++)
        s->to[i] = dp->n_grid;
    for (int r = 0; r < dp->n_fit[s->n]; r++) { /* the same grid comes first */
        sum_of(s, way, context, r);
        enter(s, r, r);
    }
    for (int i = 0; i < dp->n_grid; i++) {
        const int r = most->order[context][i];
        const double limit = most->of[context][r];

        if (limit + 1e-9 * fabs(limit) <= least)
            break;
        sum_of(s, way, context, r);
        least = try(s, r);
    }
}

/* at_node[] of choosing a target r with which an unfinished migration to `rank` goes on in some
 * events. */
static void wait(struct spot_liveput_step *s, const struct spot_liveput_way *way, int context,
                 int r, int rank)
{
    const struct spot_liveput_dp *dp = s->dp;
    const double *value = spot_liveput_dp_value(dp, context, s->n);
    const bool *goes_on = s->goes_on + rank;
    int to = cut_at(s, s->n)[r];

    for (int node = 1; node < dp->n_node; node++) {
        dp->at_node[node] = s->sum[s->row + (size_t)rank];
        if (to < dp->n_grid && goes_on[(size_t)to * s->row])
            dp->at_node[node] += way->still * spot_liveput_go_on(dp, value, to, node);
    }
    for (int e = 0; e < s->n_gained; e++) {
        const struct gained *g = &s->gained[e];
        const double prob = way->up * g->share;

        to = g->cut[r];
        for (int node = 1; node < dp->n_node && to < dp->n_grid && goes_on[(size_t)to * s->row];
             node++)
            dp->at_node[node] += prob * spot_liveput_go_on(dp, g->value, to, node);
    }
}

/* next[] of a context. */
static void finish(struct spot_liveput_step *s, const struct spot_liveput_way *way, int context)
{
    struct spot_liveput_dp *dp = s->dp;
    const int n_from = dp->n_fit[s->n];
    const size_t wide = (size_t)dp->n_grid + 1;
    double *next = dp->next + spot_liveput_value_at(dp, context, s->n);

    next[dp->n_grid] = s->best[dp->n_grid] + way->down * s->known[dp->n_grid];
    for (int rank = 0; rank < n_from; rank++) {
        next[rank] = s->best[rank] + way->down * s->known[rank];
        spot_liveput_at_nodes(dp, spot_liveput_gain_of(dp, dp->n_max, rank, 0, true), -1, NULL, 0,
                              s->to[rank], s->best[s->row + (size_t)rank], dp->at_node);
        for (int node = 1; node < dp->n_node; node++)
            next[(size_t)node * wide + (size_t)rank] = dp->at_node[node];
    }
    for (int r = 0; r < dp->n_grid; r++) {
        const bool *waits = s->waits + (size_t)r * s->row;

        if (!memchr(waits, 1, (size_t)n_from))
            continue;
        sum_of(s, way, context, r);
        for (int rank = 0; rank < n_from; rank++) {
            if (!waits[rank])
                continue;
            wait(s, way, context, r, rank);
            for (int node = 1; node < dp->n_node; node++) {
                double *at = next + (size_t)node * wide + rank;

                *at = dp->at_node[node] > *at ? dp->at_node[node] : *at;
            }
        }
    }
    for (int node = 1; node < dp->n_node; node++)
        for (int rank = 0; rank < n_from; rank++)
            next[(size_t)node * wide + (size_t)rank] +=
                way->down * s->known[(size_t)node * s->row + (size_t)rank];
}

void spot_liveput_step_count(struct spot_liveput_step *s, const struct spot_liveput_dists *dists,
                             int n, struct spot_liveput_space *space)
{
    const struct spot_liveput_dp *dp = s->dp;

    s->n = n;
    s->n_gained = 0;
    memset(s->known, 0, (size_t)dp->n_node * s->row * sizeof(*s->known));
    memset(s->has_up, 0, ((size_t)dp->n_grid + 1) * sizeof(bool));
    for (int e = 1; e < dists->n_event; e++)
        if (dists->event[e].change > 0)
            add_gain(s, &dists->event[e]);
        else
            add_loss(s, dists->event[e].prob, -dists->event[e].change);
    find_waits(s);
    for (int c = 0; c < dp->n_context; c++) {
        choose(s, dists, c, space);
        finish(s, &dists->way[c], c);
    }
}
