/* SPDX-License-Identifier: MIT */
/* The policy `spot`: the stochastic dynamic program, its chain learned as the trace goes. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/liveput_dp.h"
#include "sim/sim_policy.h"

enum { SWEEPS_FIRST = 200, SWEEPS_LATER = 20, INTERVALS_BETWEEN = 16, END_MAX = 24 };

enum { KNOWN_MAX = 64 };

/* A change is known `notice` before it happens: that of this interval, which happens now, and
 * those of later intervals that begin before the notice is over. */
static int known(const struct spot_sim_train *sim, const struct spot_sim_row *row, size_t i,
                 int *change)
{
    int n = 0;

    for (; n < KNOWN_MAX && i + (size_t)n < sim->n_interval &&
           (n == 0 || n * sim->interval_s < sim->notice_s);
         n++)
        change[n] = row[i + (size_t)n].gained - row[i + (size_t)n].lost;
    return n;
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

/* The grid for interval i. */
static int choose(const struct spot_sim_train *sim, struct spot_liveput_dp *dp,
                  const struct spot_count_chain *chain, const struct spot_sim_state *state,
                  const int *change, int n_known, double *drawn_s)
{
    const struct spot_liveput_view view = { .n = state->n,
                                            .from = state->grid,
                                            .carry_s = state->carry_s,
                                            .context = chain->context,
                                            .n_known = n_known,
                                            .change = change,
                                            .cost_s = sim->is_sampled ? drawn_s : NULL };
    struct spot_count_step step;

    if (sim->notice_s > 0 && sim->is_sampled) /* the notice says who goes */
        spot_sim_drawn(sim, state, change[0] < 0 ? -change[0] : 0, drawn_s);
    if (sim->notice_s > 0)
        return spot_liveput_dp_after(dp, &view).grid;
    spot_count_chain_step(chain, state->n, chain->context, &step);
    return spot_liveput_dp_before(dp, state->n, state->grid, state->carry_s, chain->context, &step)
        .grid;
}

int spot_sim_spot(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    struct spot_sim_state state = { 0 };
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    size_t again = INTERVALS_BETWEEN;
    int d, p, change[KNOWN_MAX];
    double *drawn_s = spot_xcalloc((size_t)sim->table->n_grid + 1, sizeof(*drawn_s));

    (void)err;
    spot_count_chain_init(&chain, sim->table->n_max);
    spot_liveput_dp_init(&dp, sim->table, sim->interval_s, sim->notice_s > 0);
    dp.sees_victims = sim->is_sampled;
    spot_liveput_dp_solve(&dp, &chain, SWEEPS_FIRST);
    spot_throughput_best(sim->throughput, row[0].available, &d, &p);
    spot_sim_start(sim, &state, spot_cost_grid(sim->table, d, p), &row[0]);
    for (size_t i = 1; i < sim->n_interval; i++) {
        const int n_known = known(sim, row, i, change);

        solve(sim, &dp, &chain, i, n_known, &again);
        spot_sim_migrate(sim, &state, choose(sim, &dp, &chain, &state, change, n_known, drawn_s),
                         &row[i]);
        spot_count_chain_observe(&chain, row[i - 1].available, row[i].available);
    }
    spot_liveput_dp_release(&dp);
    free(drawn_s);
    return 0;
}
