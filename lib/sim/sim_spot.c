/* SPDX-License-Identifier: MIT */
/* The policy `spot`: the stochastic dynamic program, its chain learned as the trace goes. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/liveput_dp.h"
#include "sim/sim_policy.h"

enum { SWEEPS_FIRST = 200, SWEEPS_LATER = 20, INTERVALS_BETWEEN = 16, END_MAX = 24 };

enum { KNOWN_MAX = 64 };

/* What is known before interval i: the changes of the coming intervals as far as they are told,
 * and which kinds would have been told if they came in the first. */
struct news {
    int n, change[KNOWN_MAX];
    bool no_loss, no_gain; /* of the first interval, where n is 0 */
};

static bool is_told(const struct spot_sim_train *sim, double notice_s, int k)
{
    return notice_s > 0 && (k == 0 || k * sim->interval_s < notice_s);
}

/* A change is told `notice` before it happens: that of this interval, which happens now, and those
 * of later intervals that begin before the notice is over. An interval is known where both kinds
 * would be told or one is; one before a change that is told counts as still. */
static void listen(const struct spot_sim_train *sim, const struct spot_sim_row *row, size_t i,
                   struct news *news)
{
    int n = row[i - 1].available; /* by what is told */

    *news = (struct news){ .no_loss = is_told(sim, sim->notice_loss_s, 0),
                           .no_gain = is_told(sim, sim->notice_gain_s, 0) };

    for (int k = 0; k < KNOWN_MAX && i + (size_t)k < sim->n_interval; k++) {
        const struct spot_sim_row *r = &row[i + (size_t)k];
        const bool loss = is_told(sim, sim->notice_loss_s, k);
        const bool gain = is_told(sim, sim->notice_gain_s, k);

        if (!loss && !gain)
            return;
        news->change[k] = (gain ? r->gained : 0) - (loss ? r->lost : 0);
        if (news->change[k] < -n) /* who comes unannounced and goes announced */
            news->change[k] = -n;
        n += news->change[k];
        if (news->change[k] || (loss && gain && news->n == k))
            news->n = k + 1;
    }
}

/* Bring the values up to date for interval i, of whose future n_known intervals are known. The
 * other policies know where the trace ends once their look-ahead reaches it; so does this one. */
static void solve(const struct spot_sim_train *sim, struct spot_liveput_dp *dp,
                  const struct spot_count_chain *chain, size_t i, int n_known, size_t *again)
{
    const size_t left = sim->n_interval - i;
    const int end = sim->look_ahead < END_MAX ? sim->look_ahead : (int)END_MAX;

    if (left <= (size_t)end) {
        spot_liveput_dp_finish(dp, chain, (int)left - n_known);
    } else if (i >= *again) { /* the chain changes ever less: solve ever more seldom */
        spot_liveput_dp_solve(dp, chain, SWEEPS_LATER);
        *again = i + INTERVALS_BETWEEN + i / 8;
    }
}

/* What would have been told does not come. */
static void leave_out(struct spot_count_step *step, const struct news *news)
{
    double all = step->still;

    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        step->lost[k] = news->no_loss ? 0 : step->lost[k];
        step->gained[k] = news->no_gain ? 0 : step->gained[k];
        all += step->lost[k] + step->gained[k];
    }
    step->still /= all;
    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        step->lost[k] /= all;
        step->gained[k] /= all;
    }
}

/* The grid for interval i. */
static int choose(const struct spot_sim_train *sim, struct spot_liveput_dp *dp,
                  const struct spot_count_chain *chain, const struct spot_sim_state *state,
                  const struct news *news, double *drawn_s)
{
    const struct spot_liveput_view view = { .n = state->n,
                                            .from = state->grid,
                                            .carry_s = state->carry_s,
                                            .context = chain->context,
                                            .n_known = news->n,
                                            .change = news->change,
                                            .cost_s = sim->is_sampled ? drawn_s : NULL };
    struct spot_count_step step;

    if (news->n && sim->is_sampled) /* the notice says who goes */
        spot_sim_drawn(sim, state, news->change[0] < 0 ? -news->change[0] : 0, drawn_s);
    if (news->n)
        return spot_liveput_dp_after(dp, &view).grid;
    spot_count_chain_step(chain, state->n, chain->context, &step);
    leave_out(&step, news);
    return spot_liveput_dp_before(dp, state->n, state->grid, state->carry_s, chain->context, &step)
        .grid;
}

/* The program for up to `cap` instances, whatever the table holds: what the trace comes to later is
 * not known. */
static void begin(const struct spot_sim_train *sim, struct spot_liveput_dp *dp,
                  const struct spot_count_chain *chain, int cap)
{
    spot_liveput_dp_init(dp, sim->table, sim->interval_s,
                         sim->notice_loss_s > 0 && sim->notice_gain_s > 0);
    dp->sees_losses = sim->notice_loss_s > 0;
    dp->sees_victims = sim->is_sampled;
    dp->n_max = cap < dp->n_max ? cap : dp->n_max;
    spot_liveput_dp_solve(dp, chain, SWEEPS_FIRST);
}

/* The most instances that were there or are announced. */
static int most_of(const struct spot_sim_row *row, size_t i, const struct news *news, int seen)
{
    int n = row[i - 1].available;

    seen = n > seen ? n : seen;
    for (int k = 0; k < news->n; k++) {
        n += news->change[k];
        seen = n > seen ? n : seen;
    }
    return seen;
}

int spot_sim_spot(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    int d, p, seen = row[0].available, cap = spot_sim_cap(sim->job, seen);
    double *drawn_s = spot_xcalloc((size_t)sim->table->n_grid + 1, sizeof(*drawn_s));
    struct spot_sim_state state = { 0 };
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    size_t again = INTERVALS_BETWEEN;
    struct news news;

    (void)err;
    spot_count_chain_init(&chain, cap);
    begin(sim, &dp, &chain, cap);
    spot_throughput_best(sim->throughput, row[0].available, &d, &p);
    spot_sim_start(sim, &state, spot_cost_grid(sim->table, d, p), &row[0]);
    for (size_t i = 1; i < sim->n_interval; i++) {
        listen(sim, row, i, &news);
        seen = most_of(row, i, &news, seen);
        if (spot_sim_cap(sim->job, seen) > cap) {
            chain.cap = cap = spot_sim_cap(sim->job, seen);
            spot_liveput_dp_release(&dp);
            begin(sim, &dp, &chain, cap);
        }
        solve(sim, &dp, &chain, i, news.n ? news.n : 1, &again);
        spot_sim_migrate(sim, &state, choose(sim, &dp, &chain, &state, &news, drawn_s), &row[i]);
        spot_count_chain_observe(&chain, row[i - 1].available, row[i].available);
    }
    spot_liveput_dp_release(&dp);
    free(drawn_s);
    return 0;
}
