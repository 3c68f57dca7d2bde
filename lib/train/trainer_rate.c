/* SPDX-License-Identifier: MIT */
/* Rates of links, measured in the moves of earlier epochs, for the planner of migrations. */
#include <math.h>

#include "common/clock.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"

/* 10 Gbit/s, if nothing was measured. */
static const double default_byte_per_s = 1.25e9;

/* The receiver may have waited for a slow sender, so the best measurement counts, older ones
 * half. */
double spot_trainer_rate_seen(double before_byte_per_s, double byte, double took_s)
{
    return byte >= SPOT_TRAINER_RATE_BYTE && took_s > 0 ? fmax(byte / took_s, before_byte_per_s / 2)
                                                        : before_byte_per_s;
}

/* Rounded to a power of two below the best rate, so that equal machines get equal rates, and plans
 * are stable. */
double spot_trainer_rate_for_plan(double best_byte_per_s, double mine_byte_per_s)
{
    return mine_byte_per_s > 0
               ? best_byte_per_s * exp2(-rint(log2(best_byte_per_s / mine_byte_per_s)))
               : best_byte_per_s;
}

void spot_trainer_note_moved(const struct spot_trainer *c, struct spot_trainer_member *who)
{
    const uint32_t id = spot_peer_id(who->peer);
    double byte = 0;

    for (size_t i = 0; i < c->form.n_transfer; i++)
        if (c->form.transfer[i].to == id && c->form.transfer[i].origin == SPOT_FROM_MEMBER)
            byte += (double)spot_trainer_bundle_byte(c, (int)c->form.transfer[i].bundle);
    who->moved_byte_per_s =
        spot_trainer_rate_seen(who->moved_byte_per_s, byte, spot_clock_s() - c->relay.since_s);
}

double spot_trainer_best_byte_per_s(const struct spot_trainer *c)
{
    double best = 0;

    for (size_t i = 0; i < c->machine->n_member; i++)
        best = fmax(best, spot_trainer_member(c, c->machine->member[i].id)->moved_byte_per_s);
    return best > 0 ? best : default_byte_per_s;
}

double spot_trainer_byte_per_s(const struct spot_trainer *c, const struct spot_trainer_member *who)
{
    return spot_trainer_rate_for_plan(spot_trainer_best_byte_per_s(c), who->moved_byte_per_s);
}
