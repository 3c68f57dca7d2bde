/* SPDX-License-Identifier: MIT */
/* What links carry, as the moves of earlier epochs showed, and how long who leaves is still there:
 * the planner of moves asks for both. */
#include <math.h>

#include "common/clock.h"
#include "train/coord.h"

/* 10 Gbit/s, where nothing is known. */
static const double default_byte_per_s = 1.25e9;

/* With less the time is that of messages, not of the link. */
static const double least_byte = 32 << 20;

/* It may have waited for a slow sender: the best of what it showed counts, an old one half. */
void spot_coord_note_moved(const struct spot_coord *c, struct spot_coord_peer *peer)
{
    const double took_s = spot_clock_s() - c->moving_since_s;
    double byte = 0;

    for (size_t i = 0; i < c->form.n_transfer; i++)
        if (c->form.transfer[i].to == peer->id && c->form.transfer[i].origin == SPOT_FROM_MEMBER)
            byte += (double)spot_coord_bundle_byte(c, (int)c->form.transfer[i].bundle);
    if (byte >= least_byte && took_s > 0)
        peer->moved_byte_per_s = fmax(byte / took_s, peer->moved_byte_per_s / 2);
}

double spot_coord_best_byte_per_s(const struct spot_coord *c)
{
    double best = 0;

    for (size_t i = 0; i < c->n_peer; i++)
        best = fmax(best, c->peer[i]->moved_byte_per_s);
    return best > 0 ? best : default_byte_per_s;
}

/* Only the power of two below the best, so that equal machines stay equal, and plans with them. */
double spot_coord_byte_per_s(const struct spot_coord *c, const struct spot_coord_peer *peer)
{
    const double best = spot_coord_best_byte_per_s(c), mine = peer->moved_byte_per_s;

    return mine > 0 ? best * exp2(-rint(log2(best / mine))) : best;
}

double spot_coord_time_left_s(const struct spot_coord_peer *peer)
{
    return peer->leaves_s > 0 ? fmax(peer->leaves_s - spot_clock_s(), 0) : INFINITY;
}
