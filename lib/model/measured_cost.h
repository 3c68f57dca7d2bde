/* SPDX-License-Identifier: MIT */
/* measured_cost.h - the cost of grid changes, from the log of a real run (spot.event/1).
 *
 * A change is the time between the last commit of one group and the first of the next; its pause is
 * that time less one median step. Pauses of changes that restored nothing are
 *     pause = leave_s or join_s + byte_s * moved_byte,
 * by least squares with byte_s >= 0; join_s is for changes that increase the members. A change that
 * restored state from disk or rolled back also costs restore_s: the mean of the rest of its pause
 * plus the steps that it has to repeat, except those that were restored later.
 */
#ifndef SPOT_MODEL_MEASURED_COST_H
#define SPOT_MODEL_MEASURED_COST_H

#include <stdio.h>

#include "common/err.h"
#include "model/job_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MEASURED_CHANGES_MAX = 1 << 20 };

struct spot_measured_cost {
    size_t n_change, n_join, n_restore;
    double step_s;          /* median */
    double leave_s, join_s; /* seconds of a change without and with new members, >= 0 */
    double byte_s;          /* seconds per byte moved */
    double restore_s;       /* additional seconds if a stage is lost; 0 if that was not observed */
};

/* Read a log. Returns 0, or -1 with *err: SPOT_EDATA for a line that is not an event, times that go
 * back or events in an impossible order, or a log without a single change. */
int spot_measured_cost_read(struct spot_measured_cost *measured, FILE *in, const char *source,
                            struct spot_err *err);
int spot_measured_cost_load(struct spot_measured_cost *measured, const char *path,
                            struct spot_err *err);

/* Replace the job's terms by the measured ones. Prices, interval and look-ahead are unchanged. */
void spot_measured_cost_apply(const struct spot_measured_cost *measured,
                              struct spot_job_cost *cost);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_MEASURED_COST_H */
