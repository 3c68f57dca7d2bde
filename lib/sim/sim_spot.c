/* SPDX-License-Identifier: MIT */
/* The policy `spot`: the stochastic dynamic program, its chain learned as the trace goes. */
#include "plan/liveput_dp.h"
#include "sim/sim_policy.h"

enum { SWEEPS_FIRST = 200, SWEEPS_LATER = 20, INTERVALS_BETWEEN = 16 };

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

int spot_sim_spot(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    struct spot_sim_state state = { 0 };
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    size_t again = INTERVALS_BETWEEN;

    (void)err;
    spot_count_chain_init(&chain, sim->table->n_max);
    spot_liveput_dp_init(&dp, sim->table, sim->interval_s, sim->notice_s > 0);
    spot_liveput_dp_solve(&dp, &chain, SWEEPS_FIRST);
    for (size_t i = 0; i < sim->n_interval; i++) {
        struct spot_liveput_choice c;

        if (i >= again) { /* the chain changes ever less: solve ever more seldom */
            spot_liveput_dp_solve(&dp, &chain, SWEEPS_LATER);
            again = i + INTERVALS_BETWEEN + i / 8;
        }
        if (!i) {
            int d, p;

            spot_throughput_best(sim->throughput, row[0].available, &d, &p);
            spot_sim_start(sim, &state, spot_cost_grid(sim->table, d, p), &row[0]);
            continue;
        }
        if (sim->notice_s > 0) {
            int change[KNOWN_MAX];
            const struct spot_liveput_view view = { .n = state.n,
                                                    .from = state.grid,
                                                    .carry_s = state.carry_s,
                                                    .context = chain.context,
                                                    .n_known = known(sim, row, i, change),
                                                    .change = change };

            c = spot_liveput_dp_after(&dp, &view);
        } else {
            struct spot_count_step step;

            spot_count_chain_step(&chain, state.n, chain.context, &step);
            c = spot_liveput_dp_before(&dp, state.n, state.grid, state.carry_s, chain.context,
                                       &step);
        }
        spot_sim_migrate(sim, &state, c.grid, &row[i]);
        spot_count_chain_observe(&chain, row[i - 1].available, row[i].available);
    }
    spot_liveput_dp_release(&dp);
    return 0;
}
