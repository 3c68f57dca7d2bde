/* SPDX-License-Identifier: MIT */
/* Formats with one record per line: node events, count logs, logs of runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/json.h"
#include "common/num.h"
#include "common/timestamp.h"
#include "common/unpack.h"
#include "common/xalloc.h"
#include "model/event.h"
#include "trace/import.h"

static const double MS_MAX = 1e14; /* SPOT_TRACE_TIME_MAX_S */

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static void add_node(struct spot_import *imp, double time_s, enum spot_trace_kind kind,
                     const char *node, const char *source, unsigned long line)
{
    imp->node = spot_xgrow(imp->node, &imp->node_cap, imp->n_node + 1, sizeof(*imp->node));
    imp->node[imp->n_node++] =
        (struct spot_import_node){ .time_s = time_s,
                                   .kind = kind,
                                   .zone = spot_import_text(imp, or_empty(imp->ask.zone)),
                                   .instance_type =
                                       spot_import_text(imp, or_empty(imp->ask.instance_type)),
                                   .node = spot_import_text(imp, node),
                                   .source = source,
                                   .line = line };
}

/* --- events: ms,add|remove,node ------------------------------------------- */

static int on_event(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_import *imp = user;
    double ms;

    if (spot_csv_real(row, 0, 0, MS_MAX, &ms, err))
        return -1;
    if (strcmp(row->field[1], "add") != 0 && strcmp(row->field[1], "remove") != 0)
        return spot_csv_fail(row, 1, err, "expected add or remove, got '%.40s'", row->field[1]);
    if (!*row->field[2])
        return spot_csv_fail(row, 2, err, "expected a node's name, got an empty field");
    add_node(imp, ms / 1000, *row->field[1] == 'a' ? SPOT_TRACE_ADD : SPOT_TRACE_REMOVE,
             row->field[2], row->source, row->line);
    return 0;
}

int spot_import_events(struct spot_import *imp, FILE *in, const char *source, struct spot_err *err)
{
    static const char *const column[] = { "ms", "event", "node" };

    return spot_csv_read_log(in, source, column, 3, true, on_event, imp, &imp->bad, err);
}

/* --- spotserve: [ms,"add"|"remove",{"nodes":[..]}] ------------------------- */

static int read_nodes(struct spot_import *imp, const struct spot_json_doc *doc, double time_s,
                      enum spot_trace_kind kind, unsigned long line, struct spot_err *err)
{
    const struct spot_json_value *nodes;

    if (spot_json_array(doc, spot_json_entry(doc->root, 2), "/2", "nodes", true,
                        SPOT_TRACE_NODES_MAX, &nodes, err))
        return -1;
    for (size_t i = 0; i < spot_json_array_size(nodes); i++) {
        const char *name = spot_json_text(spot_json_entry(nodes, i));
        char at[SPOT_JSON_POINTER_MAX];

        snprintf(at, sizeof(at), "/2/nodes/%zu", i);
        if (!name || !*name) {
            imp->n_node -= i; /* take all nodes of a line or none */
            return spot_json_fail(doc, at, err, "expected a node's name");
        }
        add_node(imp, time_s, kind, name, doc->source, line);
    }
    return 0;
}

int spot_import_spotserve(struct spot_import *imp, const char *text, size_t n_byte,
                          const char *source, unsigned long line, struct spot_err *err)
{
    struct spot_json_doc doc;
    const char *word;
    double ms;
    int rc = 0;

    if (spot_json_parse_array_line(&doc, text, n_byte, source, line, err))
        return -1;
    ms = spot_json_number(spot_json_entry(doc.root, 0));
    word = spot_json_text(spot_json_entry(doc.root, 1));
    if (!spot_json_is_number(spot_json_entry(doc.root, 0)) || !(ms >= 0 && ms <= MS_MAX))
        rc = spot_json_fail(&doc, "/0", err, "expected a time in ms");
    else if (!word)
        rc = spot_json_fail(&doc, "/1", err, "expected add, remove or another event's name");
    else if (!strcmp(word, "add"))
        rc = read_nodes(imp, &doc, ms / 1000, SPOT_TRACE_ADD, line, err);
    else if (!strcmp(word, "remove"))
        rc = read_nodes(imp, &doc, ms / 1000, SPOT_TRACE_REMOVE, line, err);
    spot_json_release(&doc); /* other events do not change nodes */
    return rc;
}

/* --- spot-event: the log of a run ------------------------------------------ */

static int on_spot_event(struct spot_import *imp, const struct spot_event_log *log,
                         const struct spot_event *e, struct spot_err *err)
{
    static const enum spot_trace_kind effect[SPOT_EVENT_KINDS] = {
        [SPOT_EVENT_JOINED] = SPOT_TRACE_ADD,
        [SPOT_EVENT_LOST] = SPOT_TRACE_REMOVE,
        [SPOT_EVENT_LEFT] = SPOT_TRACE_REMOVE,
        [SPOT_EVENT_NOTICE] = SPOT_TRACE_NOTICE,
    };
    char number[32];

    if (e->time_s > SPOT_TRACE_TIME_MAX_S)
        return spot_json_fail(&log->doc, "/time_s", err, "%g is outside [0, %g]", e->time_s,
                              SPOT_TRACE_TIME_MAX_S);
    imp->end_s = fmax(imp->end_s, e->time_s);
    if (effect[e->kind] == SPOT_TRACE_COUNT)
        return 0; /* other events do not change nodes */
    if (!e->who && !e->member)
        return spot_json_fail(&log->doc, "", err, "%s names no worker (name or member)", e->name);
    snprintf(number, sizeof(number), "member%lld", (long long)e->member);
    add_node(imp, e->time_s, effect[e->kind], e->who ? e->who : number, log->source, log->number);
    return 0;
}

static int read_spot_events(struct spot_import *imp, FILE *in, const char *source,
                            struct spot_err *err)
{
    struct spot_event_log log = {
        .in = in, .source = source, .drops_cut = true, .is_partial = true
    };
    struct spot_event event;
    int rc;

    while ((rc = spot_event_next(&log, &event, err)) > 0)
        if (on_spot_event(imp, &log, &event, err)) {
            rc = -1;
            break;
        }
    if (!rc && !log.number)
        rc = spot_err_set(err, SPOT_EDATA, "%s: empty input", source);
    spot_event_log_release(&log);
    return rc;
}

/* Read leniently, since a run that was resumed reports its workers again. Times never decrease
 * within a log, so sorting keeps its order. */
int spot_import_spot_event(struct spot_import *imp, FILE *in, const char *source,
                           struct spot_err *err)
{
    struct spot_unpack unpack;

    imp->is_lenient = true;
    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    return spot_unpack_close(&unpack, read_spot_events(imp, unpack.in, source, err), err);
}

/* --- count-log: date,time,count -------------------------------------------- */

/* Column k counts either available machines or missing ones. */
static int add_count(struct spot_import *imp, const struct spot_csv_row *row, size_t k,
                     double time_s, const char *zone, const char *type, struct spot_err *err)
{
    int64_t n;

    if (spot_csv_int(row, k, 0, SPOT_TRACE_COUNT_MAX, &n, err))
        return -1;
    if (imp->ask.is_inverted && n > imp->ask.cap)
        return spot_csv_fail(row, k, err, "%lld is more than --cap %d", (long long)n, imp->ask.cap);
    spot_import_add(imp, time_s, or_empty(zone), or_empty(type), "")->value[0] =
        imp->ask.is_inverted ? imp->ask.cap - (double)n : (double)n;
    return 0;
}

static int on_count(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_import *imp = user;
    char stamp[64];
    double time_s;

    snprintf(stamp, sizeof(stamp), "%s %s", row->field[0], row->field[1]);
    if (spot_timestamp_parse(stamp, &time_s))
        return spot_csv_fail(row, 0, err, "expected YYYY-MM-DD,HH:MM:SS, got '%.40s'", stamp);
    return add_count(imp, row, 2, time_s, imp->ask.zone, imp->ask.instance_type, err);
}

/* Such logs record a state, repeat it later with the time of its start, and then continue from
 * there: a record counts only if its time is before all later ones. */
int spot_import_count_log(struct spot_import *imp, FILE *in, const char *source,
                          struct spot_err *err)
{
    static const char *const column[] = { "date", "time", "count" };
    const size_t begin = imp->n_row;
    double earliest_s = INFINITY;
    size_t n = 0;

    if (spot_csv_read_log(in, source, column, 3, true, on_count, imp, &imp->bad, err))
        return -1;
    for (size_t i = imp->n_row; i-- > begin;)
        if (imp->row[i].time_s < earliest_s) {
            earliest_s = imp->row[i].time_s;
            n++;
            imp->row[imp->n_row - n] = imp->row[i];
        }
    if (n)
        memmove(imp->row + begin, imp->row + imp->n_row - n, n * sizeof(*imp->row));
    imp->n_row = begin + n;
    return 0;
}

/* --- csv: columns by name ---------------------------------------------------- */

struct csv {
    struct spot_import *imp;
    size_t at[SPOT_IMPORT_COLUMNS]; /* column numbers; SIZE_MAX: the file has none */
};

static int read_csv_time(const struct csv *c, const struct spot_csv_row *row, double *time_s,
                         struct spot_err *err)
{
    const size_t k = c->at[SPOT_IMPORT_COLUMN_TIME];

    if (!spot_timestamp_parse_in(row->field[k], c->imp->ask.utc_offset_s, time_s))
        return 0;
    if (!spot_num_parse(row->field[k], time_s))
        return spot_csv_real(row, k, 0, SPOT_TRACE_TIME_MAX_S, time_s, err);
    return spot_csv_fail(row, k, err, "expected seconds or a date and time, got '%.40s'",
                         row->field[k]);
}

/* The name in a column, or the one given for all rows. */
static const char *csv_name(const struct csv *c, const struct spot_csv_row *row,
                            enum spot_import_column column, const char *of_all)
{
    return c->at[column] == SIZE_MAX ? of_all : row->field[c->at[column]];
}

static int on_csv(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    const struct csv *c = user;
    struct spot_import *imp = c->imp;
    const char *zone = csv_name(c, row, SPOT_IMPORT_COLUMN_ZONE, imp->ask.zone);
    const char *type = csv_name(c, row, SPOT_IMPORT_COLUMN_TYPE, imp->ask.instance_type);
    double time_s;

    if (read_csv_time(c, row, &time_s, err))
        return -1;
    return add_count(imp, row, c->at[SPOT_IMPORT_COLUMN_AVAILABLE], time_s, zone, type, err);
}

int spot_import_csv(struct spot_import *imp, FILE *in, const char *source, struct spot_err *err)
{
    const char *want[SPOT_IMPORT_COLUMNS];
    struct csv c = { .imp = imp };
    size_t n = 0;

    for (size_t i = 0; i < SPOT_IMPORT_COLUMNS; i++) {
        c.at[i] = imp->ask.column[i] ? n : SIZE_MAX;
        if (imp->ask.column[i])
            want[n++] = imp->ask.column[i];
    }
    return spot_csv_read_log(in, source, want, n, false, on_csv, &c, &imp->bad, err);
}
