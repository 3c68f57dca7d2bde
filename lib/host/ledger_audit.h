/* SPDX-License-Identifier: MIT */
/* ledger_audit.h - audits the samples of an exec job from its log: which steps are in the final
 * state, and whether they are consecutive.
 *
 * A commit of step N means that the steps before N are in the state. A round that begins with the
 * commit of step M continues at M: later steps are not in it. If a round began beyond what was
 * committed, the steps between are lost; if a commit is below the beginning of its round, those
 * between are in the state twice.
 */
#ifndef SPOT_HOST_LEDGER_AUDIT_H
#define SPOT_HOST_LEDGER_AUDIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "host/ledger_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_ledger_audit {
    struct spot_ledger_plan plan; /* from the log, if has_plan */
    bool has_plan;
    int64_t first;   /* steps in the state at the beginning of the log; they are in another log */
    int64_t steps;   /* in the final state */
    int64_t commits; /* agreed commits */
    int64_t rolled_back;    /* committed steps that no round continued from: they were repeated */
    int64_t lost, repeated; /* steps */
    int64_t samples, lost_samples, repeated_samples; /* of the plan; 0 without one */
    double epochs;
};

/* Read a log (spot.event/1) to its end; `source` for messages. Returns 0, or -1 with *err:
 * SPOT_EDATA for an invalid event or plan, or a second plan that differs. */
int spot_ledger_audit(FILE *in, const char *source, struct spot_ledger_audit *audit,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_LEDGER_AUDIT_H */
