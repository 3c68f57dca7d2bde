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

spot_sim_run_fn spot_sim_ideal, spot_sim_throughput, spot_sim_on_demand;
spot_sim_run_fn spot_sim_spot, spot_sim_guarded, spot_sim_optimal, spot_sim_truth,
    spot_sim_persistence, spot_sim_nowcast, spot_sim_parcae;

spot_sim_run_fn spot_sim_varuna, spot_sim_bamboo, spot_sim_oobleck, spot_sim_torchft;
spot_sim_run_fn spot_sim_torchrun, spot_sim_varuna_released, spot_sim_bamboo_released;

/* A job that migrates: its grid, and what is left of an unfinished migration. */
struct spot_sim_state {
    int n;    /* instances before the interval */
    int grid; /* or SPOT_GRID_NONE */
    double carry_s;
    uint64_t draws; /* intervals so far: with is_sampled each has its own random numbers */
};

/* The grid that runs when `grid` is executed with n instances: fewer pipelines if they do not fit,
 * SPOT_GRID_NONE if none does. */
int spot_sim_clip(const struct spot_cost_table *table, int grid, int n);

/* The first interval: start `grid` at the cost of a restart with joiners. */
void spot_sim_start(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                    struct spot_sim_row *row);

/* With is_sampled: seconds to every grid, cost_s[n_grid], after the losses of this interval: what
 * spot_sim_migrate will charge. */
void spot_sim_drawn(const struct spot_sim_train *sim, const struct spot_sim_state *state, int lost,
                    double *cost_s);

/* Execute `grid` in interval i: clip it, charge the change, train for the rest, account. */
void spot_sim_migrate(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                      struct spot_sim_row *row);

/* Execute `grid` in interval i, including the first. */
void spot_sim_obey(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                   size_t i, struct spot_sim_row *row);

/* A decision maker for any job, not only its own: the grid for interval i of a job in `state`.
 * Intervals are queried in order, each any number of times. */
struct spot_sim_program {
    int (*ask)(struct spot_sim_program *program, size_t i, const struct spot_sim_state *state);
};

/* That of `spot`, for the counts of row[sim->n_interval], borrowed. */
struct spot_sim_program *spot_sim_program_open(const struct spot_sim_train *sim,
                                               const struct spot_sim_row *row);
void spot_sim_program_close(struct spot_sim_program *program);

/* The policy `guarded` between a program and a policy that was played on the trace: follow the
 * program within the bound of docs/design/06-liveput.md on how far the job may be behind `safe`.
 * The job is in row; shadow is a job that always follows. All start alike. */
void spot_sim_guard(const struct spot_sim_train *sim, struct spot_sim_program *program,
                    const struct spot_sim_row *safe, struct spot_sim_row *shadow,
                    struct spot_sim_row *row);

/* Samples per second of D x P; by the fitted curve if the profile has no entry, as is often so for
 * other systems' grids. */
double spot_sim_speed(const struct spot_sim_train *sim, int d, int p);

/* The costs charged to other systems. */
const struct spot_peer_prices *spot_sim_peers(const struct spot_sim_train *sim);

enum { SPOT_SIM_PRIOR_INTERVALS = 10 }; /* before the run, with one change assumed in them */

/* Young's and Daly's interval between checkpoints, from events so far. */
double spot_sim_save_every_s(const struct spot_sim_train *sim, double save_s, size_t n_change,
                             size_t n_seen);

/* Lost samples were counted when they were processed: move them, newest first, from samples and
 * effective time to lost and redone. */
void spot_sim_settle_losses(struct spot_sim_row *row, size_t n);

/* Account for interval `row` on D x P, with `used_s` (<= interval) of waiting of class `why`
 * first. */
void spot_sim_account(const struct spot_sim_train *sim, struct spot_sim_row *row, int d, int p,
                      double samples_per_s, double used_s, enum spot_sim_class why);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SIM_POLICY_H */
