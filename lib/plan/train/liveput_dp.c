/* SPDX-License-Identifier: MIT */
#include "plan/liveput_dp.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

static int size_of(const struct spot_cost_table *t, int g)
{
    return t->d[g] * t->p[g];
}

static void sort_by_size(struct spot_liveput_dp *dp)
{
    const struct spot_cost_table *t = dp->table;
    int n = 0;

    for (int size = 0; size <= dp->n_max; size++) {
        for (int g = 0; g < dp->n_grid; g++)
            if (size_of(t, g) == size) {
                dp->rank[g] = n;
                dp->by_size[n++] = g;
            }
        dp->n_fit[size] = n;
    }
    assert(n == dp->n_grid);
}

/* What grid `rank` becomes with n instances: itself, fewer pipelines, one of n stages, nothing. */
static int clip(const struct spot_liveput_dp *dp, int n, int rank)
{
    const struct spot_cost_table *t = dp->table;
    const int g = dp->by_size[rank];
    int to;

    if (size_of(t, g) <= n)
        return rank;
    to = n / t->p[g] > 0 ? spot_cost_grid(t, n / t->p[g], t->p[g]) : spot_cost_grid(t, 1, n);
    return to == SPOT_GRID_NONE ? dp->n_grid : dp->rank[to];
}

void spot_liveput_dp_init(struct spot_liveput_dp *dp, struct spot_cost_table *table,
                          double interval_s, bool has_notice)
{
    enum { NODE_PER_SPAN = 4 };
    const size_t wide = (size_t)table->n_grid + 1, n = (size_t)table->n_max + 1;

    *dp = (struct spot_liveput_dp){ .table = table,
                                    .interval_s = interval_s,
                                    .has_notice = has_notice,
                                    .n_low = table->n_low,
                                    .n_max = table->n_max,
                                    .n_context = SPOT_CHAIN_CONTEXTS,
                                    .n_grid = table->n_grid,
                                    .n_node = 1,
                                    .node_per_span = NODE_PER_SPAN,
                                    .lost_max = table->lost_max < SPOT_CHAIN_SIZE_MAX
                                                    ? table->lost_max
                                                    : (int)SPOT_CHAIN_SIZE_MAX };
    dp->by_size = spot_xcalloc(wide, sizeof(int));
    dp->rank = spot_xcalloc(wide, sizeof(int));
    dp->n_fit = spot_xcalloc(n, sizeof(int));
    dp->clip = spot_xcalloc(n * wide, sizeof(int));
    sort_by_size(dp);
    for (size_t i = 0; i < n; i++)
        for (int r = 0; r < dp->n_grid; r++)
            dp->clip[i * wide + (size_t)r] = clip(dp, (int)i, r);
}

void spot_liveput_dp_release(struct spot_liveput_dp *dp)
{
    spot_liveput_gain_release(dp);
    spot_liveput_search_release(dp);
    free(dp->is_shut);
    free(dp->by_size);
    free(dp->rank);
    free(dp->n_fit);
    free(dp->value);
    free(dp->next);
    free(dp->clip);
    memset(dp, 0, sizeof(*dp));
}

int spot_liveput_context(const struct spot_liveput_dp *dp, int context, int change)
{
    return dp->n_context == 1 ? 0 : spot_count_chain_after(context, change);
}

size_t spot_liveput_value_at(const struct spot_liveput_dp *dp, int context, int n)
{
    const size_t count =
        (size_t)context * (size_t)(dp->n_max - dp->n_low + 1) + (size_t)(n - dp->n_low);

    return count * (size_t)dp->n_node * (size_t)(dp->n_grid + 1);
}

const double *spot_liveput_dp_value(const struct spot_liveput_dp *dp, int context, int n)
{
    return dp->value + spot_liveput_value_at(dp, context, n);
}

double spot_liveput_go_on(const struct spot_liveput_dp *dp, const double *value, int r, int node)
{
    const size_t wide = (size_t)dp->n_grid + 1;

    if (node > dp->node_per_span)
        return value[(size_t)(node - dp->node_per_span) * wide + (size_t)r];
    return dp->table->samples_per_s[dp->by_size[r]] *
               (dp->interval_s - spot_liveput_node_s(dp, node)) +
           value[r];
}

void spot_liveput_after_change(struct spot_liveput_dp *dp, int n, int rank, int change,
                               const double *value, double *then, size_t then_by)
{
    const struct spot_liveput_gain *g = spot_liveput_gain_of(dp, n, rank, change, false);
    const size_t wide = (size_t)dp->n_grid + 1;
    int to;

    then[0] = 0;
    for (int i = 0; i < g->n; i++)
        then[0] += g->prob[i] * spot_liveput_best(dp, g, i, value, n + change, &to);
    if (rank == dp->n_grid || dp->n_node == 1)
        return;
    for (int node = 1; node < dp->n_node; node++)
        then[(size_t)node * then_by] = 0;
    g = spot_liveput_gain_of(dp, n, rank, change, true);
    for (int i = 0; i < g->n; i++) {
        const double other = spot_liveput_best(dp, g, i, value, n + change, &to);

        for (int node = 1; node < dp->n_node; node++) {
            double best = other - spot_liveput_held_up(dp, n, rank, change, to, node);

            for (int k = 0; k < g->n_free[i]; k++) {
                const int r = g->free[(size_t)i * wide + (size_t)k];

                if (r < dp->n_fit[n + change])
                    best = fmax(best, spot_liveput_go_on(dp, value, r, node));
            }
            then[(size_t)node * then_by] += g->prob[i] * best;
        }
    }
}

int spot_liveput_events(const struct spot_liveput_dp *dp, int n, const struct spot_count_step *s,
                        struct spot_liveput_event *event)
{
    const int down = n - dp->n_low < dp->lost_max ? n - dp->n_low : dp->lost_max;
    const int up = dp->n_max - n;
    double beyond[2] = { 0 };
    int n_event = 0;

    event[n_event++] = (struct spot_liveput_event){ 0, s->still };
    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        if (k <= down && s->lost[k] > 0)
            event[n_event++] = (struct spot_liveput_event){ -k, s->lost[k] };
        else
            beyond[0] += s->lost[k];
        if (k <= up && s->gained[k] > 0)
            event[n_event++] = (struct spot_liveput_event){ k, s->gained[k] };
        else
            beyond[1] += s->gained[k];
    }
    if (beyond[0] > 0 && down)
        event[n_event++] = (struct spot_liveput_event){ -down, beyond[0] };
    if (beyond[1] > 0 && up)
        event[n_event++] = (struct spot_liveput_event){ up, beyond[1] };
    event[0].prob += (down ? 0 : beyond[0]) + (up ? 0 : beyond[1]);
    return n_event;
}

static void dists_init(const struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                       int n, struct spot_liveput_dists *dists)
{
    for (int c = 0; c < dp->n_context; c++) {
        struct spot_count_step step;

        spot_count_chain_step(chain, n, c, &step);
        dists->n_event = spot_liveput_events(dp, n, &step, dists->event[c]);
    }
}

/* then[node * SPOT_LIVEPUT_EVENTS] of a change that leads to `context`. */
static void follow(struct spot_liveput_dp *dp, int n, int rank, int change, int context,
                   double *then)
{
    if (dp->search && rank < dp->n_grid)
        *then = spot_liveput_search_best(dp, n, rank, change, context);
    else
        spot_liveput_after_change(dp, n, rank, change,
                                  spot_liveput_dp_value(dp, context, n + change), then,
                                  SPOT_LIVEPUT_EVENTS);
}

/* With a notice: what follows a change does not depend on the context before it. */
static void back_up_after(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                          int rank, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    const int n_node = rank < dp->n_grid ? dp->n_node : 1;

    for (int e = 1; e < dists->n_event; e++) {
        const int change = dists->event[0][e].change;

        follow(dp, n, rank, change, spot_liveput_context(dp, 0, change), space->then + e);
    }
    for (int c = 0; c < dp->n_context; c++) {
        double *next = dp->next + spot_liveput_value_at(dp, c, n) + (size_t)rank;

        follow(dp, n, rank, 0, spot_liveput_context(dp, c, 0), space->then);
        for (int node = 0; node < n_node; node++) {
            const double *then = space->then + (size_t)node * SPOT_LIVEPUT_EVENTS;
            double v = dists->event[c][0].prob * then[0];

            for (int e = 1; e < dists->n_event; e++)
                v += dists->event[c][e].prob * then[e];
            next[(size_t)node * wide] = v;
        }
    }
}

void spot_liveput_back_up(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                          int rank, struct spot_liveput_space *space)
{
    if (dp->has_notice)
        back_up_after(dp, dists, n, rank, space);
    else
        spot_liveput_back_up_before(dp, dists, n, rank, space);
}

void spot_liveput_space_init(const struct spot_liveput_dp *dp, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;

    memset(space, 0, sizeof(*space));
    space->then = spot_xcalloc((size_t)dp->n_node * SPOT_LIVEPUT_EVENTS, sizeof(*space->then));
    if (!dp->has_notice)
        space->target = spot_xcalloc((2 * SPOT_LIVEPUT_EVENTS + 1) * wide, sizeof(*space->target));
}

void spot_liveput_space_release(struct spot_liveput_space *space)
{
    free(space->then);
    free(space->target);
    free(space->wait);
    free(space->on);
}

void spot_liveput_shut(const struct spot_liveput_dp *dp, double *value)
{
    const size_t wide = (size_t)dp->n_grid + 1;

    for (int n = dp->n_low; dp->is_shut && n <= dp->n_max; n++)
        for (int r = 0; r < dp->n_fit[n]; r++)
            if (dp->is_shut[n * dp->n_grid + r])
                for (int c = 0; c < dp->n_context; c++)
                    for (int node = 0; node < dp->n_node; node++)
                        value[spot_liveput_value_at(dp, c, n) + (size_t)node * wide + (size_t)r] =
                            SPOT_LIVEPUT_NEVER;
}

bool spot_liveput_may_run(const struct spot_liveput_dp *dp, int n, int rank)
{
    return rank == dp->n_grid ||
           (rank < dp->n_fit[n] && !(dp->is_shut && dp->is_shut[n * dp->n_grid + rank]));
}

/* Make next relative to `base` for one context and count, and find how far its values moved. */
static void turn_count(struct spot_liveput_dp *dp, int context, int n, double base, double *least,
                       double *most)
{
    const size_t first = spot_liveput_value_at(dp, context, n);

    for (int r = 0; r <= dp->n_grid; r++) {
        const int n_node = r < dp->n_grid ? dp->n_node : 1;

        for (int node = 0; spot_liveput_may_run(dp, n, r) && node < n_node; node++) {
            const size_t at = first + (size_t)node * (size_t)(dp->n_grid + 1) + (size_t)r;
            const double moved = dp->next[at] - dp->value[at];

            *least = moved < *least ? moved : *least;
            *most = moved > *most ? moved : *most;
            dp->next[at] -= base;
        }
    }
}

/* Make next relative to its value at no instances, and swap it in. Returns how unevenly the
 * values moved, relative to how far. */
static double turn(struct spot_liveput_dp *dp)
{
    double *swap = dp->value, low = INFINITY, high = -INFINITY;
    const double base =
        dp->is_finite ? 0 : dp->next[spot_liveput_value_at(dp, 0, dp->n_max) + (size_t)dp->n_grid];

    for (int c = 0; c < dp->n_context; c++)
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            double least = INFINITY, most = -INFINITY;

            turn_count(dp, c, n, base, &least, &most);
            if (most > least)
                spot_liveput_memo_moved(dp, c, n, most - least);
            low = fmin(low, least);
            high = fmax(high, most);
        }
    spot_liveput_shut(dp, dp->next);
    dp->value = dp->next;
    dp->next = swap;
    return (high - low) / fmax(fabs(high), 1e-300);
}

/* Values in the layout of n_node nodes: what they were, and beyond the old nodes that of nothing
 * left, less the rate times what is left. One row more, for the node above the last. */
static double *lay_out(const struct spot_liveput_dp *dp, int n_node_before)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    const size_t n = (size_t)dp->n_context * (size_t)(dp->n_max - dp->n_low + 1);
    double *value = spot_xcalloc((n * (size_t)dp->n_node + 1) * wide, sizeof(*value));

    for (size_t i = 0; dp->value && i < n; i++)
        for (int node = 0; node < dp->n_node; node++) {
            const double *from = dp->value + i * (size_t)n_node_before * wide;
            double *to = value + (i * (size_t)dp->n_node + (size_t)node) * wide;

            for (int r = 0; r < dp->n_grid; r++)
                to[r] = node < n_node_before ? from[(size_t)node * wide + (size_t)r]
                                             : from[r] - dp->table->samples_per_s[dp->by_size[r]] *
                                                             spot_liveput_node_s(dp, node);
            to[dp->n_grid] = from[dp->n_grid];
        }
    return value;
}

/* Make the gains that the chain leads to. What they leave unfinished sets the nodes, whatever other
 * gains there are from before. */
static void make_gains(struct spot_liveput_dp *dp, const struct spot_count_chain *chain)
{
    dp->left_max_s = 0;
    for (int owing = 0; owing < 2 && (!owing || dp->left_max_s > 0); owing++)
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            struct spot_liveput_dists dists;

            dists_init(dp, chain, n, &dists);
            for (int r = 0; r <= dp->n_grid - owing; r++)
                for (int e = 0; spot_liveput_may_run(dp, n, r) && e < dists.n_event; e++)
                    dp->left_max_s =
                        fmax(dp->left_max_s,
                             spot_liveput_gain_of(dp, n, r, dists.event[0][e].change, owing)
                                 ->left_max_s);
        }
}

/* Make what the sweeps need; lay nodes over what changes leave unfinished. */
static void prepare(struct spot_liveput_dp *dp, const struct spot_count_chain *chain)
{
    const int n_node = dp->n_node;
    double *value;

    if (!spot_liveput_searches(dp))
        make_gains(dp, chain);
    spot_liveput_place(dp);
    if (dp->value && dp->n_node == n_node)
        return;
    value = lay_out(dp, n_node);
    free(dp->value);
    free(dp->next);
    dp->value = value;
    dp->next =
        spot_xcalloc(spot_liveput_value_at(dp, dp->n_context, dp->n_low) + (size_t)dp->n_grid + 1,
                     sizeof(*dp->next));
}

int spot_liveput_dp_solve(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                          int sweeps)
{
    struct spot_liveput_space space;
    int done = 0;
    bool settled = false;

    assert(!dp->is_shut || dp->has_notice);
    prepare(dp, chain);
    spot_liveput_space_init(dp, &space);
    spot_liveput_shut(dp, dp->value);
    spot_liveput_memo_open(dp);
    for (; done < sweeps && !settled; done++) {
        spot_liveput_memo_sweep(dp);
        if (spot_liveput_searches(dp))
            spot_liveput_search_sort(dp);
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            struct spot_liveput_dists dists;

            dists_init(dp, chain, n, &dists);
            for (int r = 0; r <= dp->n_grid; r++) {
                if (spot_liveput_may_run(dp, n, r))
                    spot_liveput_back_up(dp, &dists, n, r, &space);
            }
        }
        settled = turn(dp) < 1e-6 && !dp->is_finite;
    }
    spot_liveput_memo_close(dp);
    spot_liveput_space_release(&space);
    return done;
}

void spot_liveput_dp_finish(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                            int left)
{
    prepare(dp, chain);
    memset(dp->value, 0, spot_liveput_value_at(dp, dp->n_context, dp->n_low) * sizeof(*dp->value));
    dp->is_finite = true;
    spot_liveput_dp_solve(dp, chain, left);
    dp->is_finite = false;
}
