/* SPDX-License-Identifier: MIT */
/* import_load.h - spot-replay import of request logs. */
#ifndef SPOT_REPLAY_IMPORT_LOAD_H
#define SPOT_REPLAY_IMPORT_LOAD_H

#include "cli/tool.h"
#include "generate_load.h"
#include "trace/load_import.h"

struct replay_import_load {
    const struct spot_load_format *format;
    const char *columns, *origin; /* NULL: not given */
    double origin_s;              /* of an origin that is neither `first` nor NULL */
    bool is_strict;               /* refuse rows that cannot be read */
    struct replay_load length;    /* of formats that have none */
    const struct spot_tool_common *common;
};

/* Read the files (none: stdin) and write the load. Returns 0, or -1 with *err. */
int import_load(const struct replay_import_load *ask, char **path, struct spot_err *err);

#endif /* SPOT_REPLAY_IMPORT_LOAD_H */
