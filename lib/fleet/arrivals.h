/* SPDX-License-Identifier: MIT */
/* arrivals.h - the load of a fleet, from the counters of its front. */
#ifndef SPOT_FLEET_ARRIVALS_H
#define SPOT_FLEET_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_FLEET_LOOKS = 1024 };

/* Totals since the start of the front; open: choices that wait or are being computed. */
struct spot_fleet_look {
    double time_s;
    int64_t request, prompt_token, output_token, open;
};

struct spot_fleet_arrivals {
    double kept_s;                                 /* older samples are dropped */
    struct spot_fleet_look look[SPOT_FLEET_LOOKS]; /* oldest first */
    size_t n;
};

/* Add a sample. Times must not decrease. Totals that decrease mean that the front was restarted,
 * and counting starts again. */
void spot_fleet_arrivals_add(struct spot_fleet_arrivals *arrivals,
                             const struct spot_fleet_look *look);
/* True if a request came in the last window_s. */
bool spot_fleet_arrivals_came(const struct spot_fleet_arrivals *arrivals, double window_s);
/* True if samples over nine tenths of kept_s show no new request, and none is open. */
bool spot_fleet_arrivals_is_at_rest(const struct spot_fleet_arrivals *arrivals);
/* Write a request trace (CSV): the requests between two samples are spaced evenly, and have their
 * mean size. */
void spot_fleet_arrivals_write(const struct spot_fleet_arrivals *arrivals, FILE *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_ARRIVALS_H */
