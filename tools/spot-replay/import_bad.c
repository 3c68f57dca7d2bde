/* SPDX-License-Identifier: MIT */
#include "replay.h"

#include "cli/tool.h"

void import_warn_bad(const struct spot_bad_rows *bad)
{
    if (bad->n == 1)
        spot_tool_warn("left out: %s; --strict refuses it", bad->first.msg);
    else if (bad->n)
        spot_tool_warn("left out: %s; and %zu more rows that cannot be read; --strict refuses them",
                       bad->first.msg, bad->n - 1);
}
