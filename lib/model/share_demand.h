/* SPDX-License-Identifier: MIT */
/* share_demand.h - how many workers jobs of high priority will want: the distribution of the most
 * wanted at one time within the coming hours, for each type of worker. Made by
 * forecast/class_demand.h, used by policies that share a cluster among classes of jobs.
 */
#ifndef SPOT_MODEL_SHARE_DEMAND_H
#define SPOT_MODEL_SHARE_DEMAND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SHARE_HOURS = 6, SPOT_SHARE_LEVELS = 100 };

struct spot_share_demand {
    double from_s;
    size_t n_type;
    /* [n_type][SPOT_SHARE_HOURS][SPOT_SHARE_LEVELS] quantiles at (k + 1/2) / SPOT_SHARE_LEVELS of
     * the largest demand within an hour, two hours and so on of from_s, ascending in both */
    int64_t *most;
};

/* The least demand that is not exceeded within the first `hours` >= 1 with probability prob. */
int64_t spot_share_demand_quantile(const struct spot_share_demand *demand, size_t type, int hours,
                                   double prob);

/* The probability that the demand exceeds x workers between now_s and until_s, if it does not
 * exceed them now. Beyond the last hour the rate of the last hour continues. */
double spot_share_demand_exceeds(const struct spot_share_demand *demand, size_t type, int64_t x,
                                 double now_s, double until_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SHARE_DEMAND_H */
