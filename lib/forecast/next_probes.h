/* SPDX-License-Identifier: MIT */
/* next_probes.h - which places to ask next: the value of what they would answer.
 *
 * The decision is where to start an instance now, for an hour, or not at all. A place is worth
 * hour_usd * P(granted and stays the hour) - price * P(granted); not to start is worth 0. To ask
 * places first changes what is known of them, and the best is then chosen: the mean of that best
 * minus the best of now is what the answers are worth (Howard 1966), which is exact for any set,
 * since places are independent given their rates: the distribution of a maximum of independent
 * values. N places are chosen greedily, each for what it adds to those before it.
 */
#ifndef SPOT_FORECAST_NEXT_PROBES_H
#define SPOT_FORECAST_NEXT_PROBES_H

#include "forecast/probes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A place, by what it is worth: now, and after either answer. */
struct spot_next_place {
    double now_usd, yes_usd, no_usd;
    double yes; /* P(the answer is yes) */
};

struct spot_next_probe {
    size_t place;
    double worth_usd; /* that it adds to those before it */
};

/* probe [n]: up to n_max places in order of choice; fewer where no other adds more than cost_usd.
 * Returns how many. Cost: O(n_max * n^2 log n). */
size_t spot_next_probes(const struct spot_next_place *place, size_t n, double cost_usd,
                        size_t n_max, struct spot_next_probe *probe);

/* The mean of the best of all, given the answers of those that are asked. */
double spot_next_value(const struct spot_next_place *place, const bool *is_asked, size_t n);

/* Of a place that was probed: `price` of it. */
struct spot_next_place spot_next_place_of(const struct spot_probes *probes,
                                          const struct spot_probed *probed, double hour_usd,
                                          double price_usd_per_h);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_NEXT_PROBES_H */
