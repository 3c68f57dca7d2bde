/* SPDX-License-Identifier: MIT */
/* change_dist.h - the distribution of losses and gains of a job's instances in the next interval,
 * over all zones. */
#ifndef SPOT_PLAN_CHANGE_DIST_H
#define SPOT_PLAN_CHANGE_DIST_H

#include <stddef.h>

#include "common/err.h"
#include "model/forecast_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_CHANGE_COUNT_MAX = 4096 }; /* instances over all series */

struct spot_change {
    int lost, gained;
    double prob; /* > 0 */
};

/* For qsort: by lost, then gained. */
int spot_change_compare(const void *a, const void *b);

struct spot_change_dist {
    int now, cap;
    double interval_s;
    int horizon;
    struct spot_change *change; /* [n_change], by lost, then gained; sums to 1 */
    size_t n_change;
    double *count; /* [horizon * (cap + 1)]: distribution of the count after each step */
    /* of the chain of one series, borrowed; NULL: several, none */
    const struct spot_count_law *law;
};

/* Sum the series of a forecast. Zones of one of its regions are independent given whether the
 * region has a shock in the interval, all others are independent. `count` is that distribution at
 * the first step; later steps are given as a distribution of each series alone, and are added up as
 * if independent, since the document does not give their dependence. `now` >= 0 replaces the
 * forecast's count if it is newer; losses are then limited to it. Returns 0, or -1 with *err:
 * SPOT_EDATA for no series, no joint distribution, or more than SPOT_CHANGE_COUNT_MAX instances. */
int spot_change_dist_init(struct spot_change_dist *dist, const struct spot_forecast *forecast,
                          int now, struct spot_err *err);

/* No changes: the distribution for a job without a forecast. */
void spot_change_dist_still(struct spot_change_dist *dist, int now, double interval_s, int horizon);
void spot_change_dist_release(struct spot_change_dist *dist);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_CHANGE_DIST_H */
