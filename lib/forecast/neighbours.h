/* SPDX-License-Identifier: MIT */
/* neighbours.h - how instances of one zone and type are lost together.
 *
 * In a window of three minutes (or an interval, if that is longer) a shock occurs with some
 * probability and takes each instance with another probability, its reach; independently of shocks,
 * each instance is lost alone (Marshall and Olkin 1967, with exchangeable instances). The
 * parameters follow from three numbers: the share of instances lost, the share of pairs lost, and
 * the share of losses without another one nearby, which are the independent ones. They are
 * estimated first for all series of a type, then for each series with the former as a prior worth a
 * day and two losses, since a series of one instance cannot distinguish the two kinds.
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

/* Observations of a series; zeroed initially. */
struct spot_neighbours {
    /* windows with 1, and with 2 or more instances; sum of the shares of instances, and of pairs,
     * that were lost */
    double windows[2], share[2];
    /* losses while two or more instances were present; `together`: those of them with another one
     * nearby in time */
    double lost, together;
    int there, gone, left; /* of the current window; left: intervals left */
    int since;             /* intervals since the last loss; 0: none yet */
    int lone;              /* 1: the last loss was of one instance, and no other has followed it */
};

/* Observe an interval in which `lost` of the `before` instances present at its beginning were
 * lost. */
void spot_neighbours_observe(struct spot_neighbours *seen, double interval_s, int before, int lost);

/* True if the state is consistent. */
bool spot_neighbours_is_sound(const struct spot_neighbours *seen);

/* Fills shock [n] for series seen[n] of one type. */
void spot_neighbours_law(const struct spot_neighbours *const *seen, size_t n, double interval_s,
                         struct spot_forecast_shock *shock);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_NEIGHBOURS_H */
