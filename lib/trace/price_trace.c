/* SPDX-License-Identifier: MIT */
#include "trace/price_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/xalloc.h"
#include "trace/names.h"
#include "trace/time_order.h"
#include "trace/trace.h"

struct reader {
    struct spot_price_trace *trace;
    struct spot_names names; /* scope: market; text: length of the zone, zone, type */
    char *key;
    size_t cap_key, n_row;
};

enum { TIME, ZONE, TYPE, USD, MARKET, ASKED, COLUMNS };

/* The series of a row; a length before the zone keeps "a" "bc" apart from "ab" "c". */
static struct spot_price_series *find(struct reader *r, const struct spot_csv_row *row,
                                      bool is_spot, struct spot_err *err)
{
    const size_t wide = strlen(row->field[ZONE]), room = wide + strlen(row->field[TYPE]) + 32;
    struct spot_price_trace *t = r->trace;
    size_t at;

    r->key = spot_xgrow(r->key, &r->cap_key, room, 1);
    snprintf(r->key, room, "%zu:%s%s", wide, row->field[ZONE], row->field[TYPE]);
    at = spot_names_intern(&r->names, is_spot, r->key);
    if (at < t->n_series)
        return &t->series[at];
    if (at == SPOT_PRICE_SERIES_MAX) {
        spot_csv_fail(row, ZONE, err, "more than %d zones, types and markets",
                      SPOT_PRICE_SERIES_MAX);
        return NULL;
    }
    t->series = spot_xgrow(t->series, &t->cap_series, at + 1, sizeof(*t->series));
    t->series[at] = (struct spot_price_series){ .zone = spot_xstrdup(row->field[ZONE]),
                                                .instance_type = spot_xstrdup(row->field[TYPE]),
                                                .is_spot = is_spot };
    t->n_series++;
    return &t->series[at];
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct reader *r = user;
    const char *market = row->field[MARKET];
    struct spot_price_series *s;
    struct spot_price_at at;

    if (row->field[ASKED])
        return spot_err_set(err, SPOT_EDATA,
                            "%s:1:1: these are probes (asked); expected prices: leave out --kind",
                            row->source);
    if (spot_csv_real(row, TIME, 0, SPOT_TRACE_TIME_MAX_S, &at.time_s, err) ||
        spot_csv_real(row, USD, 1e-9, 1e6, &at.usd_per_h, err))
        return -1;
    if (market && strcmp(market, "spot") != 0 && strcmp(market, "on_demand") != 0)
        return spot_csv_fail(row, MARKET, err, "expected spot or on_demand, got '%.40s'", market);
    if (r->n_row++ == SPOT_PRICE_ROWS_MAX)
        return spot_csv_fail(row, TIME, err, "more than %d rows", SPOT_PRICE_ROWS_MAX);
    s = find(r, row, !market || !strcmp(market, "spot"), err);
    if (!s)
        return -1;
    s->row = spot_xgrow(s->row, &s->cap, s->n + 1, sizeof(*s->row));
    s->row[s->n++] = at;
    r->trace->end_s = fmax(r->trace->end_s, at.time_s);
    return 0;
}

static void sort_rows(struct spot_price_series *s)
{
    size_t *const order = spot_xcalloc(s->n, sizeof(*order));
    struct spot_price_at *const sorted = spot_xcalloc(s->cap, sizeof(*sorted));
    size_t n = 0;

    spot_time_order(&s->row->time_s, sizeof(*s->row), s->n, order);
    for (size_t i = 0; i < s->n; i++) {
        n -= n && sorted[n - 1].time_s >= s->row[order[i]].time_s;
        sorted[n++] = s->row[order[i]];
    }
    free(order);
    free(s->row);
    s->row = sorted;
    s->n = n;
}

static int by_name(const void *a, const void *b)
{
    const struct spot_price_series *x = a, *y = b;
    const int zone = strcmp(x->zone, y->zone), type = strcmp(x->instance_type, y->instance_type);

    return zone ? zone : type ? type : (int)y->is_spot - (int)x->is_spot;
}

int spot_price_trace_read(struct spot_price_trace *trace, FILE *in, const char *source,
                          struct spot_err *err)
{
    static const char *const want[COLUMNS] = { "time_s",          "zone",    "instance_type",
                                               "price_usd_per_h", "?market", "?asked" };
    struct reader r = { .trace = trace };
    int rc;

    memset(trace, 0, sizeof(*trace));
    rc = spot_csv_read(in, source, want, COLUMNS, on_row, &r, &trace->xxh3, err);
    spot_names_release(&r.names);
    free(r.key);
    if (!rc && !trace->n_series)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no price", source);
    if (rc)
        return rc;
    for (size_t i = 0; i < trace->n_series; i++)
        sort_rows(&trace->series[i]);
    qsort(trace->series, trace->n_series, sizeof(*trace->series), by_name);
    return 0;
}

void spot_price_trace_release(struct spot_price_trace *trace)
{
    for (size_t i = 0; i < trace->n_series; i++) {
        free(trace->series[i].zone);
        free(trace->series[i].instance_type);
        free(trace->series[i].row);
    }
    free(trace->series);
    memset(trace, 0, sizeof(*trace));
}

double *spot_price_grid(const struct spot_price_series *s, double interval_s, bool from_start,
                        double ends_at_s, size_t n_max, size_t *n, double *start_s)
{
    const double first_s = s->row[0].time_s;
    const double last_s = from_start ? s->row[s->n - 1].time_s : ends_at_s;
    const double steps = floor((last_s - first_s) / interval_s * (1 + 1e-12));
    double *y;
    size_t at = 0;

    if (!(steps + 1 <= (double)n_max))
        return NULL;
    *n = (size_t)steps + 1;
    *start_s = from_start ? first_s : fmax(first_s, last_s - steps * interval_s);
    y = spot_xcalloc(*n, sizeof(double));
    for (size_t i = 0; i < *n; i++) {
        const double time_s = *start_s + (double)i * interval_s;

        while (at + 1 < s->n && s->row[at + 1].time_s <= time_s + 1e-9 * interval_s)
            at++;
        y[i] = s->row[at].usd_per_h;
    }
    return y;
}
