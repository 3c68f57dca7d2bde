/* SPDX-License-Identifier: MIT */
/* measured_cost.h - what changes of the grid cost, from the log of a real run (spot.event/1).
 *
 * A change is what lies between the last commit of one group and the first of the next; its pause
 * is that time less one median step. Pauses of changes that restored nothing are
 *     pause = leave_s or join_s + byte_s * moved_byte,
 * by least squares with byte_s >= 0; join_s is of changes after which there are more members. A
 * change that restored state from disk or rolled back costs restore_s on top: the mean of the rest
 * of its pause plus the steps it has to compute again, those left out that were restored later.
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
    double leave_s, join_s; /* of a change with and without new members, >= 0 */
    double byte_s;          /* a moved byte */
    double restore_s;       /* a lost stage, on top; 0 if none was seen */
};

/* Read a log. Returns 0, or -1 with *err: SPOT_EDATA for a line that is not an event, times that go
 * back or events that cannot follow each other, or a log without a single change. */
int spot_measured_cost_read(struct spot_measured_cost *measured, FILE *in, const char *source,
                            struct spot_err *err);
int spot_measured_cost_load(struct spot_measured_cost *measured, const char *path,
                            struct spot_err *err);

/* Put the measured terms in place of the job's own. Prices, interval and look-ahead stay. */
void spot_measured_cost_apply(const struct spot_measured_cost *measured,
                              struct spot_job_cost *cost);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_MEASURED_COST_H */
