/* SPDX-License-Identifier: MIT */
/* Without a notice: a grid is chosen before it is known what happens, and cut to what is left.
 *
 * What follows a change does not depend on the context before it, so that what each target gives at
 * each event is found once for all contexts; only "still" leads to another context from each.
 * Which target is the best is remembered from sweep to sweep (liveput_best.c): the sums of two
 * targets change places only as far as the values of the counts that events lead to move unevenly,
 * each by the probability of its event. */
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

static struct spot_liveput_at at_event(struct spot_liveput_dp *dp, int n, int rank, int change,
                                       int context, bool is_owing)
{
    const struct spot_liveput_gain *g = spot_liveput_gain_of(dp, n, rank, change, is_owing);
    const double *value = spot_liveput_dp_value(dp, context, n + change);

    return (struct spot_liveput_at){ .outcome = spot_liveput_outcome_of(g, 0, dp->n_grid),
                                     .value = value,
                                     .moved = spot_liveput_memo_sum(dp, value),
                                     .cut =
                                         dp->clip + (size_t)(n + change) * ((size_t)dp->n_grid + 1),
                                     .n_fit = dp->n_fit[n + change] };
}

/* What choosing r gives when the event comes; 0 where it waits. */
static double worth(const struct spot_liveput_dp *dp, const struct spot_liveput_at *at, int r)
{
    const int to = r < at->n_fit || r == dp->n_grid ? r : at->cut[r];

    if (to == dp->n_grid)
        return at->value[to];
    if (at->outcome.of[to] == -INFINITY)
        return 0;
    return at->outcome.at ? spot_liveput_worth(&at->outcome, at->value, (size_t)dp->n_grid + 1, to)
                          : at->outcome.of[to] + at->value[to];
}

/* w[r], [n_grid + 1]: the same of all. */
static void fill_targets(const struct spot_liveput_dp *dp, const struct spot_liveput_at *at,
                         double *w)
{
    for (int r = 0; r < at->n_fit; r++)
        w[r] = worth(dp, at, r);
    w[dp->n_grid] = at->value[dp->n_grid];
    for (int r = at->n_fit; r < dp->n_grid; r++)
        w[r] = w[at->cut[r]];
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

/* The same for one r, to the bit. */
static double sum_one(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                      int context, bool is_owing, struct spot_liveput_space *space, int r)
{
    const struct spot_liveput_at *at = space->at[is_owing];
    double *once = space->once[is_owing], sum = 0;

    for (int e = 1; e < dists->n_event && space->last[is_owing] != r; e++)
        once[e] = is_known(dp, dists, e) ? 0 : worth(dp, &at[e], r);
    space->last[is_owing] = r;
    once[0] = worth(dp, &at[0], r);
    for (int e = 0; e < dists->n_event; e++)
        if (!is_known(dp, dists, e))
            sum += dists->event[context][e].prob * once[e];
    return sum;
}

/* By how much two sums may have come nearer since the solve began. */
static double unevenly(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                       int context, const struct spot_liveput_at *at)
{
    double sum = 0;

    for (int e = 0; e < dists->n_event; e++)
        if (!is_known(dp, dists, e))
            sum += dists->event[context][e].prob * at[e].moved;
    return sum;
}

/* Do two ranks come to the same at each event? Then their sums are one, for ever. */
static bool is_same(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                    const struct spot_liveput_at *at, int a, int b)
{
    for (int e = 0; e < dists->n_event; e++)
        if (!is_known(dp, dists, e) && (a < at[e].n_fit || a == dp->n_grid ? a : at[e].cut[a]) !=
                                           (b < at[e].n_fit || b == dp->n_grid ? b : at[e].cut[b]))
            return false;
    return true;
}

/* The most of sum[], those that wait somewhere left out; suspended is among them. */
static double most_of(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                      const struct spot_liveput_space *space, bool is_owing, const double *sum,
                      struct spot_liveput_found *found, double *second)
{
    const size_t n_wait = is_owing ? space->n_wait : 0;
    double best = sum[dp->n_grid];
    size_t i = 0;

    *second = -INFINITY;
    found->rank = dp->n_grid;
    for (int r = 0; r < dp->n_grid; r++) {
        if (i < n_wait && space->wait[i].r == r) {
            while (i < n_wait && space->wait[i].r == r)
                i++;
            continue;
        }
        if (sum[r] > best) {
            *second = best;
            best = sum[r];
            found->rank = r;
        } else if (sum[r] > *second &&
                   (sum[r] < best || !is_same(dp, dists, space->at[is_owing], r, found->rank))) {
            *second = sum[r];
        }
    }
    return best;
}

/* The same, by what the previous sweep found where that still holds, and its rank. */
static double best_of(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                      int context, bool is_owing, struct spot_liveput_space *space, int *rank)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    const struct spot_liveput_at *at = space->at[is_owing];
    double *target = space->target + (is_owing ? SPOT_LIVEPUT_EVENTS * wide : 0);
    double *sum = space->target + 2 * SPOT_LIVEPUT_EVENTS * wide, best, second;
    struct spot_liveput_found *found = spot_liveput_memo_next(dp);
    const double moved = unevenly(dp, dists, context, at);

    if (moved < found->until)
        return sum_one(dp, dists, context, is_owing, space, *rank = found->rank);
    for (int e = space->is_filled[is_owing] ? dists->n_event : 1; e < dists->n_event; e++)
        if (!is_known(dp, dists, e))
            fill_targets(dp, &at[e], target + (size_t)e * wide);
    space->is_filled[is_owing] = true;
    fill_targets(dp, &at[0], target);
    sum_events(dp, dists, context, target, sum);
    best = most_of(dp, dists, space, is_owing, sum, found, &second);
    *rank = found->rank;
    spot_liveput_found_keep(found, moved, best, best - second);
    return best;
}

/* With a migration unfinished, at a node. */
static double most_at(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                      int context, double best, int node, struct spot_liveput_space *space)
{
    for (size_t i = 0; i < space->n_wait;) {
        const int r = space->wait[i].r;
        double x = sum_one(dp, dists, context, true, space, r);

        for (; i < space->n_wait && space->wait[i].r == r; i++)
            x += dists->event[context][space->wait[i].event].prob *
                 space->on[i * (size_t)dp->n_node + (size_t)node];
        best = x > best ? x : best;
    }
    return best;
}

/* What all contexts have in common: the events but "still". */
static void prepare_events(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                           int n, int rank, int n_node, struct spot_liveput_space *space)
{
    space->is_filled[0] = space->is_filled[1] = false;
    space->last[0] = space->last[1] = -1;
    for (int e = 1; e < dists->n_event; e++) {
        const int change = dists->event[0][e].change;
        const int context = spot_liveput_context(dp, 0, change);

        if (is_known(dp, dists, e))
            spot_liveput_after_change(dp, n, rank, change,
                                      spot_liveput_dp_value(dp, context, n + change),
                                      space->then + e, SPOT_LIVEPUT_EVENTS);
        for (int owing = 0; !is_known(dp, dists, e) && owing < (n_node > 1 ? 2 : 1); owing++)
            space->at[owing][e] = at_event(dp, n, rank, change, context, owing);
    }
    if (n_node > 1) {
        find_waits(dp, dists, n, rank, space);
        fill_waits(dp, dists, n, 0, false, space);
    }
}

void spot_liveput_back_up_before(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                                 int n, int rank, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    const int n_node = rank < dp->n_grid ? dp->n_node : 1;

    prepare_events(dp, dists, n, rank, n_node, space);
    for (int c = 0; c < dp->n_context; c++) {
        double *next = dp->next + spot_liveput_value_at(dp, c, n) + (size_t)rank, best;
        const int still = spot_liveput_context(dp, c, 0);
        int to;

        space->at[0][0] = at_event(dp, n, rank, 0, still, false);
        *next = best_of(dp, dists, c, false, space, &to) + sum_known(dp, dists, c, space->then);
        if (n_node == 1)
            continue;
        space->at[1][0] = at_event(dp, n, rank, 0, still, true);
        fill_waits(dp, dists, n, c, true, space);
        best = best_of(dp, dists, c, true, space, &to);
        for (int node = 1; node < n_node; node++)
            next[(size_t)node * wide] =
                most_at(dp, dists, c, best - spot_liveput_held_up(dp, n, rank, 0, to, node), node,
                        space) +
                sum_known(dp, dists, c, space->then + (size_t)node * SPOT_LIVEPUT_EVENTS);
    }
}
