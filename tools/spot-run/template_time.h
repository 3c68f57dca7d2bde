/* SPDX-License-Identifier: MIT */
/* template_time.h - the option --template-time. */
#ifndef SPOT_RUN_TEMPLATE_TIME_H
#define SPOT_RUN_TEMPLATE_TIME_H

#include "common/err.h"

/* Take it for all chats of this process; NULL: the clock goes on. Returns 0, or -1 with *err
 * (SPOT_EUSAGE). */
int template_time_parse(const char *text, struct spot_err *err);

#endif /* SPOT_RUN_TEMPLATE_TIME_H */
