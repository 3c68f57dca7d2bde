/* SPDX-License-Identifier: MIT */
#include "model/share_demand.h"

#include <math.h>

static const int64_t *levels_of(const struct spot_share_demand *d, size_t type, int hours)
{
    const int h = hours > SPOT_SHARE_HOURS ? SPOT_SHARE_HOURS : hours;

    return d->most + (type * SPOT_SHARE_HOURS + (size_t)h - 1) * SPOT_SHARE_LEVELS;
}

int64_t spot_share_demand_quantile(const struct spot_share_demand *demand, size_t type, int hours,
                                   double prob)
{
    const int k = (int)ceil(prob * SPOT_SHARE_LEVELS) - 1;

    return levels_of(demand, type, hours)[k < 0                    ? 0
                                          : k >= SPOT_SHARE_LEVELS ? SPOT_SHARE_LEVELS - 1
                                                                   : k];
}

/* P(largest demand of the first `hours` > x). */
static double tail(const struct spot_share_demand *d, size_t type, int hours, int64_t x)
{
    const int64_t *most = levels_of(d, type, hours);
    int lo = 0, hi = SPOT_SHARE_LEVELS;

    while (lo < hi) {
        const int mid = (lo + hi) / 2;

        if (most[mid] > x)
            hi = mid;
        else
            lo = mid + 1;
    }
    return 1 - (double)lo / SPOT_SHARE_LEVELS;
}

/* -ln P(the demand does not exceed x in the first `hours`), which may be a fraction. */
static double risk(const struct spot_share_demand *d, size_t type, int64_t x, double hours)
{
    static const double least = 0.5 / SPOT_SHARE_LEVELS;
    const int whole = hours < SPOT_SHARE_HOURS - 1 ? (int)hours : SPOT_SHARE_HOURS - 1;
    const double from = whole > 0 ? -log(fmax(least, 1 - tail(d, type, whole, x))) : 0;
    const double to = -log(fmax(least, 1 - tail(d, type, whole + 1, x)));

    return from + (to - from) * (hours - whole);
}

double spot_share_demand_exceeds(const struct spot_share_demand *demand, size_t type, int64_t x,
                                 double now_s, double until_s)
{
    const double from = fmax(0, (now_s - demand->from_s) / 3600);
    const double to = fmax(from, (until_s - demand->from_s) / 3600);

    return 1 - exp(risk(demand, type, x, from) - risk(demand, type, x, to));
}
