/* SPDX-License-Identifier: MIT */
/* sim_policy.h - shared by the policies of the training simulator; used in lib/sim only. */
#ifndef SPOT_SIM_SIM_POLICY_H
#define SPOT_SIM_SIM_POLICY_H

#include "sim/train_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int spot_sim_run_fn(const struct spot_sim_train *sim, struct spot_sim_row *row,
                            struct spot_err *err);

spot_sim_run_fn spot_sim_ideal, spot_sim_on_demand, spot_sim_spot, spot_sim_optimal;

/* A job that migrates: its grid, and what is left of an unfinished migration. */
struct spot_sim_state {
    int n;    /* instances before the interval */
    int grid; /* or SPOT_GRID_NONE */
    double carry_s;
    /* number of intervals so far: with is_sampled each has its own random numbers */
    uint64_t draws;
};

/* The grid that runs when `grid` is executed with n instances: fewer pipelines if they do not fit,
 * SPOT_GRID_NONE if none does. */
int spot_sim_clip(const struct spot_cost_table *table, int grid, int n);

/* The first interval: start `grid` at the cost of a restart with joiners. */
void spot_sim_start(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                    struct spot_sim_row *row);

/* Execute `grid` in interval i: clip it, charge the change, train for the rest, account. */
void spot_sim_migrate(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                      struct spot_sim_row *row);

/* Account for interval `row` on D x P, with `used_s` (<= interval) of waiting of class `why`
 * first. */
void spot_sim_account(const struct spot_sim_train *sim, struct spot_sim_row *row, int d, int p,
                      double samples_per_s, double used_s, enum spot_sim_class why);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SIM_POLICY_H */
