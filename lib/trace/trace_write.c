/* SPDX-License-Identifier: MIT */
#include "trace/trace_write.h"

#include <math.h>
#include <stdlib.h>

#include "common/csv_write.h"
#include "common/num.h"
#include "common/xalloc.h"

void spot_trace_put_real(FILE *out, double value)
{
    char text[SPOT_NUM_TEXT];

    if (value == rint(value) && fabs(value) < 1e15)
        fprintf(out, "%.0f", value);
    else if (isfinite(value))
        fputs(spot_num_format(value, text), out);
}

struct columns {
    bool zone, type, price, requested;
};

static struct columns find_columns(const struct spot_trace *trace)
{
    struct columns has = { 0 };

    for (size_t i = 0; i < trace->n_series; i++) {
        const struct spot_trace_series *s = &trace->series[i];

        has.zone |= *s->zone != '\0';
        has.type |= *s->instance_type != '\0';
        has.price |= s->price_usd_per_h != NULL;
        has.requested |= s->requested != NULL;
    }
    return has;
}

static void put_place(const struct spot_trace_series *s, const struct columns *has, FILE *out)
{
    if (has->zone) {
        putc(',', out);
        spot_csv_put(out, s->zone, ',');
    }
    if (has->type) {
        putc(',', out);
        spot_csv_put(out, s->instance_type, ',');
    }
}

/* Merge the series by time; below thousands of them a heap would not help. */
static size_t earliest(const struct spot_trace *trace, const size_t *next, bool events)
{
    size_t best = SIZE_MAX;
    double best_s = INFINITY;

    for (size_t k = 0; k < trace->n_series; k++) {
        const struct spot_trace_series *s = &trace->series[k];
        const size_t n = events ? s->n_event : s->n;
        const double time_s = next[k] >= n ? INFINITY
                              : events     ? s->event[next[k]].time_s
                                           : s->time_s[next[k]];

        if (time_s < best_s) {
            best_s = time_s;
            best = k;
        }
    }
    return best;
}

static void put_count(const struct spot_trace_series *s, size_t i, const struct columns *has,
                      FILE *out)
{
    spot_trace_put_real(out, s->time_s[i]);
    fprintf(out, ",%d", s->available[i]);
    put_place(s, has, out);
    if (has->price) {
        putc(',', out);
        if (s->price_usd_per_h && !isnan(s->price_usd_per_h[i]))
            spot_trace_put_real(out, s->price_usd_per_h[i]);
    }
    if (has->requested) {
        putc(',', out);
        if (s->requested && s->requested[i] >= 0)
            fprintf(out, "%d", s->requested[i]);
    }
    putc('\n', out);
}

void spot_trace_write_counts(const struct spot_trace *trace, FILE *out)
{
    const struct columns has = find_columns(trace);
    size_t *next = spot_xcalloc(trace->n_series, sizeof(*next)), k;

    fprintf(out, "time_s,available%s%s%s%s\n", has.zone ? ",zone" : "",
            has.type ? ",instance_type" : "", has.price ? ",price_usd_per_h" : "",
            has.requested ? ",requested" : "");
    while ((k = earliest(trace, next, false)) != SIZE_MAX)
        put_count(&trace->series[k], next[k]++, &has, out);
    free(next);
}

void spot_trace_write_events(const struct spot_trace *trace, FILE *out)
{
    static const char *const word[] = {
        [SPOT_TRACE_ADD] = "add", [SPOT_TRACE_REMOVE] = "remove", [SPOT_TRACE_NOTICE] = "notice"
    };
    const struct columns has = find_columns(trace);
    size_t *next = spot_xcalloc(trace->n_series, sizeof(*next)), k;

    fprintf(out, "time_s,event,node%s%s\n", has.zone ? ",zone" : "",
            has.type ? ",instance_type" : "");
    while ((k = earliest(trace, next, true)) != SIZE_MAX) {
        const struct spot_trace_event *e = &trace->series[k].event[next[k]++];

        spot_trace_put_real(out, e->time_s);
        fprintf(out, ",%s,", word[e->kind]);
        spot_csv_put(out, trace->node_name[e->node], ',');
        put_place(&trace->series[k], &has, out);
        putc('\n', out);
    }
    free(next);
}
