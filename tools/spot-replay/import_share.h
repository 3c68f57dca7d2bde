/* SPDX-License-Identifier: MIT */
/* import_share.h - spot-replay import of jobs that share a cluster. */
#ifndef SPOT_REPLAY_IMPORT_SHARE_H
#define SPOT_REPLAY_IMPORT_SHARE_H

#include "cli/tool.h"
#include "trace/share_import.h"

/* Read the files (none: stdin), take origin_s (NAN: the first) from all times, and write jobs, or
 * throughputs. Returns 0, or -1 with *err. */
int import_share(const struct spot_share_format *format, char **path, double origin_s,
                 bool is_strict, const struct spot_tool_common *common, struct spot_err *err);

#endif /* SPOT_REPLAY_IMPORT_SHARE_H */
