/* SPDX-License-Identifier: MIT */
#include "train/durable_lag.h"

#include <math.h>

#include "common/clock.h"

/* --- the cost of a generation --- */

/* Weight of a new measurement; and the number of generations after which a step without one is
 * needed. */
static const double trust = 0.3;
enum { MOST_BEGUN = 8 };

void spot_save_cost_begun(struct spot_save_cost *c)
{
    c->is_beside = true;
    c->n_begun++;
}

void spot_save_cost_ended(struct spot_save_cost *c)
{
    c->is_ended = true;
}

static void measure(struct spot_save_cost *c, double step_s)
{
    if (c->is_beside && c->calm_s > 0)
        c->excess_s += step_s - c->calm_s;
    else if (!c->is_beside)
        c->calm_s += (c->calm_s > 0 ? trust : 1) * (step_s - c->calm_s);
}

void spot_save_cost_step(struct spot_save_cost *c, double step_s, bool is_busy, bool is_usual)
{
    if (is_usual)
        measure(c, step_s);
    if (!c->is_beside)
        c->n_begun = 0;
    if (c->is_ended) {
        c->mean_s += trust * (c->excess_s - c->mean_s);
        c->excess_s = 0;
    }
    c->is_ended = false;
    c->is_beside = is_busy;
}

double spot_save_cost_s(const struct spot_save_cost *c)
{
    return fmax(0, c->mean_s);
}

bool spot_save_cost_wants_calm(const struct spot_save_cost *c)
{
    return c->n_begun >= MOST_BEGUN;
}

/* --- the time of the next --- */

/* Maximum share of the time of steps. */
static const double cost_share = 0.05;

void spot_durable_lag_asked(struct spot_durable_lag *lag, int64_t round)
{
    lag->asked_s = lag->asked_next_s = spot_clock_s();
    lag->asked_of = round;
    spot_save_cost_begun(&lag->cost);
}

void spot_durable_lag_ended(struct spot_durable_lag *lag, bool is_durable)
{
    spot_save_cost_ended(&lag->cost);
    if (is_durable)
        lag->next_s = lag->asked_next_s;
}

/* The work at risk starts with the first step, not with the wait for workers. */
void spot_durable_lag_step(struct spot_durable_lag *lag, int64_t round, int64_t newest)
{
    if (round == lag->asked_of)
        lag->asked_next_s = spot_clock_s();
    if (round == (newest < 0 ? 0 : newest))
        lag->next_s = spot_clock_s();
}

double spot_durable_lag_every_s(const struct spot_durable_lag *lag, double asked_every_s,
                                bool is_single)
{
    if (asked_every_s > 0)
        return asked_every_s;
    return fmax(is_single ? SPOT_DURABLE_LEAST_S : 3, spot_save_cost_s(&lag->cost) / cost_share);
}

bool spot_durable_lag_is_due(const struct spot_durable_lag *lag, double asked_every_s,
                             bool is_single)
{
    return spot_clock_s() - lag->asked_s >=
               spot_durable_lag_every_s(lag, asked_every_s, is_single) &&
           (asked_every_s > 0 || !spot_save_cost_wants_calm(&lag->cost));
}
