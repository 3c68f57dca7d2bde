/* SPDX-License-Identifier: MIT */
#include "sim/train_sim.h"

#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "sim/sim_policy.h"

const struct spot_sim_policy spot_sim_policies[] = {
    { "ideal", "the fastest grid of every interval, changes are free", spot_sim_ideal, false,
      "free" },
    { "on-demand", "the machines of the largest count's fastest grid, never lost",
      spot_sim_on_demand, true, "no losses" },
    { "optimal", "the whole trace known: no policy at these prices does better", spot_sim_optimal,
      false, NULL },
    { "spot", "the stochastic dynamic program of this project", spot_sim_spot, false, NULL },
    { 0 },
};

int spot_sim_cap(const struct spot_job_doc *job, int seen)
{
    const int profiled = spot_job_profiled(job);
    int cap = profiled ? profiled : 1;

    while (cap < seen && cap < SPOT_COST_INSTANCES_MAX)
        cap = 2 * cap < SPOT_COST_INSTANCES_MAX ? 2 * cap : SPOT_COST_INSTANCES_MAX;
    return cap;
}

/* --- accounting --- */

void spot_sim_account(const struct spot_sim_train *sim, struct spot_sim_row *row, int d, int p,
                      double samples_per_s, double used_s, enum spot_sim_class why)
{
    const double t = sim->interval_s, busy = (double)d * p, used = used_s < t ? used_s : t;
    const enum spot_sim_class work = samples_per_s > 0 ? SPOT_SIM_EFFECTIVE : SPOT_SIM_IDLE;

    row->d = d;
    row->p = p;
    row->spares = row->available - d * p;
    row->class_s[why] += busy * used;
    row->class_s[work] += busy * (t - used);
    row->class_s[SPOT_SIM_IDLE] += row->spares * t;
    if (samples_per_s > 0)
        row->samples += samples_per_s * (t - used);
}

int spot_sim_clip(const struct spot_cost_table *t, int grid, int n)
{
    if (grid == SPOT_GRID_NONE || t->d[grid] * t->p[grid] <= n)
        return grid;
    if (n / t->p[grid] > 0)
        return spot_cost_grid(t, n / t->p[grid], t->p[grid]);
    return spot_cost_grid(t, 1, n);
}

/* Draw the victims uniformly; gives their number in each stage. */
static void draw(const struct spot_sim_train *sim, const struct spot_sim_state *state, int lost,
                 int *dead)
{
    const struct spot_cost_table *t = sim->table;
    const int d = t->d[state->grid], p = t->p[state->grid];
    int place[SPOT_COST_INSTANCES_MAX];
    struct spot_rng rng;

    spot_rng_init(&rng, sim->seed, state->draws);
    memset(dead, 0, (size_t)p * sizeof(*dead));
    for (int i = 0; i < state->n; i++)
        place[i] = i;
    for (int i = 0; i < lost; i++) {
        const int j = i + (int)spot_rng_below(&rng, (uint64_t)(state->n - i)), x = place[j];

        place[j] = place[i];
        place[i] = x;
        if (x < d * p)
            dead[x % p]++;
    }
}

static double charge(const struct spot_sim_train *sim, const struct spot_sim_state *state, int lost,
                     int to)
{
    int dead[SPOT_COST_INSTANCES_MAX];

    if (!sim->is_sampled || state->grid == SPOT_GRID_NONE)
        return spot_cost_row(sim->table, state->n, state->grid, lost)[to];
    draw(sim, state, lost, dead);
    return spot_cost_drawn_s(sim->table, state->grid, lost, dead, to);
}

/* Account for running `to` in this interval after a wait of `total_s`. */
static void settle(const struct spot_sim_train *sim, struct spot_sim_state *state, int to,
                   double total_s, struct spot_sim_row *row)
{
    const struct spot_cost_table *t = sim->table;

    state->n = row->available;
    state->draws++;
    state->grid = to;
    state->carry_s = total_s > sim->interval_s ? total_s - sim->interval_s : 0;
    row->carry_s = state->carry_s;
    if (to != SPOT_GRID_NONE)
        spot_sim_account(sim, row, t->d[to], t->p[to], t->samples_per_s[to], total_s,
                         SPOT_SIM_RECONFIGURE);
    else /* suspended: the state is safe, and the machines wait */
        spot_sim_account(sim, row, 0, 0, 0, 0, SPOT_SIM_IDLE);
}

void spot_sim_start(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                    struct spot_sim_row *row)
{
    row->asked_d = grid == SPOT_GRID_NONE ? 0 : sim->table->d[grid];
    row->asked_p = grid == SPOT_GRID_NONE ? 0 : sim->table->p[grid];
    if (grid != SPOT_GRID_NONE)
        row->cost_s = spot_cost_start_s(sim->table, grid);
    settle(sim, state, grid, row->cost_s, row);
}

void spot_sim_migrate(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                      struct spot_sim_row *row)
{
    const int to = spot_sim_clip(sim->table, grid, row->available);
    const struct spot_cost_state before = { state->n, state->grid, state->carry_s };
    double total = 0;

    row->asked_d = grid == SPOT_GRID_NONE ? 0 : sim->table->d[grid];
    row->asked_p = grid == SPOT_GRID_NONE ? 0 : sim->table->p[grid];
    if (to != SPOT_GRID_NONE) {
        row->cost_s = charge(sim, state, row->lost, to);
        total = spot_cost_total_s(sim->table, &before, to, row->cost_s);
    }
    settle(sim, state, to, total, row);
}

void spot_sim_total(const struct spot_sim_row *row, size_t n, struct spot_sim_total *total)
{
    memset(total, 0, sizeof(*total));
    for (size_t i = 0; i < n; i++) {
        total->samples += row[i].samples;
        total->lost_samples += row[i].lost_samples;
        total->usd += row[i].usd;
        for (int c = 0; c < SPOT_SIM_CLASSES; c++)
            total->class_s[c] += row[i].class_s[c];
        if (i && (row[i].d != row[i - 1].d || row[i].p != row[i - 1].p || row[i].cost_s > 0))
            total->migrations++;
    }
}

int spot_sim_train_run(const struct spot_sim_train *sim, const struct spot_sim_policy *policy,
                       struct spot_sim_row *row, struct spot_err *err)
{
    const struct spot_job_cost *cost = &sim->job->cost;
    const double price = policy->is_on_demand ? cost->on_demand_usd_per_h : cost->usd_per_h;
    int most = 0, d = 0, p = 0;

    memset(row, 0, sim->n_interval * sizeof(*row));
    for (size_t i = 0; i < sim->n_interval; i++)
        most = sim->available[i] > most ? sim->available[i] : most;
    if (policy->is_on_demand) { /* instances that the grid does not use need not be rented */
        spot_throughput_best(sim->throughput, most, &d, &p);
        most = d * p;
    }
    for (size_t i = 0; i < sim->n_interval; i++) {
        const int n = policy->is_on_demand ? most : sim->available[i];
        const int before = i ? (policy->is_on_demand ? most : sim->available[i - 1]) : 0;

        row[i].available = n;
        row[i].gained = n > before ? n - before : 0;
        row[i].lost = n < before ? before - n : 0;
        row[i].usd = price > 0 ? price * n * sim->interval_s / 3600 : 0;
    }
    return policy->run(sim, row, err);
}
