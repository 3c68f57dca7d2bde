/* SPDX-License-Identifier: MIT */
/* arrivals.h - the load of a fleet, by what its front had counted at each look. */
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

/* Totals since the front began; open: choices that wait or are computed now. */
struct spot_fleet_look {
    double time_s;
    int64_t request, prompt_token, output_token, open;
};

struct spot_fleet_arrivals {
    double kept_s;                                 /* older looks are forgotten */
    struct spot_fleet_look look[SPOT_FLEET_LOOKS]; /* oldest first */
    size_t n;
};

/* Times never go back. Totals that do are of another life of the front, which begins anew. */
void spot_fleet_arrivals_add(struct spot_fleet_arrivals *arrivals,
                             const struct spot_fleet_look *look);
/* Did a request come in the last window_s? */
bool spot_fleet_arrivals_came(const struct spot_fleet_arrivals *arrivals, double window_s);
/* Was the front looked at for nine tenths of kept_s without any, and without one that is open? */
bool spot_fleet_arrivals_is_at_rest(const struct spot_fleet_arrivals *arrivals);
/* A request trace (CSV): those between two looks came evenly, of their mean size. */
void spot_fleet_arrivals_write(const struct spot_fleet_arrivals *arrivals, FILE *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_ARRIVALS_H */
