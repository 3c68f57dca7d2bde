/* SPDX-License-Identifier: MIT */
#include "trace/trace.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static struct spot_trace_series *take_series(struct spot_trace_builder *b,
                                             const struct spot_trace_row *row)
{
    struct spot_trace *trace = b->trace;

    if (row->series == trace->n_series) {
        trace->series =
            spot_xgrow(trace->series, &b->series_cap, trace->n_series + 1, sizeof(*trace->series));
        trace->series[trace->n_series++] =
            (struct spot_trace_series){ .zone = spot_xstrdup(row->zone),
                                        .instance_type = spot_xstrdup(row->instance_type) };
    }
    return &trace->series[row->series];
}

/* Make room for another row in all arrays. */
static void grow(struct spot_trace_series *s)
{
    const size_t cap = s->cap ? 2 * s->cap : 64;

    if (s->n < s->cap)
        return;
    s->time_s = spot_xrealloc(s->time_s, cap, sizeof(*s->time_s));
    s->available = spot_xrealloc(s->available, cap, sizeof(*s->available));
    if (s->price_usd_per_h)
        s->price_usd_per_h = spot_xrealloc(s->price_usd_per_h, cap, sizeof(*s->price_usd_per_h));
    if (s->requested)
        s->requested = spot_xrealloc(s->requested, cap, sizeof(*s->requested));
    s->cap = cap;
}

/* Most traces have neither prices nor requests: those arrays are allocated with the first value. */
static void put_optional(struct spot_trace_series *s, size_t i, const struct spot_trace_row *row)
{
    if (!s->price_usd_per_h && !isnan(row->price_usd_per_h)) {
        s->price_usd_per_h = spot_xcalloc(s->cap, sizeof(*s->price_usd_per_h));
        for (size_t k = 0; k < i; k++)
            s->price_usd_per_h[k] = NAN;
    }
    if (!s->requested && row->requested >= 0) {
        s->requested = spot_xcalloc(s->cap, sizeof(*s->requested));
        for (size_t k = 0; k < i; k++)
            s->requested[k] = -1;
    }
    if (s->price_usd_per_h)
        s->price_usd_per_h[i] = row->price_usd_per_h;
    if (s->requested)
        s->requested[i] = row->requested;
}

static void take_event(struct spot_trace_builder *b, struct spot_trace_series *s,
                       const struct spot_trace_row *row)
{
    struct spot_trace *trace = b->trace;

    if (row->node == trace->n_node) {
        trace->node_name = spot_xgrow(trace->node_name, &b->node_cap, trace->n_node + 1,
                                      sizeof(*trace->node_name));
        trace->node_name[trace->n_node++] = spot_xstrdup(row->node_name);
    }
    s->event = spot_xgrow(s->event, &s->event_cap, s->n_event + 1, sizeof(*s->event));
    s->event[s->n_event++] = (struct spot_trace_event){ .time_s = row->time_s,
                                                        .kind = row->kind,
                                                        .node = (uint32_t)row->node };
}

int spot_trace_build(struct spot_trace_builder *b, const struct spot_trace_row *row,
                     struct spot_err *err)
{
    struct spot_trace_series *s = take_series(b, row);
    size_t i;

    if (++b->n_row > SPOT_TRACE_ROWS_MAX)
        return spot_err_set(err, SPOT_EDATA, "%s: more than %d rows", b->source,
                            SPOT_TRACE_ROWS_MAX);
    if (row->kind != SPOT_TRACE_COUNT)
        take_event(b, s, row);
    if (!s->n || s->time_s[s->n - 1] < row->time_s) {
        grow(s);
        s->n++;
    }
    i = s->n - 1;
    s->time_s[i] = row->time_s;
    s->available[i] = row->available;
    put_optional(s, i, row);
    return 0;
}

static int on_row(const struct spot_trace_row *row, void *user, struct spot_err *err)
{
    return spot_trace_build(user, row, err);
}

void spot_trace_find_span(struct spot_trace *trace)
{
    trace->start_s = INFINITY;
    trace->end_s = -INFINITY;
    for (size_t i = 0; i < trace->n_series; i++) {
        const struct spot_trace_series *s = &trace->series[i];

        trace->start_s = fmin(trace->start_s, s->time_s[0]);
        trace->end_s = fmax(trace->end_s, s->time_s[s->n - 1]);
    }
}

int spot_trace_load(struct spot_trace *trace, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_trace_builder b = { .trace = trace, .source = source };

    *trace = (struct spot_trace){ 0 };
    if (spot_trace_stream(in, source, on_row, &b, &trace->xxh3, err)) {
        spot_trace_release(trace);
        return -1;
    }
    spot_trace_find_span(trace);
    return 0;
}

int spot_trace_load_path(struct spot_trace *trace, const char *path, struct spot_err *err)
{
    FILE *in;
    int rc;

    if (!path || !strcmp(path, "-"))
        return spot_trace_load(trace, stdin, "<stdin>", err);
    *trace = (struct spot_trace){ 0 };
    in = fopen(path, "re");
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_trace_load(trace, in, path, err);
    fclose(in);
    return rc;
}

static void release_series(struct spot_trace_series *s)
{
    free(s->zone);
    free(s->instance_type);
    free(s->time_s);
    free(s->available);
    free(s->price_usd_per_h);
    free(s->requested);
    free(s->event);
}

void spot_trace_release(struct spot_trace *trace)
{
    for (size_t i = 0; i < trace->n_series; i++)
        release_series(&trace->series[i]);
    for (size_t i = 0; i < trace->n_node; i++)
        free(trace->node_name[i]);
    free(trace->series);
    free(trace->node_name);
    *trace = (struct spot_trace){ 0 };
}

size_t spot_trace_find(const struct spot_trace_series *s, double time_s)
{
    size_t low = 0, high = s->n; /* rows before low are at or before time_s, from high on after */

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (s->time_s[mid] <= time_s)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int32_t spot_trace_at(const struct spot_trace_series *s, double time_s)
{
    const size_t n = spot_trace_find(s, time_s);

    return n ? s->available[n - 1] : 0;
}

int32_t spot_trace_peak(const struct spot_trace_series *s)
{
    int32_t peak = 0;

    for (size_t i = 0; i < s->n; i++)
        if (s->available[i] > peak)
            peak = s->available[i];
    return peak;
}

const char *spot_trace_label(const struct spot_trace_series *s, char text[SPOT_TRACE_LABEL])
{
    const bool both = *s->zone && *s->instance_type;

    snprintf(text, SPOT_TRACE_LABEL, "%s%s%s", s->zone, both ? "/" : "", s->instance_type);
    if (!*text)
        memcpy(text, "-", 2);
    return text;
}

double spot_trace_interval_s(const struct spot_trace_series *s)
{
    double least_s = INFINITY;

    for (size_t i = 1; i < s->n; i++)
        least_s = fmin(least_s, s->time_s[i] - s->time_s[i - 1]);
    return s->n > 1 ? least_s : 0;
}

void spot_trace_resample(const struct spot_trace_series *s, double start_s, double interval_s,
                         size_t n, int32_t *available)
{
    size_t row = spot_trace_find(s, start_s);

    assert(interval_s > 0);
    for (size_t i = 0; i < n; i++) {
        const double time_s = start_s + (double)i * interval_s;

        while (row < s->n && s->time_s[row] <= time_s)
            row++;
        available[i] = row ? s->available[row - 1] : 0;
    }
}

int spot_trace_check_grid(const struct spot_trace *trace, double n, double interval_s, size_t n_max,
                          const char *remedy, struct spot_err *err)
{
    const double span_s = trace->end_s - trace->start_s;
    size_t n_row = 0;

    for (size_t i = 0; i < trace->n_series; i++)
        n_row += trace->series[i].n;
    if (n <= fmax((double)n_max, 4.0 * (double)n_row))
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "%zu series over %.15g s are %.0f intervals of %g s, the limit is %.0f: "
                        "give %s",
                        trace->n_series, span_s, n, interval_s,
                        fmax((double)n_max, 4.0 * (double)n_row), remedy);
}

size_t spot_trace_grid_n(double start_s, double end_s, double interval_s)
{
    const double n = floor((end_s - start_s) / interval_s * (1 + 1e-12)) + 1;

    assert(interval_s > 0);
    if (!(n > 0))
        return 0;
    return n > SPOT_TRACE_ROWS_MAX ? SIZE_MAX : (size_t)n;
}
