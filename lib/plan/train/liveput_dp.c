/* SPDX-License-Identifier: MIT */
#include "plan/liveput_dp.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

/* values count as settled below this part of what the fastest grid does in an interval */
static const double SETTLED = 1e-7;

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
    for (int r = 0; r < n; r++) {
        dp->stages[r] = t->p[dp->by_size[r]];
        dp->fewer[r] = r - 1;
        while (dp->fewer[r] >= 0 && dp->stages[dp->fewer[r]] != dp->stages[r])
            dp->fewer[r]--;
    }
}

/* The grid to which `rank` is reduced with n instances: itself, fewer pipelines, one pipeline of n
 * stages, or nothing. */
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

/* Every change costs at least this, except one of a grid to itself without victims. With warm
 * spares no bound is known. */
static void fill_most(struct spot_liveput_dp *dp)
{
    /* rounding may put a mean of costs slightly below the least of them */
    const double rounding = 1 - 1e-9;
    struct spot_cost_table *t = dp->table;

    for (int r = 0; r < dp->n_grid; r++) {
        const int g = dp->by_size[r];
        const double kept = t->warm ? 0 : rounding * spot_cost_least_s(t, g, true);
        const double moved = t->warm ? 0 : rounding * spot_cost_least_s(t, g, false);

        dp->most[r] = t->samples_per_s[g] * fmax(dp->interval_s - kept, 0);
        dp->most_moved[r] = t->samples_per_s[g] * fmax(dp->interval_s - moved, 0);
    }
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
    dp->most = spot_xcalloc(2 * wide, sizeof(*dp->most));
    dp->most_moved = dp->most + wide;
    dp->stages = spot_xcalloc(2 * wide, sizeof(int));
    dp->fewer = dp->stages + wide;
    dp->moved =
        spot_xcalloc(SPOT_CHAIN_CONTEXTS * (size_t)(dp->n_max - dp->n_low + 1), sizeof(double));
    sort_by_size(dp);
    for (size_t i = 0; i < n; i++)
        for (int r = 0; r < dp->n_grid; r++)
            dp->clip[i * wide + (size_t)r] = clip(dp, (int)i, r);
    fill_most(dp);
}

void spot_liveput_dp_release(struct spot_liveput_dp *dp)
{
    spot_liveput_gain_release(dp);
    spot_liveput_search_release(dp);
    spot_liveput_plain_free(dp);
    free(dp->is_shut);
    free(dp->by_size);
    free(dp->node_s);
    free(dp->rank);
    free(dp->n_fit);
    free(dp->value);
    free(dp->next);
    free(dp->clip);
    free(dp->most);
    free(dp->stages);
    free(dp->moved);
    memset(dp, 0, sizeof(*dp));
}

int spot_liveput_context(const struct spot_liveput_dp *dp, int context, int change)
{
    if (dp->n_context <= SPOT_LIVEPUT_TAIL_CONTEXTS)
        return change ? 0 : context;
    return spot_count_chain_after(context, change);
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

void spot_liveput_after_change(struct spot_liveput_dp *dp, int n, int rank, int change,
                               const double *value, double *then, size_t then_by)
{
    const struct spot_liveput_gain *g = spot_liveput_gain_of(dp, n, rank, change, false);
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

        spot_liveput_at_nodes(dp, g, i, value, n + change, to, other, dp->at_node);
        for (int node = 1; node < dp->n_node; node++)
            then[(size_t)node * then_by] += g->prob[i] * dp->at_node[node];
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

/* The distribution of sizes is the same in all contexts. */
static void dists_init(const struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                       int n, struct spot_liveput_dists *dists)
{
    for (int c = 0; c < dp->n_context; c++) {
        struct spot_liveput_event event[SPOT_LIVEPUT_EVENTS];
        struct spot_liveput_way *way = &dists->way[c];
        struct spot_count_step step;

        spot_count_chain_step(chain, n, c, &step);
        dists->n_event = spot_liveput_events(dp, n, &step, event);
        *way = (struct spot_liveput_way){ .still = event[0].prob };
        for (int e = 1; e < dists->n_event; e++)
            *(event[e].change < 0 ? &way->down : &way->up) += event[e].prob;
        for (int e = 0; e < dists->n_event; e++) {
            const double all = event[e].change < 0 ? way->down : way->up;

            dists->event[e].change = event[e].change;
            if (e && all > 0)
                dists->event[e].prob = event[e].prob / all;
        }
    }
}

void spot_liveput_follow(struct spot_liveput_dp *dp, int n, int rank, int change, int context,
                         double *then, size_t then_by)
{
    if (dp->is_lazy && rank < dp->n_grid)
        *then = spot_liveput_search_best(dp, n, rank, change, context);
    else
        spot_liveput_after_change(dp, n, rank, change,
                                  spot_liveput_dp_value(dp, context, n + change), then, then_by);
}

/* then[node * (n_grid + 1)]: with a notice, what follows a change that leads to `context`. Without
 * losses that depends on the count after it, not on the one before. */
static const double *follow(struct spot_liveput_dp *dp, int n, int rank, int change, int context,
                            struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    double *gained = space->gained + spot_liveput_value_at(dp, context, n + change) + rank;
    const bool is_shared = (change >= 0 || rank == dp->n_grid) && !dp->table->warm;

    if (!is_shared || isnan(*gained))
        spot_liveput_follow(dp, n, rank, change, context, gained = is_shared ? gained : space->then,
                            wide);
    return gained;
}

/* With a notice: what follows a change does not depend on the context before it. */
static void back_up_after(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                          int rank, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    const int n_node = rank < dp->n_grid ? dp->n_node : 1;

    memset(space->way, 0, 2 * (size_t)n_node * sizeof(*space->way));
    for (int e = 1; e < dists->n_event; e++) {
        const int change = dists->event[e].change;
        const double *then =
            follow(dp, n, rank, change, spot_liveput_context(dp, 0, change), space);

        for (int node = 0; node < n_node; node++)
            space->way[2 * node + (change > 0)] += dists->event[e].prob * then[(size_t)node * wide];
    }
    for (int c = 0; c < dp->n_context; c++) {
        double *next = dp->next + spot_liveput_value_at(dp, c, n) + (size_t)rank;
        const struct spot_liveput_way *way = &dists->way[c];
        const double *then = follow(dp, n, rank, 0, spot_liveput_context(dp, c, 0), space);

        for (int node = 0; node < n_node; node++)
            next[(size_t)node * wide] = way->still * then[(size_t)node * wide] +
                                        way->down * space->way[2 * node] +
                                        way->up * space->way[2 * node + 1];
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

static void most_init(const struct spot_liveput_dp *dp, struct spot_liveput_space *space)
{
    const size_t n_grid = (size_t)dp->n_grid, counts = (size_t)(dp->n_max - dp->n_low + 1);

    space->most = spot_xcalloc(counts, sizeof(*space->most));
    for (size_t i = 0; i < counts; i++) {
        struct spot_liveput_most *m = &space->most[i];

        m->down = spot_xcalloc(4 * n_grid + 1, sizeof(*m->down));
        m->up = m->down + n_grid;
        m->fits_down = m->up + n_grid;
        m->fits_up = m->fits_down + n_grid;
        m->order[0] = spot_xcalloc((size_t)dp->n_context * n_grid + 1, sizeof(int));
        m->of[0] = spot_xcalloc(2 * (size_t)dp->n_context * n_grid + 1, sizeof(double));
        for (int c = 0; c < dp->n_context; c++) {
            m->order[c] = m->order[0] + (size_t)c * n_grid;
            m->of[c] = m->of[0] + (size_t)c * n_grid;
            m->moved[c] = m->of[0] + ((size_t)dp->n_context + (size_t)c) * n_grid;
            for (int r = 0; r < dp->n_grid; r++)
                m->order[c][r] = r;
        }
    }
}

void spot_liveput_space_init(struct spot_liveput_dp *dp, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;

    memset(space, 0, sizeof(*space));
    space->then =
        spot_xcalloc((size_t)dp->n_node * (wide > SPOT_LIVEPUT_EVENTS ? wide : SPOT_LIVEPUT_EVENTS),
                     sizeof(*space->then));
    space->way = spot_xcalloc(2 * (size_t)dp->n_node, sizeof(*space->way));
    if (dp->has_notice) {
        space->gained =
            spot_xcalloc(spot_liveput_value_at(dp, dp->n_context, dp->n_low), sizeof(double));
        return;
    }
    space->down[0] = spot_xcalloc(4 * wide, sizeof(*space->down[0]));
    for (size_t i = 0; i < 2; i++) {
        space->down[i] = space->down[0] + i * wide;
        space->up[i] = space->down[0] + (2 + i) * wide;
    }
    space->waits = spot_xcalloc(wide, sizeof(*space->waits));
    most_init(dp, space);
    if (spot_liveput_has_step(dp))
        space->step = spot_liveput_step_new(dp);
}

void spot_liveput_space_turn(const struct spot_liveput_dp *dp, struct spot_liveput_space *space)
{
    const size_t n_value = spot_liveput_value_at(dp, dp->n_context, dp->n_low);

    for (size_t i = 0; space->gained && i < n_value; i++)
        space->gained[i] = NAN;
    if (space->step)
        spot_liveput_step_turn(space->step);
    for (int i = 0; space->most && i <= dp->n_max - dp->n_low; i++) {
        space->most[i].is_filled = false;
        memset(space->most[i].is_sorted, 0, sizeof(space->most[i].is_sorted));
    }
}

void spot_liveput_space_release(const struct spot_liveput_dp *dp, struct spot_liveput_space *space)
{
    for (int i = 0; space->most && i <= dp->n_max - dp->n_low; i++) {
        free(space->most[i].down);
        free(space->most[i].order[0]);
        free(space->most[i].of[0]);
    }
    free(space->most);
    free(space->then);
    free(space->way);
    free(space->gained);
    free(space->down[0]);
    free(space->waits);
    free(space->wait);
    free(space->on);
    spot_liveput_step_free(space->step);
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

/* The least and the largest change of the values of one context and count. */
static void moved_of(const struct spot_liveput_dp *dp, int context, int n, double *least,
                     double *most)
{
    const size_t first = spot_liveput_value_at(dp, context, n);

    *least = INFINITY;
    *most = -INFINITY;
    for (int r = 0; r <= dp->n_grid; r++) {
        const int n_node = r < dp->n_grid ? dp->n_node : 1;

        for (int node = 0; spot_liveput_may_run(dp, n, r) && node < n_node; node++) {
            const size_t at = first + (size_t)node * (size_t)(dp->n_grid + 1) + (size_t)r;
            const double moved = dp->next[at] - dp->value[at];

            *least = moved < *least ? moved : *least;
            *most = moved > *most ? moved : *most;
        }
    }
}

void spot_liveput_moved(struct spot_liveput_dp *dp)
{
    double least, most;

    for (int c = 0; c < dp->n_context; c++)
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            moved_of(dp, c, n, &least, &most);
            dp->moved[c * (dp->n_max - dp->n_low + 1) + n - dp->n_low] += most;
        }
}

/* Decisions compare only values of the same context and count, and do not influence which of these
 * comes next: so values can be stored relative to that of being suspended there. */
static void relate(struct spot_liveput_dp *dp, int context, int n)
{
    const size_t first = spot_liveput_value_at(dp, context, n);
    const double base = dp->next[first + (size_t)dp->n_grid];

    for (int r = 0; r <= dp->n_grid; r++) {
        const int n_node = r < dp->n_grid ? dp->n_node : 1;

        for (int node = 0; spot_liveput_may_run(dp, n, r) && node < n_node; node++)
            dp->next[first + (size_t)node * (size_t)(dp->n_grid + 1) + (size_t)r] -= base;
    }
}

/* Replace the values by next. Returns the largest unevenness over all contexts and counts. */
static double turn(struct spot_liveput_dp *dp, struct spot_liveput_speed *speed)
{
    double *swap = dp->value, worst = 0, least, most;

    for (int c = 0; c < dp->n_context; c++)
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            moved_of(dp, c, n, &least, &most);
            worst = fmax(worst, most - least);
            if (!dp->is_finite)
                relate(dp, c, n);
        }
    if (speed)
        spot_liveput_speed_up(speed, dp->value, dp->next);
    spot_liveput_moved(dp);
    spot_liveput_shut(dp, dp->next);
    dp->value = dp->next;
    dp->next = swap;
    return worst;
}

/* Copy the values to the layout of n_node nodes. At new nodes: the value with nothing left, less
 * the rate times what is left. Has one extra row, for the node above the last. */
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

/* Compute the gains that the chain leads to. The nodes are set from the time that these leave
 * unfinished, regardless of other gains computed earlier. */
static void make_gains(struct spot_liveput_dp *dp, const struct spot_count_chain *chain)
{
    dp->left_max_s = 0;
    for (int owing = 0; owing < 2 && (!owing || dp->left_max_s > 0); owing++)
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            struct spot_liveput_dists dists;

            dists_init(dp, chain, n, &dists);
            for (int r = 0; r <= dp->n_grid - owing; r++)
                for (int e = 0; spot_liveput_may_run(dp, n, r) && e < dists.n_event; e++)
                    dp->left_max_s = fmax(
                        dp->left_max_s,
                        spot_liveput_gain_of(dp, n, r, dists.event[e].change, owing)->left_max_s);
        }
}

/* The largest loss that the chain leads to. */
static int largest_loss(const struct spot_liveput_dp *dp, const struct spot_count_chain *chain)
{
    struct spot_liveput_dists dists;
    int most = 0;

    for (int n = dp->n_low; n <= dp->n_max; n++) {
        dists_init(dp, chain, n, &dists);
        for (int e = 0; e < dists.n_event; e++)
            most = -dists.event[e].change > most ? -dists.event[e].change : most;
    }
    return most;
}

/* Prepare the sweeps: compute gains, and place the nodes over the time that changes leave
 * unfinished. */
static void prepare(struct spot_liveput_dp *dp, const struct spot_count_chain *chain)
{
    const int n_node = dp->n_node;
    double *value;
    bool asks;

    dp->is_lazy = !dp->tries_all && !dp->sees_victims && !dp->table->warm &&
                  (!dp->node_per_span || spot_cost_most_s(dp->table) <= dp->interval_s);
    asks = !dp->tries_all && dp->sees_victims && !dp->table->warm &&
           spot_cost_limit_s(dp->table, largest_loss(dp, chain)) < dp->interval_s * (1 - 1e-6);
    if (asks != dp->asks)
        spot_liveput_gain_release(dp);
    dp->asks = asks;
    if (!dp->is_lazy && !dp->asks)
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

static double fastest(const struct spot_liveput_dp *dp)
{
    double most = 0;

    for (int g = 0; g < dp->n_grid; g++)
        most = fmax(most, dp->table->samples_per_s[g]);
    return most;
}

int spot_liveput_dp_solve(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                          int sweeps)
{
    struct spot_liveput_speed *speed;
    struct spot_liveput_space space;
    int done = 0;
    size_t n_value;
    bool settled = false;

    assert(!dp->is_shut || dp->has_notice);
    prepare(dp, chain); /* the nodes may have changed */
    n_value = spot_liveput_value_at(dp, dp->n_context, dp->n_low);
    spot_liveput_space_init(dp, &space);
    spot_liveput_shut(dp, dp->value);
    spot_liveput_found_forget(dp);
    spot_liveput_memo_open(dp, !dp->tries_all);
    memcpy(dp->next, dp->value, n_value * sizeof(*dp->next));
    speed = dp->is_finite || dp->tries_all ? NULL : spot_liveput_speed_new(n_value);
    for (; done < sweeps && !settled; done++) {
        spot_liveput_memo_sweep(dp);
        spot_liveput_space_turn(dp, &space);
        spot_liveput_targets_turn(dp);
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            struct spot_liveput_dists dists;

            dists_init(dp, chain, n, &dists);
            if (space.step)
                spot_liveput_step_count(space.step, &dists, n, &space);
            for (int r = 0; !space.step && r <= dp->n_grid; r++)
                if (spot_liveput_may_run(dp, n, r))
                    spot_liveput_back_up(dp, &dists, n, r, &space);
        }

        settled = turn(dp, speed) < SETTLED * dp->interval_s * fastest(dp) && !dp->is_finite;
    }
    spot_liveput_speed_free(speed);
    spot_liveput_memo_close(dp);
    spot_liveput_space_release(dp, &space);
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
