/* SPDX-License-Identifier: MIT */
/* describe_hazard.h - the option --hazard of describe. */
#ifndef SPOT_REPLAY_DESCRIBE_HAZARD_H
#define SPOT_REPLAY_DESCRIBE_HAZARD_H

#include "cli/tool.h"
#include "trace/trace.h"

/* Write the hazard by age of the trace's nodes, all series together, watched from from_s to to_s:
 * the table that `spot-predict --hazard` reads, with what each row rests on. Every class has
 * `least` losses, the only one if there are fewer. Returns 0, or -1 with *err: SPOT_EDATA without
 * nodes, SPOT_EINFEASIBLE if nobody was lost. */
int describe_hazard(const struct spot_trace *trace, const char *source, double from_s, double to_s,
                    size_t least, const struct spot_tool_common *common, struct spot_err *err);

#endif /* SPOT_REPLAY_DESCRIBE_HAZARD_H */
