/* SPDX-License-Identifier: MIT */
/* state_line.h - the file of --state: the line that a decider saves (plan/decision.h). */
#ifndef SPOT_PLAN_STATE_LINE_H
#define SPOT_PLAN_STATE_LINE_H

#include "plan/decision.h"

/* An absent file is the first call; NULL: there is no state. */
int state_line_read(const char *path, char line[SPOT_DECISION_STATE_MAX], struct spot_err *err);
int state_line_write(const char *path, const char *line, struct spot_err *err);

#endif /* SPOT_PLAN_STATE_LINE_H */
