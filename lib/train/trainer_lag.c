/* SPDX-License-Identifier: MIT */
/* How often a generation is written, and how far the disk is behind the job. A generation costs
 * what steps take longer while one is under way: not the time until it is on the disk, which passes
 * beside them, nor what the first of a cold disk took. */
#include <math.h>

#include "common/clock.h"
#include "train/trainer_state.h"

/* Of the time of steps. */
static const double cost_share = 0.05;

/* The first of an epoch waits for pages and connections. */
void spot_trainer_note_step(struct spot_trainer *c, double step_s)
{
    spot_save_cost_step(&c->save_cost, step_s, spot_store_is_busy(c->store),
                        c->n_epoch_commit >= 2);
}

void spot_trainer_lag_begun(struct spot_trainer *c)
{
    c->durable_s = c->durable_next_s = spot_clock_s();
    c->durable_step = c->machine->round;
    spot_save_cost_begun(&c->save_cost);
}

/* The first step that a loss of everything would cost: work, not the wait for workers. */
void spot_trainer_lag_step(struct spot_trainer *c)
{
    const int64_t newest = spot_store_newest(c->store), round = c->machine->round;

    if (round == c->durable_step)
        c->durable_next_s = spot_clock_s();
    if (round == (newest < 0 ? 0 : newest))
        c->durable_of_s = spot_clock_s();
}

void spot_trainer_lag_ended(struct spot_trainer *c, bool is_durable)
{
    spot_save_cost_ended(&c->save_cost);
    if (!is_durable)
        return;
    c->durable_of_s = c->durable_next_s;
}

/* Without a replica or a buddy a single kill loses a stage, so the disk must be near; but writing
 * must not take more than a small share of the time. */
double spot_trainer_durable_every_s(const struct spot_trainer *c)
{
    double every_s = 3;

    if (c->options->durable_every_s > 0)
        return c->options->durable_every_s;
    for (uint32_t p = 0; p < c->form.P; p++)
        if (spot_form_replicas(&c->form) < 2 && !c->form.buddy[p])
            every_s = SPOT_DURABLE_LEAST_S;
    return fmax(every_s, spot_save_cost_s(&c->save_cost) / cost_share);
}

double spot_trainer_lag_s(const struct spot_trainer *c)
{
    const int64_t round = c->machine->round;

    return c->last_commit_s > 0 && round > 0 && spot_store_newest(c->store) < round
               ? spot_clock_s() - c->durable_of_s
               : 0;
}
