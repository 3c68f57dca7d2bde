/* SPDX-License-Identifier: MIT */
/* describe_load.h - spot-replay describe --kind load. */
#ifndef SPOT_REPLAY_DESCRIBE_LOAD_H
#define SPOT_REPLAY_DESCRIBE_LOAD_H

#include "cli/tool.h"
#include "trace/load_trace.h"

struct replay_describe_load {
    const char *path, *plot;
    double from_s, to_s; /* negative: its start, its end */
    int64_t context;     /* 0: any */
    enum spot_format format;
    const struct spot_tool_common *common;
};

/* Returns 0, or -1 with *err. */
int describe_load(const struct replay_describe_load *ask, struct spot_err *err);

#endif /* SPOT_REPLAY_DESCRIBE_LOAD_H */
