/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "predict.h"
#include "trace/trace.h"

int grids_make(struct spot_count_grids *grids, const struct options *options,
               const struct spot_trace *trace, const char *source, bool from_start,
               const struct spot_trackeds *known, struct spot_err *err)
{
    const struct spot_count_grid_ask ask = { .interval_s = options->interval_s,
                                             .cap = (int)options->cap,
                                             .is_whole = from_start,
                                             .warn = spot_tool_warn };

    if (spot_count_grids_make(grids, &ask, trace, known, err)) {
        const struct spot_err inner = *err;

        return spot_err_set(err, inner.code, "%s: %s", source, inner.msg);
    }
    return 0;
}

int grids_load(struct spot_count_grids *grids, const struct options *options, const char *path,
               bool from_start, const struct spot_trackeds *known, struct spot_prov *prov,
               struct spot_err *err)
{
    const char *const source = path && strcmp(path, "-") != 0 ? path : "<stdin>";
    struct spot_trace trace;
    int rc;

    if (options->is_load)
        return requests_load(grids, options, path, prov, err);
    memset(grids, 0, sizeof(*grids));
    if (spot_trace_load_path(&trace, path, err))
        return -1;
    spot_prov_add(prov, source, trace.xxh3);
    rc = grids_make(grids, options, &trace, source, from_start, known, err);
    spot_trace_release(&trace);
    return rc;
}
