/* SPDX-License-Identifier: MIT */
#include "trace/probe_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/xalloc.h"
#include "trace/names.h"
#include "trace/time_order.h"
#include "trace/trace.h"

struct reader {
    struct spot_probe_trace *trace;
    struct spot_names zone, series; /* the scope of a series is the number of its zone */
    size_t n_row;
};

enum { TIME, ZONE, TYPE, ASKED, GRANTED, USD, SCORE, COLUMNS };

static struct spot_probe_series *find(struct reader *r, const struct spot_csv_row *row,
                                      struct spot_err *err)
{
    struct spot_probe_trace *t = r->trace;
    const uint32_t zone = (uint32_t)spot_names_intern(&r->zone, 0, row->field[ZONE]);
    const size_t at = spot_names_intern(&r->series, zone, row->field[TYPE]);

    if (at < t->n_series)
        return &t->series[at];
    if (at == SPOT_PROBE_SERIES_MAX) {
        spot_csv_fail(row, ZONE, err, "more than %d zones and types", SPOT_PROBE_SERIES_MAX);
        return NULL;
    }
    t->series = spot_xgrow(t->series, &t->cap_series, at + 1, sizeof(*t->series));
    t->series[at] = (struct spot_probe_series){ .zone = spot_xstrdup(row->field[ZONE]),
                                                .instance_type = spot_xstrdup(row->field[TYPE]) };
    t->n_series++;
    return &t->series[at];
}

/* Read a field that may be empty or absent: NaN. */
static int optional(const struct spot_csv_row *row, size_t k, double max, double *out,
                    struct spot_err *err)
{
    *out = NAN;
    return row->field[k] && *row->field[k] ? spot_csv_real(row, k, 0, max, out, err) : 0;
}

static int read_row(const struct spot_csv_row *row, struct spot_probe *p, struct spot_err *err)
{
    int64_t asked, granted;

    if (spot_csv_real(row, TIME, 0, SPOT_TRACE_TIME_MAX_S, &p->time_s, err) ||
        spot_csv_int(row, ASKED, 0, SPOT_PROBE_ASKED_MAX, &asked, err) ||
        spot_csv_int(row, GRANTED, 0, SPOT_PROBE_ASKED_MAX, &granted, err) ||
        optional(row, USD, 1e9, &p->usd_per_h, err) || optional(row, SCORE, 100, &p->score, err))
        return -1;
    if (granted > asked)
        return spot_csv_fail(row, GRANTED, err, "%lld of the %lld asked for", (long long)granted,
                             (long long)asked);
    if (!asked && isnan(p->usd_per_h) && isnan(p->score))
        return spot_csv_fail(row, ASKED, err, "requests none and has neither price nor score");
    p->asked = (int32_t)asked;
    p->granted = (int32_t)granted;
    return 0;
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct reader *r = user;
    struct spot_probe_series *s;
    struct spot_probe p;

    if (read_row(row, &p, err))
        return -1;
    if (r->n_row++ == SPOT_PROBE_ROWS_MAX)
        return spot_csv_fail(row, TIME, err, "more than %d rows", SPOT_PROBE_ROWS_MAX);
    s = find(r, row, err);
    if (!s)
        return -1;
    s->row = spot_xgrow(s->row, &s->cap, s->n + 1, sizeof(*s->row));
    s->row[s->n++] = p;
    r->trace->end_s = fmax(r->trace->end_s, p.time_s);
    return 0;
}

static void sort_rows(struct spot_probe_series *s)
{
    size_t *const order = spot_xcalloc(s->n, sizeof(*order));
    struct spot_probe *const sorted = spot_xcalloc(s->cap, sizeof(*sorted));

    spot_time_order(&s->row->time_s, sizeof(*s->row), s->n, order);
    for (size_t i = 0; i < s->n; i++)
        sorted[i] = s->row[order[i]];
    free(order);
    free(s->row);
    s->row = sorted;
}

static int by_name(const void *a, const void *b)
{
    const struct spot_probe_series *x = a, *y = b;
    const int zone = strcmp(x->zone, y->zone);

    return zone ? zone : strcmp(x->instance_type, y->instance_type);
}

int spot_probe_trace_read(struct spot_probe_trace *trace, FILE *in, const char *source,
                          struct spot_err *err)
{
    static const char *const want[COLUMNS] = { "time_s", "zone",    "instance_type",
                                               "asked",  "granted", "?price_usd_per_h",
                                               "?score" };
    struct reader r = { .trace = trace };
    int rc;

    memset(trace, 0, sizeof(*trace));
    rc = spot_csv_read(in, source, want, COLUMNS, on_row, &r, &trace->xxh3, err);
    spot_names_release(&r.zone);
    spot_names_release(&r.series);
    if (!rc && !trace->n_series)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no probe", source);
    if (rc)
        return rc;
    for (size_t i = 0; i < trace->n_series; i++)
        sort_rows(&trace->series[i]);
    qsort(trace->series, trace->n_series, sizeof(*trace->series), by_name);
    return 0;
}

void spot_probe_trace_release(struct spot_probe_trace *trace)
{
    for (size_t i = 0; i < trace->n_series; i++) {
        free(trace->series[i].zone);
        free(trace->series[i].instance_type);
        free(trace->series[i].row);
    }
    free(trace->series);
    memset(trace, 0, sizeof(*trace));
}

double spot_probe_usd_per_h(const struct spot_probe_series *series, double time_s)
{
    double usd = NAN;

    for (size_t i = 0; i < series->n && series->row[i].time_s <= time_s; i++)
        usd = isnan(series->row[i].usd_per_h) ? usd : series->row[i].usd_per_h;
    return usd;
}
