/* SPDX-License-Identifier: MIT */
#include "trace/import.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/line.h"
#include "common/unpack.h"
#include "common/xalloc.h"

enum { LINE_MAX_BYTE = 1 << 20 };

const struct spot_import_format spot_import_format[] = {
    { "events", "ms,add|remove,node without a header (Parcae, Bamboo)", SPOT_IMPORT_NODE, false,
      .read = spot_import_events },
    { "spotserve", "lines of [ms,\"add\"|\"remove\",{\"nodes\":[..]}]", SPOT_IMPORT_NODE, false,
      .read_line = spot_import_spotserve },
    { "spot-event", "the log of a run, spot.event/1", SPOT_IMPORT_NODE, false,
      .read = spot_import_spot_event },
    { "count-log", "date,time,count without a header", SPOT_IMPORT_COUNT, true,
      .read = spot_import_count_log },
    { "csv", "any CSV with a header; --columns says which are which", SPOT_IMPORT_COUNT, true,
      .read = spot_import_csv },
    { "skypilot", "{\"metadata\":{\"gap_seconds\":g},\"data\":[..]}", SPOT_IMPORT_COUNT, false,
      .read_document = spot_import_skypilot },
    { "aws-price", "aws ec2 describe-spot-price-history", SPOT_IMPORT_PRICE, true,
      .read_document = spot_import_aws_price },
    { "aws-score", "aws ec2 get-spot-placement-scores", SPOT_IMPORT_PROBE, false,
      .read_document = spot_import_aws_score },
    { "aws-advisor", "spot-advisor-data.json", SPOT_IMPORT_HAZARD, false,
      .read_document = spot_import_aws_advisor },
    { "gcp-price", "Cloud Billing services/../skus", SPOT_IMPORT_PRICE, true,
      .read_document = spot_import_gcp_price },
    { "azure-price", "Retail Prices API", SPOT_IMPORT_PRICE, true,
      .read_document = spot_import_azure_price },
    { 0 },
};

const struct spot_import_format *spot_import_find(const char *name)
{
    for (const struct spot_import_format *f = spot_import_format; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

const char *spot_import_text(struct spot_import *imp, const char *text)
{
    const size_t i = spot_names_intern(&imp->text, 0, text); /* may move text.text */

    return imp->text.text[i];
}

struct spot_import_row *spot_import_add(struct spot_import *imp, double time_s, const char *zone,
                                        const char *instance_type, const char *extra)
{
    imp->row = spot_xgrow(imp->row, &imp->row_cap, imp->n_row + 1, sizeof(*imp->row));
    imp->row[imp->n_row] =
        (struct spot_import_row){ .time_s = time_s,
                                  .zone = spot_import_text(imp, zone),
                                  .instance_type = spot_import_text(imp, instance_type),
                                  .extra = spot_import_text(imp, extra) };
    return &imp->row[imp->n_row++];
}

static int read_lines(struct spot_import *imp, FILE *in, const char *source,
                      spot_import_line_fn *on_line, struct spot_err *err)
{
    struct spot_line line = { 0 };
    int rc;

    while ((rc = spot_bad_rows_line(&imp->bad, &line, in, LINE_MAX_BYTE, source, err)) > 0) {
        rc = on_line(imp, line.text, line.n, source, line.number, err);
        rc = spot_bad_rows_take(&imp->bad, rc, err);
        if (rc)
            break;
    }
    if (!rc)
        rc = spot_bad_rows_end(&imp->bad, line.number, source, err);
    spot_line_release(&line);
    return rc;
}

static int read_document(struct spot_import *imp, FILE *in, const char *source,
                         spot_import_doc_fn *read, struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc;

    if (spot_json_load(&doc, in, source, err))
        return -1;
    rc = read(imp, &doc, err);
    spot_json_release(&doc);
    return rc;
}

int spot_import_read(struct spot_import *imp, const struct spot_import_format *format, FILE *in,
                     const char *source, struct spot_err *err)
{
    struct spot_unpack unpack;

    assert(!imp->kind || imp->kind == format->kind);
    imp->kind = format->kind;
    imp->bad = (struct spot_bad_rows){ .is_strict = imp->bad.is_strict };
    source = spot_import_text(imp, source);
    if (format->read)
        return format->read(imp, in, source, err);
    if (format->read_document)
        return read_document(imp, in, source, format->read_document, err);
    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    return spot_unpack_close(&unpack, read_lines(imp, unpack.in, source, format->read_line, err),
                             err);
}

static int own_count(const struct spot_trace_row *row, void *user, struct spot_err *err)
{
    (void)err;
    spot_import_add(user, row->time_s, row->zone, row->instance_type, "")->value[0] =
        row->available;
    return 0;
}

struct own {
    struct spot_import *imp;
    const char *source;
};

static int own_node(const struct spot_trace_row *row, void *user, struct spot_err *err)
{
    const struct own *const own = user;
    struct spot_import *const imp = own->imp;

    if (row->kind == SPOT_TRACE_COUNT)
        return spot_err_set(err, SPOT_EDATA, "%s:1:1: expected the node form (time_s,event,node)",
                            own->source);
    imp->node = spot_xgrow(imp->node, &imp->node_cap, imp->n_node + 1, sizeof(*imp->node));
    imp->node[imp->n_node++] =
        (struct spot_import_node){ .time_s = row->time_s,
                                   .kind = row->kind,
                                   .zone = spot_import_text(imp, row->zone),
                                   .instance_type = spot_import_text(imp, row->instance_type),
                                   .node = spot_import_text(imp, row->node_name),
                                   .source = "merged" };
    return 0;
}

static int own_price(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_import_row *added;
    double time_s, x;

    if (spot_csv_real(row, 0, 0, SPOT_TRACE_TIME_MAX_S, &time_s, err) ||
        spot_csv_real(row, 4, 0, 1e9, &x, err))
        return -1;
    added = spot_import_add(user, time_s, row->field[1], row->field[2], row->field[3]);
    added->value[0] = x;
    return 0;
}

void spot_import_probe(struct spot_import *imp, const char *zone, const char *instance_type,
                       const struct spot_probe *probe)
{
    struct spot_import_row *row =
        spot_import_add(imp, probe->time_s, zone, instance_type, probe->asked ? "probe" : "told");

    row->value[0] = probe->asked;
    row->value[1] = probe->granted;
    row->value[2] = probe->usd_per_h;
    row->value[3] = probe->score;
}

static int own_probes(struct spot_import *imp, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_probe_trace trace;
    int rc = spot_probe_trace_read(&trace, in, source, err);

    for (size_t i = 0; i < trace.n_series; i++)
        for (size_t k = 0; k < trace.series[i].n; k++)
            spot_import_probe(imp, trace.series[i].zone, trace.series[i].instance_type,
                              &trace.series[i].row[k]);
    spot_probe_trace_release(&trace);
    return rc;
}

int spot_import_read_own(struct spot_import *imp, FILE *in, const char *source,
                         struct spot_err *err)
{
    static const char *const price[] = { "time_s", "zone", "instance_type", "market",
                                         "price_usd_per_h" };

    switch (imp->kind) {
    case SPOT_IMPORT_COUNT:
        return spot_trace_stream(in, source, own_count, imp, NULL, err);
    case SPOT_IMPORT_NODE:
        return spot_trace_stream(in, source, own_node, &(struct own){ imp, source }, NULL, err);
    case SPOT_IMPORT_PRICE:
        return spot_csv_read(in, source, price, 5, own_price, imp, NULL, err);
    case SPOT_IMPORT_PROBE:
        return own_probes(imp, in, source, err);
    case SPOT_IMPORT_HAZARD:
        break;
    }
    return spot_err_set(err, SPOT_EUSAGE, "this format has no times to merge by");
}

void spot_import_prepend(struct spot_import *imp, const struct spot_import *before)
{
    const size_t n_row = before->n_row, n_node = before->n_node;

    imp->row = spot_xgrow(imp->row, &imp->row_cap, imp->n_row + n_row, sizeof(*imp->row));
    memmove(imp->row + n_row, imp->row, imp->n_row * sizeof(*imp->row));
    imp->n_row += n_row;
    for (size_t i = 0; i < n_row; i++) {
        struct spot_import_row row = before->row[i];

        row.zone = spot_import_text(imp, row.zone);
        row.instance_type = spot_import_text(imp, row.instance_type);
        row.extra = spot_import_text(imp, row.extra);
        imp->row[i] = row;
    }
    imp->node = spot_xgrow(imp->node, &imp->node_cap, imp->n_node + n_node, sizeof(*imp->node));
    memmove(imp->node + n_node, imp->node, imp->n_node * sizeof(*imp->node));
    imp->n_node += n_node;
    for (size_t i = 0; i < n_node; i++) {
        struct spot_import_node node = before->node[i];

        node.zone = spot_import_text(imp, node.zone);
        node.instance_type = spot_import_text(imp, node.instance_type);
        node.node = spot_import_text(imp, node.node);
        node.source = spot_import_text(imp, node.source);
        imp->node[i] = node;
    }
}

void spot_import_page(struct spot_import *imp, const char *query, bool is_last)
{
    const size_t known = imp->query.n, at = spot_names_intern(&imp->query, 0, query);

    imp->has_last = spot_xgrow(imp->has_last, &imp->last_cap, imp->query.n, sizeof(bool));
    imp->has_last[at] = is_last || (at < known && imp->has_last[at]);
}

const char *spot_import_unfinished(const struct spot_import *imp)
{
    const char *open = NULL;

    for (size_t i = imp->query.n; i-- > 0;) {
        if (imp->has_last[i] && !*imp->query.text[i])
            return NULL;
        if (!imp->has_last[i])
            open = imp->query.text[i];
    }
    return open;
}

double spot_import_first_s(const struct spot_import *imp)
{
    double first_s = INFINITY;

    for (size_t i = 0; i < imp->n_row; i++)
        first_s = fmin(first_s, imp->row[i].time_s);
    for (size_t i = 0; i < imp->n_node; i++)
        first_s = fmin(first_s, imp->node[i].time_s);
    return first_s;
}

void spot_import_shift(struct spot_import *imp, double origin_s)
{
    for (size_t i = 0; i < imp->n_row; i++)
        imp->row[i].time_s -= origin_s;
    for (size_t i = 0; i < imp->n_node; i++)
        imp->node[i].time_s -= origin_s;
    if (imp->end_s > 0)
        imp->end_s -= origin_s;
}

void spot_import_release(struct spot_import *imp)
{
    free(imp->row);
    free(imp->node);
    free(imp->has_last);
    spot_names_release(&imp->query);
    spot_names_release(&imp->text);
    *imp = (struct spot_import){ 0 };
}
