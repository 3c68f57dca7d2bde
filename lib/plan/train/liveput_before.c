/* SPDX-License-Identifier: MIT */
/* Changes without a notice: the grid (the target) is chosen before the change is known, and is then
 * reduced to what the remaining instances allow.
 *
 * What follows a change does not depend on the context before it. So the value of a target over all
 * changes is summed once for all contexts, separately for losses and gains; only the event "still"
 * (no change) depends on the context. For each count an upper bound of what each target can give is
 * computed once. Targets are examined in descending order of it, and the search ends at the first
 * that cannot win.
 *
 * The best target is remembered from sweep to sweep (liveput_best.c): another one gains at most the
 * largest moves of the values of the counts that events lead to, each weighted by the probability
 * of its event. */
#include <math.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

/* True if the event is known before the grid is chosen. */
static bool is_known(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                     int e)
{
    return dp->sees_losses && dists->event[e].change < 0;
}

static struct spot_liveput_at plain_at(const struct spot_liveput_dp *dp, int n, int context)
{
    return (struct spot_liveput_at){ .value = spot_liveput_dp_value(dp, context, n),
                                     .cut = dp->clip + (size_t)n * ((size_t)dp->n_grid + 1),
                                     .n_fit = dp->n_fit[n] };
}

static struct spot_liveput_at at_event(struct spot_liveput_dp *dp, int n, int rank, int change,
                                       int context, bool is_owing)
{
    struct spot_liveput_at at = plain_at(dp, n + change, context);

    at.moved = dp->moved[spot_liveput_block(dp, at.value)];
    if (dp->is_lazy && rank < dp->n_grid)
        at.changes = spot_cost_changes(dp->table, n, dp->by_size[rank], change < 0 ? -change : 0);
    else
        at.outcome = spot_liveput_outcome_of(spot_liveput_gain_of(dp, n, rank, change, is_owing), 0,
                                             dp->n_grid);
    return at;
}

static int cut_to(const struct spot_liveput_dp *dp, const struct spot_liveput_at *at, int r)
{
    return r < at->n_fit || r == dp->n_grid ? r : at->cut[r];
}

/* The value of having chosen r when the event occurs; 0 if r has to wait (its migration is
 * unfinished). */
static double worth(const struct spot_liveput_dp *dp, const struct spot_liveput_at *at, int r)
{
    const int to = cut_to(dp, at, r);

    if (to == dp->n_grid)
        return at->value[to];
    if (at->changes)
        return spot_liveput_gives(dp, at->changes, to) + at->value[to];
    if (at->outcome.of[to] == -INFINITY)
        return 0;
    return at->outcome.at ? spot_liveput_worth(&at->outcome, at->value, (size_t)dp->n_grid + 1, to)
                          : at->outcome.of[to] + at->value[to];
}

static void find_waits(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                       int rank, struct spot_liveput_space *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;

    const struct spot_liveput_gain *gain[SPOT_LIVEPUT_EVENTS];

    space->n_wait = 0;
    memset(space->waits, 0, wide * sizeof(*space->waits));
    for (int e = 0; e < dists->n_event; e++)
        gain[e] = is_known(dp, dists, e)
                      ? NULL
                      : spot_liveput_gain_of(dp, n, rank, dists->event[e].change, true);
    for (int r = 0; r < dp->n_grid; r++)
        for (int e = 0; e < dists->n_event; e++) {
            const int n2 = n + dists->event[e].change;
            const int to = gain[e] && gain[e]->n_free[0] ? dp->clip[(size_t)n2 * wide + (size_t)r]
                                                         : dp->n_grid;

            if (to == dp->n_grid || gain[e]->of[to] > -INFINITY)
                continue;
            space->wait =
                spot_xgrow(space->wait, &space->wait_cap, space->n_wait + 1, sizeof(*space->wait));
            space->wait[space->n_wait++] = (struct spot_liveput_wait){ r, to, e };
            space->waits[r] = true;
        }
    space->on =
        spot_xgrow(space->on, &space->on_cap, space->n_wait * (size_t)dp->n_node, sizeof(double));
}

/* on[]: the value of waiting at every node of the unfinished time, for "still" in one context or
 * for all other events. */
static void fill_waits(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                       int n, int context, bool is_still, struct spot_liveput_space *space)
{
    for (size_t i = 0; i < space->n_wait; i++) {
        const struct spot_liveput_wait *w = &space->wait[i];
        const int change = dists->event[w->event].change;
        const double *value =
            spot_liveput_dp_value(dp, spot_liveput_context(dp, context, change), n + change);

        for (int node = 1; (w->event == 0) == is_still && node < dp->n_node; node++)
            space->on[i * (size_t)dp->n_node + (size_t)node] =
                spot_liveput_go_on(dp, value, w->to, node);
    }
}

double spot_liveput_prob(const struct spot_liveput_dists *dists, int context, int e)
{
    const struct spot_liveput_way *way = &dists->way[context];

    return e == 0 ? way->still
                  : (dists->event[e].change < 0 ? way->down : way->up) * dists->event[e].prob;
}

/* The expected value of the events that are known in advance; then[e] is the value of each. They
 * are losses. */
static double sum_known(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                        const double *then)
{
    double sum = 0;

    for (int e = 1; dp->sees_losses && e < dists->n_event; e++)
        if (is_known(dp, dists, e))
            sum += dists->event[e].prob * then[e];
    return sum;
}

/* The value of choosing r in a context, without the events known in advance. */
static double sum_of(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                     int context, bool is_owing, struct spot_liveput_space *space, int r)
{
    const struct spot_liveput_at *at = space->at[is_owing];
    const struct spot_liveput_way *way = &dists->way[context];
    double *down = &space->down[is_owing][r], *up = &space->up[is_owing][r];

    if (isnan(*down)) {
        *down = *up = 0;
        for (int e = 1; e < dists->n_event; e++)
            if (!is_known(dp, dists, e))
                *(dists->event[e].change < 0 ? down : up) +=
                    dists->event[e].prob * worth(dp, &at[e], r);
    }
    return way->still * worth(dp, &at[0], r) + way->down * *down + way->up * *up;
}

/* True if two targets are reduced to the same grid in each event: then their sums are always equal.
 */
static bool is_same(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                    const struct spot_liveput_at *at, int a, int b)
{
    for (int e = 0; e < dists->n_event; e++)
        if (!is_known(dp, dists, e) && cut_to(dp, &at[e], a) != cut_to(dp, &at[e], b))
            return false;
    return true;
}

/* --- upper bounds of what targets give --- */

/* An upper bound at an event, from any grid other than r. If r is reduced, the change may cost
 * nothing. */
static double most_at_event(const struct spot_liveput_dp *dp, const struct spot_liveput_at *at,
                            int r)
{
    const int to = cut_to(dp, at, r);

    return to == dp->n_grid
               ? at->value[to]
               : at->value[to] + (to == r
                                      ? dp->most[r]
                                      : dp->table->samples_per_s[dp->by_size[to]] * dp->interval_s);
}

static void fill_most(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                      int n, struct spot_liveput_most *most)
{
    for (int r = 0; r < dp->n_grid; r++)
        most->down[r] = most->up[r] = most->fits_down[r] = most->fits_up[r] = 0;
    for (int e = 1; e < dists->n_event; e++) {
        const int change = dists->event[e].change;
        const struct spot_liveput_at at =
            plain_at(dp, n + change, spot_liveput_context(dp, 0, change));
        double *sum = change < 0 ? most->down : most->up;
        double *fits = change < 0 ? most->fits_down : most->fits_up;

        for (int r = 0; r < dp->n_grid && !is_known(dp, dists, e); r++) {
            sum[r] += dists->event[e].prob * most_at_event(dp, &at, r);
            fits[r] += r < at.n_fit ? dists->event[e].prob : 0;
        }
    }
    most->is_filled = true;
}

/* Insertion sort: the order hardly changes from one sweep to the next. */
static void sort(int *order, const double *of, int n)
{
    for (int i = 1; i < n; i++) {
        const int x = order[i];
        int at = i;

        for (; at > 0 && of[order[at - 1]] < of[x]; at--)
            order[at] = order[at - 1];
        order[at] = x;
    }
}

const struct spot_liveput_most *spot_liveput_most_of(const struct spot_liveput_dp *dp,
                                                     const struct spot_liveput_dists *dists, int n,
                                                     int context, struct spot_liveput_space *space)
{
    struct spot_liveput_most *most = &space->most[n - dp->n_low];
    const struct spot_liveput_way *way = &dists->way[context];
    struct spot_liveput_at at;

    if (!most->is_filled)
        fill_most(dp, dists, n, most);
    if (most->is_sorted[context])
        return most;
    at = plain_at(dp, n, spot_liveput_context(dp, context, 0));
    for (int r = 0; r < dp->n_grid; r++) {
        const double fits = (r < at.n_fit ? way->still : 0) + way->down * most->fits_down[r] +
                            way->up * most->fits_up[r];

        most->of[context][r] = way->still * most_at_event(dp, &at, r) + way->down * most->down[r] +
                               way->up * most->up[r];
        most->moved[context][r] = most->of[context][r] - fits * (dp->most[r] - dp->most_moved[r]);
    }
    sort(most->order[context], most->of[context], dp->n_grid);
    most->is_sorted[context] = true;
    return most;
}

/* --- the best target --- */

static void enter(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                  const struct spot_liveput_at *at, struct spot_liveput_race *race, int r, double x)
{
    if (x > race->best) {
        race->second = race->best;
        race->best = x;
        race->rank = r;
    } else if (x > race->second && (x < race->best || !is_same(dp, dists, at, r, race->rank))) {
        race->second = x;
    }
}

/* Over all targets except those that wait in some event. Being suspended is one of the targets. */
static struct spot_liveput_race run_race(const struct spot_liveput_dp *dp,
                                         const struct spot_liveput_dists *dists, int n, int rank,
                                         int context, bool is_owing,
                                         struct spot_liveput_space *space)
{
    const struct spot_liveput_most *most = spot_liveput_most_of(dp, dists, n, context, space);
    const struct spot_liveput_at *at = space->at[is_owing];
    struct spot_liveput_race race = { sum_of(dp, dists, context, is_owing, space, dp->n_grid),
                                      -INFINITY, 0, dp->n_grid };

    if (rank < dp->n_grid && !(is_owing && space->waits[rank]))
        enter(dp, dists, at, &race, rank, sum_of(dp, dists, context, is_owing, space, rank));
    for (int i = 0; i < dp->n_grid; i++) {
        const int r = most->order[context][i];
        const double limit = most->of[context][r];

        /* this holds for all later ones too */
        if (!dp->tries_all && limit + 1e-9 * fabs(limit) <= race.best) {
            race.second = fmax(race.second, limit);
            break;
        }
        if (spot_liveput_moves(dp, rank, r) && !dp->tries_all &&
            most->moved[context][r] + 1e-9 * fabs(limit) <= race.best)
            race.second = fmax(race.second, most->moved[context][r]);
        else if (r != rank && !(is_owing && space->waits[r]))
            enter(dp, dists, at, &race, r, sum_of(dp, dists, context, is_owing, space, r));
    }
    return race;
}

/* The same with the result of the previous sweep, if that is still valid. *rank: the best target.
 */
static double best_of(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists, int n,
                      int from, int context, bool is_owing, struct spot_liveput_space *space,
                      int *rank)
{
    struct spot_liveput_found *found = spot_liveput_memo_next(dp);
    const struct spot_liveput_way *way = &dists->way[context];
    const double moved = way->still * space->at[is_owing][0].moved + way->down * space->moved_down +
                         way->up * space->moved_up;
    struct spot_liveput_race race;

    if (found->other < INFINITY) {
        const double x = sum_of(dp, dists, context, is_owing, space, *rank = found->rank);

        if (spot_liveput_found_holds(found, moved, x))
            return x;
    }
    race = run_race(dp, dists, n, from, context, is_owing, space);
    *rank = race.rank;
    spot_liveput_found_keep(found, moved, &race);
    return race.best;
}

/* The best value at a node of the unfinished time, when targets that wait are included. */
static double most_at_node(const struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                           int context, double best, int node, struct spot_liveput_space *space)
{
    for (size_t i = 0; i < space->n_wait;) {
        const int r = space->wait[i].r;
        double x = sum_of(dp, dists, context, true, space, r);

        for (; i < space->n_wait && space->wait[i].r == r; i++)
            x += spot_liveput_prob(dists, context, space->wait[i].event) *
                 space->on[i * (size_t)dp->n_node + (size_t)node];
        best = x > best ? x : best;
    }
    return best;
}

/* Prepare what all contexts share: every event except "still". */
static void prepare_events(struct spot_liveput_dp *dp, const struct spot_liveput_dists *dists,
                           int n, int rank, int n_node, struct spot_liveput_space *space)
{
    space->moved_down = space->moved_up = 0;
    for (int owing = 0; owing < (n_node > 1 ? 2 : 1); owing++)
        for (int r = 0; r <= dp->n_grid; r++)
            space->down[owing][r] = space->up[owing][r] = NAN;
    for (int e = 1; e < dists->n_event; e++) {
        const int change = dists->event[e].change;
        const int context = spot_liveput_context(dp, 0, change);

        if (is_known(dp, dists, e)) {
            spot_liveput_follow(dp, n, rank, change, context, space->then + e, SPOT_LIVEPUT_EVENTS);
            continue;
        }
        for (int owing = 0; owing < (n_node > 1 ? 2 : 1); owing++)
            space->at[owing][e] = at_event(dp, n, rank, change, context, owing);
        *(change < 0 ? &space->moved_down : &space->moved_up) +=
            dists->event[e].prob * space->at[0][e].moved;
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
    double known;

    prepare_events(dp, dists, n, rank, n_node, space);
    known = sum_known(dp, dists, space->then);
    for (int c = 0; c < dp->n_context; c++) {
        double *next = dp->next + spot_liveput_value_at(dp, c, n) + (size_t)rank, best;
        const int still = spot_liveput_context(dp, c, 0);
        const double down = dists->way[c].down;
        int to;

        space->at[0][0] = at_event(dp, n, rank, 0, still, false);
        *next = best_of(dp, dists, n, rank, c, false, space, &to) + down * known;
        if (n_node == 1)
            continue;
        space->at[1][0] = at_event(dp, n, rank, 0, still, true);
        fill_waits(dp, dists, n, c, true, space);
        best = best_of(dp, dists, n, rank, c, true, space, &to);
        spot_liveput_at_nodes(dp, spot_liveput_gain_of(dp, n, rank, 0, true), -1, NULL, 0, to, best,
                              dp->at_node);
        for (int node = 1; node < n_node; node++)
            next[(size_t)node * wide] =
                most_at_node(dp, dists, c, dp->at_node[node], node, space) +
                down * sum_known(dp, dists, space->then + (size_t)node * SPOT_LIVEPUT_EVENTS);
    }
}
