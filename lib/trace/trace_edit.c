/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "trace/trace.h"

/* Append rows [from, from + n) of old to s, with their times. */
static void append_row(struct spot_trace_series *s, double time_s,
                       const struct spot_trace_series *old, size_t row)
{
    assert(s->n < s->cap);
    s->time_s[s->n] = time_s;
    s->available[s->n] = old->available[row];
    if (s->price_usd_per_h)
        s->price_usd_per_h[s->n] = old->price_usd_per_h[row];
    if (s->requested)
        s->requested[s->n] = old->requested[row];
    s->n++;
}

/* Keep the rows of a series within [from_s, to_s], in new arrays; end_s: the end of the whole
 * trace. */
static void cut_rows(struct spot_trace_series *s, double from_s, double to_s, double end_s)
{
    const struct spot_trace_series old = *s;
    const size_t before = spot_trace_find(s, from_s), stop = spot_trace_find(s, to_s);

    s->n = 0;
    s->cap = stop - before + 2;
    s->time_s = spot_xcalloc(s->cap, sizeof(*s->time_s));
    s->available = spot_xcalloc(s->cap, sizeof(*s->available));
    if (old.price_usd_per_h)
        s->price_usd_per_h = spot_xcalloc(s->cap, sizeof(*s->price_usd_per_h));
    if (old.requested)
        s->requested = spot_xcalloc(s->cap, sizeof(*s->requested));
    if (before)
        append_row(s, from_s, &old, before - 1);
    for (size_t i = before; i < stop; i++)
        append_row(s, old.time_s[i], &old, i);
    if (s->n && to_s < end_s && s->time_s[s->n - 1] < to_s)
        append_row(s, to_s, &old, stop - 1);
    free(old.time_s);
    free(old.available);
    free(old.price_usd_per_h);
    free(old.requested);
}

/* Nodes present at from_s arrive at that time; later events are unchanged. */
static void cut_events(struct spot_trace_series *s, double from_s, double to_s, size_t n_node)
{
    bool *is_there = spot_xcalloc(n_node, sizeof(*is_there));
    struct spot_trace_event *old = s->event;
    const size_t n_old = s->n_event;
    size_t i = 0;

    for (; i < n_old && old[i].time_s <= from_s; i++)
        is_there[old[i].node] = old[i].kind != SPOT_TRACE_REMOVE;
    s->event = spot_xcalloc(n_node + n_old - i, sizeof(*s->event));
    s->n_event = 0;
    s->event_cap = n_node + n_old - i;
    for (size_t k = 0; k < n_node; k++)
        if (is_there[k])
            s->event[s->n_event++] = (struct spot_trace_event){ .time_s = from_s,
                                                                .kind = SPOT_TRACE_ADD,
                                                                .node = (uint32_t)k };
    for (; i < n_old && old[i].time_s <= to_s; i++)
        s->event[s->n_event++] = old[i];
    free(old);
    free(is_there);
}

int spot_trace_cut(struct spot_trace *trace, double from_s, double to_s, struct spot_err *err)
{
    size_t n = 0;

    if (from_s > to_s || from_s > trace->end_s || to_s < trace->start_s)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "nothing of the trace, which lasts from %.15g to %.15g s, lies between "
                            "%.15g and %.15g s",
                            trace->start_s, trace->end_s, from_s, to_s);
    for (size_t i = 0; i < trace->n_series; i++) {
        struct spot_trace_series s = trace->series[i];

        cut_rows(&s, from_s, to_s, trace->end_s);
        if (s.event)
            cut_events(&s, from_s, to_s, trace->n_node);
        if (s.n) {
            trace->series[n++] = s;
            continue;
        }
        free(s.zone);
        free(s.instance_type);
        free(s.time_s);
        free(s.available);
        free(s.price_usd_per_h);
        free(s.requested);
        free(s.event);
    }
    trace->n_series = n;
    trace->start_s = fmax(trace->start_s, from_s);
    trace->end_s = fmin(trace->end_s, to_s);
    return 0;
}

void spot_trace_scale(struct spot_trace *trace, int32_t k)
{
    assert(k >= 1);
    if (k == 1)
        return;
    for (size_t i = 0; i < trace->n_series; i++) {
        struct spot_trace_series *s = &trace->series[i];

        for (size_t j = 0; j < s->n; j++)
            s->available[j] /= k;
        for (size_t j = 0; s->requested && j < s->n; j++)
            if (s->requested[j] >= 0)
                s->requested[j] /= k;
        free(s->event);
        s->event = NULL;
        s->n_event = s->event_cap = 0;
    }
}
