/* SPDX-License-Identifier: MIT */
/* market_read.h - reads the places of a deadline job with price and speed, and its restart
 * times. */
#ifndef SPOT_PLAN_MARKET_READ_H
#define SPOT_PLAN_MARKET_READ_H

#include "common/prov.h"
#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "12m", or "6m:.5,12m:.3,24m:.2" with the probability of each. Returns 0, or -1 with *err
 * (SPOT_EUSAGE). */
int spot_market_parse_restart(struct spot_market *market, const char *text, struct spot_err *err);

/* Is the zone among those of a list, apart by commas? NULL: all are. */
bool spot_market_takes_zone(const char *list, const char *zone);

/* Add a place, in the region of its zone's name. Returns 0, or -1 with *err (SPOT_EUSAGE: too
 * many). The name and the type are borrowed. */
struct spot_market_names {
    const char *zone[SPOT_MARKET_PLACES_MAX], *type[SPOT_MARKET_PLACES_MAX];
};
int spot_market_add_place(struct spot_market *market, struct spot_market_names *names,
                          const char *zone, const char *type, double spot_usd_per_h,
                          double on_demand_usd_per_h, struct spot_err *err);

/* Read prices and speeds from a catalogue (model/catalogue.h). Every place needs a row of its type,
 * and of its zone if the row names one, with a spot price. `source` named the places, for messages;
 * NULL: none. Returns 0, or -1 with *err. */
int spot_market_read_catalogue(struct spot_market *market, const struct spot_market_names *names,
                               const char *path, const char *source, struct spot_prov *prov,
                               struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MARKET_READ_H */
