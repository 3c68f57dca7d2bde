/* SPDX-License-Identifier: MIT */
/* joint.h - the joint distribution of instances lost and gained in the next interval.
 *
 * The net change has the distribution that the forecast gives for step 1, so the two always agree.
 * What a count cannot show, instances lost and gained within one interval, is the turnover e =
 * min(lost, gained): its distribution is learned, separately by the size of the net change, from
 * rows inside the intervals; without such rows losses and gains exclude each other, as measured
 * below 5 minutes. Source: our own decomposition.
 */
#ifndef SPOT_FORECAST_JOINT_H
#define SPOT_FORECAST_JOINT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_TURNOVER_MAX = 32 };

/* Counts of turnovers; zeroed initially. Net change 0, 1, more. */
struct spot_turnover {
    double seen[3][SPOT_TURNOVER_MAX + 1];
};

struct spot_joint_cell {
    int lost, gained;
    double prob;
};

/* Observe an interval: gross losses and gains, each >= 0. */
void spot_turnover_observe(struct spot_turnover *turnover, int lost, int gained);

/* The distribution of the next interval, given `step` [cap + 1], that of the count at its end.
 * Cells below 1e-9 are left out and their mass is redistributed.
 *   cell   room for (cap + 1) * (SPOT_TURNOVER_MAX + 1) entries
 * Returns how many were written, sorted by lost, then gained. They sum to 1. */
size_t spot_joint(const struct spot_turnover *turnover, const double *step, int now, int cap,
                  struct spot_joint_cell *cell);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_JOINT_H */
