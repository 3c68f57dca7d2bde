/* SPDX-License-Identifier: MIT */
/* next_probes.h - the places to probe next, by the value of their answers. The decision is where to
 * start an instance now, for an hour, or not at all. A place is worth hour_usd * P(granted and
 * stays the hour) - price * P(granted); not starting is worth 0. Probes change the estimates before
 * the best place is chosen: the mean value of the best place after the answers, minus the best
 * value now, is the value of the answers (Howard 1966), which is exact for any set, since places
 * are independent given their rates: the distribution of a maximum of independent values. N places
 * are chosen greedily, each for what it adds to those before it.
 */
#ifndef SPOT_FORECAST_NEXT_PROBES_H
#define SPOT_FORECAST_NEXT_PROBES_H

#include "forecast/probes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values of a place: now, and after either answer. */
struct spot_next_place {
    double now_usd, yes_usd, no_usd;
    double yes; /* probability of a grant */
};

struct spot_next_probe {
    size_t place;
    double worth_usd; /* its additional value after the earlier choices */
};

/* Fills probe [n] with up to n_max places in order of choice; fewer if no other adds more than
 * cost_usd. Returns their number. Cost: O(n_max * n^2 log n). */
size_t spot_next_probes(const struct spot_next_place *place, size_t n, double cost_usd,
                        size_t n_max, struct spot_next_probe *probe);

/* The mean value of the best place, given the answers of the probed places. */
double spot_next_value(const struct spot_next_place *place, const bool *is_asked, size_t n);

/* The values of a probed place at its `price`. */
struct spot_next_place spot_next_place_of(const struct spot_probes *probes,
                                          const struct spot_probed *probed, double hour_usd,
                                          double price_usd_per_h);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_NEXT_PROBES_H */
