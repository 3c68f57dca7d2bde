/* SPDX-License-Identifier: MIT */
/* Without a notice: a grid is chosen before it is known what happens, and cut to what is left.
 *
 * What follows a change does not depend on the context before it, so that what each target gives at
 * each event is found once for all contexts; only "still" leads to another context from each. */
#include <math.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

/* Is the event known before the grid is chosen? */
static bool is_known(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                     int e)
{
    return dp->sees_losses && dists->event[0][e].change < 0;
}

/* w[r], [n_grid + 1]: what choosing r gives when the event comes, those that wait at 0. */
static void fill_targets(struct spot_liveput_dp *dp, int n, int rank, int change, int context,
                         bool is_owing, double *w)
{
    const struct spot_liveput_gain *g = spot_liveput_gain_of(dp, n, rank, change, is_owing);
    const struct spot_liveput_outcome o = spot_liveput_outcome_of(g, 0, dp->n_grid);
    const double *value = spot_liveput_dp_value(dp, context, n + change);
    const size_t wide = (size_t)dp->n_grid + 1;
    const int *cut = dp->clip + (size_t)(n + change) * wide;
    const int n_fit = dp->n_fit[n + change];

    for (int r = 0; o.at && r < n_fit; r++)
        w[r] = spot_liveput_worth(&o, value, wide, r);
    for (int r = 0; !o.at && r < n_fit; r++)
        w[r] = o.of[r] + value[r];
    for (int k = 0; is_owing && k < g->n_free[0]; k++)
        w[g->free[k]] = 0;
    w[dp->n_grid] = value[dp->n_grid];
    for (int r = n_fit; r < dp->n_grid; r++)
        w[r] = w[cut[r]];
}

static void find_waits(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                       int rank, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;

    space->n_wait = 0;
    for (int r = 0; r < dp->n_grid; r++)
        for (int e = 0; e < dists->n_event; e++) {
            const int change = dists->event[0][e].change;
            const struct spot_liveput_gain *g = spot_liveput_gain_of(dp, n, rank, change, true);
            const int to = dp->clip[(size_t)(n + change) * wide + (size_t)r];

            if (is_known(dp, dists, e) || !g->n_free[0] || to == dp->n_grid ||
                g->of[to] > -INFINITY)
                continue;
            space->wait =
                spot_xgrow(space->wait, &space->wait_cap, space->n_wait + 1, sizeof(*space->wait));
            space->wait[space->n_wait++] = (struct spot_liveput_wait){ r, to, e };
        }
    space->on =
        spot_xgrow(space->on, &space->on_cap, space->n_wait * (size_t)dp->n_node, sizeof(double));
}

/* on[]: what waiting gives at every node, of "still" in one context or of all other events. */
static void fill_waits(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                       int n, int context, bool is_still, struct spot_liveput_space *space)
{
    for (size_t i = 0; i < space->n_wait; i++) {
        const struct spot_liveput_wait *w = &space->wait[i];
        const int change = dists->event[0][w->event].change;
        const double *value =
            spot_liveput_dp_value(dp, spot_liveput_context(dp, context, change), n + change);

        for (int node = 1; (w->event == 0) == is_still && node < dp->n_node; node++)
            space->on[i * (size_t)dp->n_node + (size_t)node] =
                spot_liveput_go_on(dp, value, w->to, node);
    }
}

/* sum[r] over the events of a context, target[e * wide], those that are known beforehand left out.
 */
static void sum_events(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                       int context, const double *target, double *restrict sum)
{
    const size_t wide = (size_t)dp->n_grid + 1;

    memset(sum, 0, wide * sizeof(*sum));
    for (int e = 0; e < dists->n_event; e++) {
        const double prob = dists->event[context][e].prob, *restrict w = target + (size_t)e * wide;
        size_t r = 0;

        if (is_known(dp, dists, e))
            continue;
        for (; r + 4 <= wide; r += 4) /* for speed */
            for (size_t i = 0; i < 4; i++)
                sum[r + i] += prob * w[r + i];
        for (; r < wide; r++)
            sum[r] += prob * w[r];
    }
}

/* What the events give that are known beforehand, then[e] each. */
static double sum_known(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                        int context, const double *then)
{
    double sum = 0;

    for (int e = 1; e < dists->n_event; e++)
        if (is_known(dp, dists, e))
            sum += dists->event[context][e].prob * then[e];
    return sum;
}

/* The most of sum[], those that wait somewhere left out; suspended is among them. */
static double most_of(const double *sum, const struct spot_liveput_space *space, int n_grid)
{
    double best = sum[n_grid];
    size_t i = 0;

    for (int r = 0; r < n_grid; r++) {
        if (i < space->n_wait && space->wait[i].r == r) {
            while (i < space->n_wait && space->wait[i].r == r)
                i++;
            continue;
        }
        best = sum[r] > best ? sum[r] : best;
    }
    return best;
}

/* With a migration unfinished, at a node. */
static double most_at(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                      int context, const double *sum, double best, int node,
                      const struct spot_liveput_space *space)
{
    for (size_t i = 0; i < space->n_wait;) {
        const int r = space->wait[i].r;
        double x = sum[r];

        for (; i < space->n_wait && space->wait[i].r == r; i++)
            x += dists->event[context][space->wait[i].event].prob *
                 space->on[i * (size_t)dp->n_node + (size_t)node];
        best = x > best ? x : best;
    }
    return best;
}

void spot_liveput_back_up_before(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                                 int n, int rank, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    const int n_node = rank < dp->n_grid ? dp->n_node : 1;
    double *of[2] = { space->target, space->target + SPOT_LIVEPUT_EVENTS * wide };
    double *sum = space->target + 2 * SPOT_LIVEPUT_EVENTS * wide;

    for (int e = 1; e < dists->n_event; e++) {
        const int change = dists->event[0][e].change;
        const int context = spot_liveput_context(dp, 0, change);

        if (is_known(dp, dists, e))
            spot_liveput_after_change(dp, n, rank, change,
                                      spot_liveput_dp_value(dp, context, n + change),
                                      space->then + e, SPOT_LIVEPUT_EVENTS);
        for (int owing = 0; !is_known(dp, dists, e) && owing < (n_node > 1 ? 2 : 1); owing++)
            fill_targets(dp, n, rank, change, context, owing, of[owing] + (size_t)e * wide);
    }
    if (n_node > 1) {
        find_waits(dp, dists, n, rank, space);
        fill_waits(dp, dists, n, 0, false, space);
    }
    for (int c = 0; c < dp->n_context; c++) {
        double *next = dp->next + spot_liveput_value_at(dp, c, n) + (size_t)rank, best;
        const int still = spot_liveput_context(dp, c, 0);

        fill_targets(dp, n, rank, 0, still, false, of[0]);
        sum_events(dp, dists, c, of[0], sum);
        best = sum[dp->n_grid];
        for (int r = 0; r < dp->n_grid; r++)
            best = sum[r] > best ? sum[r] : best;
        *next = best + sum_known(dp, dists, c, space->then);
        if (n_node == 1)
            continue;
        fill_targets(dp, n, rank, 0, still, true, of[1]);
        fill_waits(dp, dists, n, c, true, space);
        sum_events(dp, dists, c, of[1], sum);
        best = most_of(sum, space, dp->n_grid);
        for (int node = 1; node < n_node; node++)
            next[(size_t)node * wide] =
                most_at(dp, dists, c, sum, best, node, space) +
                sum_known(dp, dists, c, space->then + (size_t)node * SPOT_LIVEPUT_EVENTS);
    }
}
