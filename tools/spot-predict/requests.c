/* SPDX-License-Identifier: MIT */
/* A request trace as a series: arrivals per interval. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/xalloc.h"
#include "forecast/forecaster.h"
#include "predict.h"
#include "trace/trace.h"

struct bins {
    double interval_s, end_s;
    size_t cap;
    int *count; /* [cap] */
    size_t n_request;
};

enum { TOKENS_MAX = 1 << 30 };

/* Only the time is used, but a row that is not a request shows that the file is not a request
 * trace. */
static int on_request(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct bins *b = user;
    double time_s;
    int64_t tokens;
    size_t at, old = b->cap;

    if (spot_csv_real(row, 0, 0, SPOT_TRACE_TIME_MAX_S, &time_s, err) ||
        spot_csv_int(row, 1, 0, TOKENS_MAX, &tokens, err) ||
        spot_csv_int(row, 2, 0, TOKENS_MAX, &tokens, err))
        return -1;
    b->n_request++;
    if (time_s / b->interval_s >= fmax(SPOT_TRACE_GRID_MAX, 4.0 * (double)b->n_request))
        return spot_csv_fail(row, 0, err,
                             "%.0f intervals of %g s, the limit is %d: give a larger --interval",
                             time_s / b->interval_s, b->interval_s, SPOT_TRACE_GRID_MAX);
    at = (size_t)(time_s / b->interval_s);
    b->count = spot_xgrow(b->count, &b->cap, at + 1, sizeof(*b->count));
    memset(b->count + old, 0, (b->cap - old) * sizeof(*b->count));
    if (b->count[at] == SPOT_FC_CAP_MAX)
        return spot_csv_fail(row, 0, err, "more than %d requests in an interval of %g s",
                             SPOT_FC_CAP_MAX, b->interval_s);
    b->count[at]++;
    b->end_s = fmax(b->end_s, time_s);
    return 0;
}

/* The newest interval is not over yet and is left out, unless it is the only one. */
static void make_grid(const struct options *options, struct bins *b, struct spot_count_grid *g)
{
    int peak = 0;

    assert(b->count);
    *g = (struct spot_count_grid){ .zone = spot_xstrdup(""),
                                   .instance_type = spot_xstrdup("requests"),
                                   .label = spot_xstrdup("requests"),
                                   .start_s = b->interval_s,
                                   .interval_s = b->interval_s,
                                   .y = b->count };
    g->n = (size_t)(b->end_s / b->interval_s);
    g->n = g->n ? g->n : 1;
    g->lost = spot_xcalloc(g->n, sizeof(*g->lost));
    g->gained = spot_xcalloc(g->n, sizeof(*g->gained));
    for (size_t i = 0; i < g->n; i++)
        peak = g->y[i] > peak ? g->y[i] : peak;
    g->cap = options->cap ? (int)options->cap : (int)fmin(2.0 * peak + 10, SPOT_FC_CAP_MAX);
    for (size_t i = 0; i < g->n; i++) {
        g->n_clipped += g->y[i] > g->cap;
        g->y[i] = g->y[i] > g->cap ? g->cap : g->y[i];
        if (!i)
            continue;
        g->n_change += g->y[i] != g->y[i - 1];
        g->lost[i] = g->y[i] < g->y[i - 1] ? g->y[i - 1] - g->y[i] : 0;
        g->gained[i] = g->y[i] > g->y[i - 1] ? g->y[i] - g->y[i - 1] : 0;
    }
    if (g->n_clipped)
        spot_tool_warn("%zu of %zu intervals are above the cap and count as %d", g->n_clipped, g->n,
                       g->cap);
}

int requests_load(struct spot_count_grids *grids, const struct options *options, const char *path,
                  struct spot_prov *prov, struct spot_err *err)
{
    static const char *const want[] = { "time_s", "prompt_tokens", "output_tokens" };
    struct bins b = { .interval_s = options->interval_s };
    const char *source;
    FILE *in = spot_tool_open(path, &source, err);
    uint64_t xxh3;
    int rc;

    memset(grids, 0, sizeof(*grids));
    if (!in)
        return -1;
    rc = spot_csv_read(in, source, want, 3, on_request, &b, &xxh3, err);
    if (in != stdin)
        fclose(in);
    if (!rc && !b.count)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no request", source);
    if (rc) {
        free(b.count);
        return rc;
    }
    spot_prov_add(prov, path && strcmp(path, "-") != 0 ? path : source, xxh3);
    grids->n = 1;
    grids->grid = spot_xcalloc(1, sizeof(*grids->grid));
    make_grid(options, &b, grids->grid);
    return 0;
}
