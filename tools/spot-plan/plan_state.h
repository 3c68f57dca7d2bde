/* SPDX-License-Identifier: MIT */
/* plan_state.h - what runs, and the line that a decision keeps between calls: --current, --state.
 */
#ifndef SPOT_PLAN_PLAN_STATE_H
#define SPOT_PLAN_PLAN_STATE_H

#include "common/err.h"
#include "plan/decision.h"

#define PLAN_ROW_CURRENT(v)                                        \
    {                                                              \
        SPOT_OPT_STRING, 0, "current", v, "grid",                  \
            "what runs now (default: --state's, or nothing)", 0, 0 \
    }

/* An absent file is the first call, and so is NULL, which nothing is written to. */
int plan_state_read(const char *path, char line[SPOT_DECISION_STATE_MAX], struct spot_err *err);
int plan_state_write(const char *path, const char *line, struct spot_err *err);

#endif /* SPOT_PLAN_PLAN_STATE_H */
