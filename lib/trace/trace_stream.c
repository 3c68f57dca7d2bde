/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/timestamp.h"
#include "common/xalloc.h"
#include "trace/names.h"
#include "trace/trace.h"

enum { TIME, AVAILABLE, EVENT, NODE, ZONE, TYPE, PRICE, REQUESTED, PROMPT, N_WANT };

static const char *const want[N_WANT] = {
    [TIME] = "time_s",
    [AVAILABLE] = "?available",
    [EVENT] = "?event",
    [NODE] = "?node",
    [ZONE] = "?zone",
    [TYPE] = "?instance_type",
    [PRICE] = "?price_usd_per_h",
    [REQUESTED] = "?requested",
    [PROMPT] = "?prompt_tokens", /* only to recognise the kind of the file */
};

struct series_state {
    double time_s; /* time of the series' last row; -1 before the first */
    int32_t available;
};

struct stream {
    spot_trace_row_fn *on_row;
    void *user;
    unsigned long n_row;
    struct spot_names place; /* zones in scope 0, types in the scope of their zone + 1 */
    size_t zone, type;       /* of the previous row */
    size_t *series_of;       /* [place.cap]: series of a type */
    size_t series_of_cap;
    size_t n_series, series_cap;
    struct series_state *series; /* [n_series] */
    struct spot_names node;      /* scope: series */
    bool *is_there;              /* [node.cap] */
    size_t is_there_cap;
};

/* Names are written to CSV fields, tables and environments, so control characters are not allowed.
 */
static int check_name(const struct spot_csv_row *row, size_t k, struct spot_err *err)
{
    const char *text = row->field[k];

    if (!text)
        return 0;
    if (strlen(text) > 255)
        return spot_csv_fail(row, k, err, "longer than 255 bytes");
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return spot_csv_fail(row, k, err, "control character in a name");
    return 0;
}

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

static int find_series(struct stream *s, const struct spot_csv_row *row, struct spot_trace_row *out,
                       struct spot_err *err)
{
    const size_t known = s->place.n;
    const char *in = text_or_empty(row->field[ZONE]), *of = text_or_empty(row->field[TYPE]);
    size_t zone = s->zone, type = s->type; /* usually those of the previous row */

    if (!known || strcmp(s->place.text[zone], in) != 0 || strcmp(s->place.text[type], of) != 0) {
        if (check_name(row, ZONE, err) || check_name(row, TYPE, err))
            return -1;
        zone = s->zone = spot_names_intern(&s->place, 0, in);
        type = s->type = spot_names_intern(&s->place, (uint32_t)zone + 1, of);
    }
    out->zone = s->place.text[zone];
    out->instance_type = s->place.text[type];
    s->series_of = spot_xgrow(s->series_of, &s->series_of_cap, s->place.n, sizeof(*s->series_of));
    if (type >= known) {
        if (s->n_series == SPOT_TRACE_SERIES_MAX)
            return spot_csv_fail(row, row->field[ZONE] ? ZONE : TYPE, err,
                                 "more than %d series in one trace", SPOT_TRACE_SERIES_MAX);
        s->series = spot_xgrow(s->series, &s->series_cap, s->n_series + 1, sizeof(*s->series));
        s->series[s->n_series] = (struct series_state){ .time_s = -1 };
        s->series_of[type] = s->n_series++;
    }
    out->series = s->series_of[type];
    return 0;
}

static int read_time(struct stream *s, const struct spot_csv_row *row, struct spot_trace_row *out,
                     struct spot_err *err)
{
    const double last_s = s->series[out->series].time_s;
    double unix_s;

    if (spot_csv_real(row, TIME, 0, SPOT_TRACE_TIME_MAX_S, &out->time_s, err))
        return spot_timestamp_parse(row->field[TIME], &unix_s)
                   ? -1
                   : spot_csv_fail(row, TIME, err,
                                   "expected seconds, got the date '%.40s'; spot-replay "
                                   "import reads dates",
                                   row->field[TIME]);
    if (out->time_s < last_s)
        return spot_csv_fail(row, TIME, err, "time goes backwards: %.15g after %.15g", out->time_s,
                             last_s);
    s->series[out->series].time_s = out->time_s;
    return 0;
}

static int read_counts(const struct spot_csv_row *row, struct spot_trace_row *out,
                       struct spot_err *err)
{
    int64_t n;

    if (spot_csv_int(row, AVAILABLE, 0, SPOT_TRACE_COUNT_MAX, &n, err))
        return -1;
    out->available = (int32_t)n;
    if (row->field[REQUESTED] && *row->field[REQUESTED]) {
        if (spot_csv_int(row, REQUESTED, 0, SPOT_TRACE_COUNT_MAX, &n, err))
            return -1;
        out->requested = (int32_t)n;
    }
    if (row->field[PRICE] && *row->field[PRICE])
        return spot_csv_real(row, PRICE, 0, 1e9, &out->price_usd_per_h, err);
    return 0;
}

static int read_kind(const struct spot_csv_row *row, enum spot_trace_kind *kind,
                     struct spot_err *err)
{
    const char *text = row->field[EVENT];

    if (!strcmp(text, "add"))
        *kind = SPOT_TRACE_ADD;
    else if (!strcmp(text, "remove"))
        *kind = SPOT_TRACE_REMOVE;
    else if (!strcmp(text, "notice"))
        *kind = SPOT_TRACE_NOTICE;
    else
        return spot_csv_fail(row, EVENT, err, "expected add, remove or notice, got '%.40s'", text);
    return 0;
}

static int read_event(struct stream *s, const struct spot_csv_row *row, struct spot_trace_row *out,
                      struct spot_err *err)
{
    struct series_state *state = &s->series[out->series];
    const size_t known = s->node.n;

    if (read_kind(row, &out->kind, err) || check_name(row, NODE, err))
        return -1;
    if (!*row->field[NODE])
        return spot_csv_fail(row, NODE, err, "expected a node's name, got an empty field");
    out->node = spot_names_intern(&s->node, (uint32_t)out->series, row->field[NODE]);
    out->node_name = s->node.text[out->node];
    if (s->node.n > SPOT_TRACE_NODES_MAX)
        return spot_csv_fail(row, NODE, err, "more than %d nodes", SPOT_TRACE_NODES_MAX);
    s->is_there = spot_xgrow(s->is_there, &s->is_there_cap, s->node.n, sizeof(*s->is_there));
    if (out->node >= known)
        s->is_there[out->node] = false;
    if (s->is_there[out->node] == (out->kind == SPOT_TRACE_ADD))
        return spot_csv_fail(row, NODE, err, "%s of '%.80s', which is %s there", row->field[EVENT],
                             out->node_name, s->is_there[out->node] ? "already" : "not");
    s->is_there[out->node] = out->kind != SPOT_TRACE_REMOVE;
    state->available += (out->kind == SPOT_TRACE_ADD) - (out->kind == SPOT_TRACE_REMOVE);
    out->available = state->available;
    return 0;
}

static int on_csv_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct stream *s = user;
    struct spot_trace_row out = { .requested = -1, .price_usd_per_h = NAN };
    const bool has_event = row->field[EVENT] && row->field[NODE];

    if (!row->field[AVAILABLE] && !has_event && row->field[PRICE])
        return spot_err_set(err, SPOT_EDATA,
                            "%s:1:1: these are prices; expected counts of instances (available) or "
                            "events",
                            row->source);
    if (!row->field[AVAILABLE] && !has_event && row->field[PROMPT])
        return spot_err_set(err, SPOT_EDATA,
                            "%s:1:1: this is a load (prompt_tokens), expected counts of instances "
                            "(available) or events",
                            row->source);
    if (!row->field[AVAILABLE] == !has_event)
        return spot_err_set(
            err, SPOT_EDATA, "%s:1:1: header has %s, expected one of the two forms", row->source,
            has_event ? "both available and event,node" : "neither available nor event,node");
    if (find_series(s, row, &out, err) || read_time(s, row, &out, err))
        return -1;
    if (has_event ? read_event(s, row, &out, err) : read_counts(row, &out, err))
        return -1;
    s->n_row++;
    return s->on_row(&out, s->user, err);
}

int spot_trace_stream(FILE *in, const char *source, spot_trace_row_fn *on_row, void *user,
                      uint64_t *xxh3, struct spot_err *err)
{
    struct stream s = { .on_row = on_row, .user = user };
    int rc = spot_csv_read(in, source, want, N_WANT, on_csv_row, &s, xxh3, err);

    if (!rc && !s.n_row)
        rc = spot_err_set(err, SPOT_EDATA, "%s:2:1: no rows after the header", source);
    spot_names_release(&s.place);
    spot_names_release(&s.node);
    free(s.series_of);
    free(s.series);
    free(s.is_there);
    return rc;
}
