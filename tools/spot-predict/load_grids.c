/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "predict.h"
#include "trace/trace.h"

int grids_load(struct spot_count_grids *grids, const struct options *options, const char *path,
               bool from_start, const struct spot_trackeds *known, struct spot_prov *prov,
               struct spot_err *err)
{
    const struct spot_count_grid_ask ask = { .interval_s = options->interval_s,
                                             .cap = (int)options->cap,
                                             .is_whole = from_start,
                                             .warn = spot_tool_warn };
    const char *const source = path && strcmp(path, "-") != 0 ? path : "<stdin>";
    struct spot_trace trace;
    int rc;

    if (options->is_load)
        return requests_load(grids, options, path, prov, err);
    memset(grids, 0, sizeof(*grids));
    if (spot_trace_load_path(&trace, path, err))
        return -1;
    spot_prov_add(prov, source, trace.xxh3);
    rc = spot_count_grids_make(grids, &ask, &trace, known, err);
    spot_trace_release(&trace);
    if (rc) {
        const struct spot_err inner = *err;

        spot_err_set(err, inner.code, "%s: %s", source, inner.msg);
    }
    return rc;
}
