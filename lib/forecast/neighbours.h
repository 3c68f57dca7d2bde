/* SPDX-License-Identifier: MIT */
/* neighbours.h - how instances of one zone and type are lost together.
 *
 * In a window of three minutes (or an interval, if that is longer) a shock comes with some
 * probability and takes each instance with another one, its reach; besides, each is lost on its own
 * (Marshall and Olkin 1967, with exchangeable instances). From three numbers: the share that is
 * lost, the share of pairs that are, and the share of losses that no other is near to, which are
 * those of one's own. First for all series of a type, then for each, for which the former is worth
 * a day and two losses: a series of one instance cannot tell one kind from the other.
 */
#ifndef SPOT_FORECAST_NEIGHBOURS_H
#define SPOT_FORECAST_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>

#include "model/forecast_start.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_NEIGHBOURS_WINDOW_S 180.0

/* What was seen of a series; zeroed initially. */
struct spot_neighbours {
    double windows[2], share[2]; /* with 1, 2 instances or more; of ones, of pairs lost */
    double lost, together;       /* of two there or more; `together` with another, near in time */
    int there, gone, left;       /* of the window that is under way; left: intervals */
    int since;                   /* intervals since the last loss; 0: none yet */
    int lone;                    /* 1: that one was of one instance, and alone so far */
};

/* An interval in which `lost` of the instances went, `before` of which were there at its begin. */
void spot_neighbours_observe(struct spot_neighbours *seen, double interval_s, int before, int lost);

/* Can it have come about? */
bool spot_neighbours_is_sound(const struct spot_neighbours *seen);

/* shock [n], of series seen[n] of one type. */
void spot_neighbours_law(const struct spot_neighbours *const *seen, size_t n, double interval_s,
                         struct spot_forecast_shock *shock);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_NEIGHBOURS_H */
