/* SPDX-License-Identifier: MIT */
/* Samples gained in one interval, and the rest of a migration that does not finish in it: computed
 * on demand and cached. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

/* intervals for which a migration can be left unfinished, as represented in the state */
enum { SPANS_MAX = 8 };

static size_t wide_of(const struct spot_liveput_dp *dp)
{
    return (size_t)dp->n_grid + 1;
}

/* For outcome i: of[], left_s[], free[]. n instances are left; new ones are not warm yet. */
static void fill(struct spot_liveput_dp *dp, const double *row_s, int n, int rank, bool is_owing,
                 int i, struct spot_liveput_gain *g)
{
    struct spot_cost_table *t = dp->table;
    const size_t row = (size_t)i * wide_of(dp);

    for (int r = 0; r < dp->n_grid; r++) {
        const int to = dp->by_size[r];
        const double cost_s = g->told ? spot_cost_outcome_s(t, g->told, i, to) : row_s[to];
        const double more =
            is_owing && !t->carries_rest ? t->restart_s[2 * to + SPOT_CHANGE_REMOVE] : 0;
        const double total = cost_s + more, left = total - dp->interval_s;

        if (is_owing && cost_s <= 0) {
            g->of[row + (size_t)r] = -INFINITY;
            g->free[row + (size_t)g->n_free[i]++] = r;
            continue;
        }
        g->of[row + (size_t)r] = spot_cost_rate(t, n, to) * (dp->interval_s - total);
        if (left <= 0 || !dp->node_per_span)
            continue;
        if (!g->left_s)
            g->left_s = spot_xcalloc((size_t)g->n * wide_of(dp), sizeof(*g->left_s));
        g->left_s[row + (size_t)r] = left;
        if (rank < dp->n_grid)
            g->left_max_s = fmax(g->left_max_s, left);
    }
}

/* Where left_s lies among the nodes: returns the node below; *part: the weight of the node above;
 * *beyond_s: the time beyond the last node. */
static int place(const struct spot_liveput_dp *dp, double left_s, double *part, double *beyond_s)
{
    const int m = dp->node_per_span, n_span = m ? (dp->n_node - 1) / m : 0;
    int span, i;
    double x;

    *part = *beyond_s = 0;
    if (left_s <= 0)
        return 0;
    if (left_s >= n_span * dp->interval_s) {
        *beyond_s = left_s - n_span * dp->interval_s;
        return dp->n_node - 1; /* without nodes this is 0 */
    }
    span = (int)ceil(left_s / dp->interval_s) - 1;
    span = span < 0 ? 0 : span < n_span ? span : n_span - 1;
    x = (left_s / dp->interval_s - span) * (m - 1);
    x = fmin(fmax(x, 0), m - 1);
    i = (int)x < m - 2 ? (int)x : m - 2;
    *part = x - i;
    return 1 + span * m + i;
}

static void place_gain(const struct spot_liveput_dp *dp, struct spot_liveput_gain *g)
{
    const size_t wide = wide_of(dp), n = (size_t)g->n * wide;

    if (!g->left_s)
        return;
    if (!g->at) {
        g->at = spot_xcalloc(n, sizeof(*g->at));
        g->part = spot_xcalloc(n, sizeof(*g->part));
    }
    for (size_t k = 0; k < n; k++) {
        const size_t r = k % wide;
        double beyond;

        g->at[k] = place(dp, g->left_s[k], &g->part[k], &beyond) * (int)wide + (int)r;
        if (g->left_s[k] > 0)
            g->of[k] = -dp->table->samples_per_s[dp->by_size[r]] * beyond;
    }
}

static struct spot_liveput_gain *make(struct spot_liveput_dp *dp, int n, int rank, int lost,
                                      bool is_owing)
{
    const int from = rank == dp->n_grid ? SPOT_GRID_NONE : dp->by_size[rank];
    const bool told = dp->has_notice || dp->sees_losses;
    const bool sees = told && dp->sees_victims && lost && from != SPOT_GRID_NONE;
    const struct spot_cost_outcomes *o = sees ? spot_cost_outcomes(dp->table, n, from, lost) : NULL;
    const size_t wide = wide_of(dp), n_outcome = o ? (size_t)o->n : 1;
    const bool asks = dp->asks && from != SPOT_GRID_NONE;
    struct spot_liveput_gain *g = spot_xcalloc(
        1, sizeof(*g) + n_outcome * (sizeof(*g->found) + (1 + (asks ? 0 : wide)) * sizeof(*g->of)));

    g->from = rank;
    g->there = n - lost;
    g->is_loss = lost > 0;
    g->told = o;
    g->n = (int)n_outcome;
    g->found = (struct spot_liveput_found *)(g + 1);
    g->prob = (double *)(g->found + n_outcome);
    g->of = asks ? NULL : g->prob + n_outcome;
    if (asks && !o)
        g->changes = spot_cost_changes(dp->table, n, from, lost);
    if (is_owing) {
        g->row_s = spot_cost_row(dp->table, n, from, lost);
        g->free = spot_xcalloc((size_t)g->n * wide, sizeof(*g->free));
        g->n_free = spot_xcalloc((size_t)g->n, sizeof(*g->n_free));
    }
    for (int i = 0; i < g->n; i++) {
        g->prob[i] = o ? o->prob[i] : 1;
        if (!asks)
            fill(dp, o ? NULL : spot_cost_row(dp->table, n, from, lost), n - lost, rank, is_owing,
                 i, g);
    }
    place_gain(dp, g);
    return g;
}

static size_t n_gain(const struct spot_liveput_dp *dp)
{
    return 2 * (size_t)(dp->n_max - dp->n_low + 1) * wide_of(dp) * ((size_t)dp->lost_max + 1);
}

/* Where the gain of (n, rank) is cached; the numbers of losses are adjacent. */
static struct spot_liveput_gain **gain_at(const struct spot_liveput_dp *dp, int n, int rank,
                                          int change, bool is_owing)
{
    const int lost = change < 0 ? -change : 0;

    if (!lost && !dp->table->warm) /* then the gain does not depend on n */
        n = dp->n_max;
    return &dp->gain[2 * (((size_t)(n - dp->n_low) * wide_of(dp) + (size_t)rank) *
                              ((size_t)dp->lost_max + 1) +
                          (size_t)lost) +
                     is_owing];
}

const struct spot_liveput_gain *spot_liveput_gain_of(struct spot_liveput_dp *dp, int n, int rank,
                                                     int change, bool is_owing)
{
    struct spot_liveput_gain **at;

    if (!dp->gain)
        dp->gain = spot_xcalloc(n_gain(dp), sizeof(struct spot_liveput_gain *));
    at = gain_at(dp, n, rank, change, is_owing);
    if (!*at)
        *at = make(dp, n, rank, change < 0 ? -change : 0, is_owing);
    return *at;
}

void spot_liveput_gain_release(struct spot_liveput_dp *dp)
{
    for (size_t i = 0; dp->gain && i < n_gain(dp); i++) {
        struct spot_liveput_gain *g = dp->gain[i];

        if (!g)
            continue;
        free(g->left_s);
        free(g->at);
        free(g->part);
        free(g->free);
        free(g->n_free);
        free(g);
    }
    free(dp->gain);
    free(dp->asked);
    dp->gain = NULL;
    dp->asked = NULL;
    dp->n_asked = dp->asked_cap = 0;
}

/* The few prices that are asked for are close together: whole rows of them would be far apart. */
double spot_liveput_ask(struct spot_liveput_dp *dp, const struct spot_liveput_gain *g, int i, int r)
{
    struct spot_liveput_found *f = &g->found[i];
    const int to = dp->by_size[r];
    double of;

    for (int k = f->asked; k; k = dp->asked[k].before)
        if (dp->asked[k].rank == r)
            return dp->asked[k].of;
    of = spot_cost_rate(dp->table, g->there, to) *
         (dp->interval_s - spot_cost_outcome_s(dp->table, g->told, i, to));
    dp->n_asked += !dp->n_asked; /* 0 is none */
    dp->asked = spot_xgrow(dp->asked, &dp->asked_cap, dp->n_asked + 1, sizeof(*dp->asked));
    dp->asked[dp->n_asked] = (struct spot_liveput_asked){ of, r, f->asked };
    f->asked = (int)dp->n_asked++;
    return of;
}

void spot_liveput_place(struct spot_liveput_dp *dp)
{
    const double spans = ceil(dp->left_max_s / dp->interval_s);
    const int n_node = 1 + (spans < SPANS_MAX ? (int)spans : (int)SPANS_MAX) * dp->node_per_span;

    if (n_node == dp->n_node) /* gains computed later are placed when they are made */
        return;
    dp->n_node = n_node;
    free(dp->node_s);
    dp->node_s = spot_xcalloc(2 * (size_t)n_node, sizeof(*dp->node_s));
    dp->at_node = dp->node_s + n_node;
    for (int node = 1; node < n_node; node++) {
        const int m = dp->node_per_span, span = (node - 1) / m, i = (node - 1) % m;

        dp->node_s[node] = (span + (double)i / (m - 1)) * dp->interval_s;
    }
    for (size_t i = 0; dp->gain && i < n_gain(dp); i++)
        if (dp->gain[i])
            place_gain(dp, dp->gain[i]);
}

double spot_liveput_owing(const struct spot_liveput_dp *dp, const double *value, int rank,
                          double left_s)
{
    const size_t wide = wide_of(dp);
    double part, beyond;
    const int node = place(dp, left_s, &part, &beyond);
    const double *at = value + (size_t)node * wide + (size_t)rank;

    if (*at <= SPOT_LIVEPUT_NEVER)
        return -INFINITY;
    if (left_s <= 0)
        return *at;
    return at[0] - (part > 0 ? part * (at[0] - at[wide]) : 0) -
           dp->table->samples_per_s[dp->by_size[rank]] * beyond;
}

/* at[] of a change to rank `to`, less the samples lost at each node: the gain only counts the
 * change itself, but with an unfinished migration it takes longer. */
static void hold_up(const struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int to,
                    double *at)
{
    const int g = dp->by_size[to];
    const double rate = dp->table->samples_per_s[g], cost_s = gain->row_s[g];
    struct spot_cost_state state = { gain->there, dp->by_size[gain->from], 0 };

    for (int node = 1; node < dp->n_node; node++) {
        state.carry_s = dp->node_s[node];
        at[node] -= rate * (spot_cost_total_s(dp->table, &state, g, cost_s) - cost_s);
    }
}

void spot_liveput_at_nodes(const struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain,
                           int i, const double *value, int n2, int to, double other, double *at)
{
    for (int node = 1; node < dp->n_node; node++)
        at[node] = other;
    if (dp->table->carries_rest && to < dp->n_grid)
        hold_up(dp, gain, to, at);
    for (int k = 0; i >= 0 && k < gain->n_free[i]; k++) {
        const int r = gain->free[(size_t)i * wide_of(dp) + (size_t)k];

        for (int node = 1; r < dp->n_fit[n2] && node < dp->n_node; node++) {
            const double x = spot_liveput_go_on(dp, value, r, node);

            at[node] = x > at[node] ? x : at[node];
        }
    }
}
