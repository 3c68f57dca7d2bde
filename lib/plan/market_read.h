/* SPDX-License-Identifier: MIT */
/* market_read.h - reads the places of a deadline job with price and speed, and its restart
 * times. */
#ifndef SPOT_PLAN_MARKET_READ_H
#define SPOT_PLAN_MARKET_READ_H

#include "common/prov.h"
#include "plan/deadline.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "12m", or "6m:.5,12m:.3,24m:.2" with the probability of each. Returns 0, or -1 with *err
 * (SPOT_EUSAGE). */
int spot_market_parse_restart(struct spot_market *market, const char *text, struct spot_err *err);

/* True if the zone is in a comma-separated list; NULL: all zones. */
bool spot_market_takes_zone(const char *list, const char *zone);

/* Add a place, in the region of its zone's name. Returns 0, or -1 with *err (SPOT_EUSAGE: too
 * many). The name and the type are borrowed. */
struct spot_market_names {
    const char *zone[SPOT_MARKET_PLACES_MAX], *type[SPOT_MARKET_PLACES_MAX];
    char elsewhere[192]; /* for messages: where a price was sought before the catalogue */
};
int spot_market_add_place(struct spot_market *market, struct spot_market_names *names,
                          const char *zone, const char *type, double spot_usd_per_h,
                          double on_demand_usd_per_h, struct spot_err *err);

/* Sort the series of a trace by zone and type, independently of their order in the file: sorted
 * [n_series]. */
void spot_market_sort_series(const struct spot_trace *trace,
                             const struct spot_trace_series **sorted);

/* usd_per_h [n]: prices of a series at ticks from start_s on, `stride` elements apart; `else_usd`
 * before its first price. Returns whether it has any. */
bool spot_market_read_prices(const struct spot_trace_series *series, double start_s, double tick_s,
                             size_t n, double else_usd, double *usd_per_h, size_t stride);

/* Ticks after which run lengths are learned again; learn_s 0: a day, or two hours with many places.
 */
int64_t spot_market_learn_ticks(const struct spot_market *market, double learn_s);

/* Read prices, speeds, quotas, and the cost and time to move state_gb out of a region from a
 * catalogue (model/catalogue.h). Every place needs a row of its type, and of its zone if the row
 * names one, with a spot price unless the place has one already. `source` names the origin of the
 * places in messages; may be NULL. Returns 0, or -1 with *err. */
int spot_market_read_catalogue(struct spot_market *market, const struct spot_market_names *names,
                               double state_gb, const char *path, const char *source,
                               struct spot_prov *prov, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MARKET_READ_H */
