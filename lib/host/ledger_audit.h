/* SPDX-License-Identifier: MIT */
/* ledger_audit.h - what the log of an exec job says of its samples: the steps that are in the state
 * in the end, and whether they follow one another.
 *
 * A commit of step N says that the steps before N are in the state. A round that begins with the
 * commit of step M begins again at M: what was done beyond is not in it. If a round ever began
 * beyond what was committed, the steps between are lost; if a commit lies below where its round
 * began, those between are in the state twice.
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
    struct spot_ledger_plan plan; /* of the log, has_plan */
    bool has_plan;
    int64_t first;          /* in the state where the log begins: another log tells of those */
    int64_t steps;          /* in the state in the end */
    int64_t commits;        /* that were agreed */
    int64_t rolled_back;    /* committed steps that no round went on from: they were done again */
    int64_t lost, repeated; /* steps */
    int64_t samples, lost_samples, repeated_samples; /* of the plan; 0 without one */
    double epochs;
};

/* Read a log (spot.event/1) to its end; `source` for messages. Returns 0, or -1 with *err:
 * SPOT_EDATA for what is no event, a plan that is none, or a second one that differs. */
int spot_ledger_audit(FILE *in, const char *source, struct spot_ledger_audit *audit,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_LEDGER_AUDIT_H */
