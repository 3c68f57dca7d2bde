/* SPDX-License-Identifier: MIT */
/* Two reference policies for training: one with free changes, one with machines that are never
 * lost. */
#include "sim/sim_policy.h"

int spot_sim_ideal(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    (void)err;
    for (size_t i = 0; i < sim->n_interval; i++) {
        int d, p;
        const double x = spot_throughput_best(sim->throughput, row[i].available, &d, &p);

        spot_sim_account(sim, &row[i], d, p, x, 0, SPOT_SIM_RECONFIGURE);
    }
    return 0;
}

int spot_sim_on_demand(const struct spot_sim_train *sim, struct spot_sim_row *row,
                       struct spot_err *err)
{
    if (sim->job->cost.on_demand_usd_per_h < 0)
        return spot_err_set(err, SPOT_EDATA, "job '%.64s' has no /cost/on_demand_usd_per_h",
                            sim->job->name);
    return spot_sim_ideal(sim, row, err);
}
