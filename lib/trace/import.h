/* SPDX-License-Identifier: MIT */
/* import.h - converts public and cloud formats to traces.
 *
 * Readers add to one collection, from any number of files; it is sorted at the end and duplicates
 * are dropped, so that overlapping windows and repeated imports change nothing. Formats:
 * docs/formats/import.md.
 */
#ifndef SPOT_TRACE_IMPORT_H
#define SPOT_TRACE_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/bad_rows.h"
#include "common/err.h"
#include "common/json.h"
#include "trace/names.h"
#include "trace/probe_trace.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_import_kind {
    SPOT_IMPORT_COUNT = 1, /* samples of a count */
    SPOT_IMPORT_NODE,      /* nodes that are added and removed */
    SPOT_IMPORT_PRICE,     /* time_s,zone,instance_type,market,price_usd_per_h */
    SPOT_IMPORT_PROBE,     /* trace/probe_trace.h */
    SPOT_IMPORT_HAZARD,    /* zone,instance_type,os,... per month */
};

enum spot_import_column {
    SPOT_IMPORT_COLUMN_TIME,
    SPOT_IMPORT_COLUMN_AVAILABLE,
    SPOT_IMPORT_COLUMN_ZONE,
    SPOT_IMPORT_COLUMN_TYPE,
    SPOT_IMPORT_COLUMNS
};

/* Information that the files lack. */
struct spot_import_ask {
    const char *zone, *instance_type; /* NULL: from the file, or its name, or "" */
    bool is_inverted;                 /* numbers count what is NOT available */
    int32_t cap;                      /* machines requested: with is_inverted, and as upper bound */
    double time_s;                    /* time of a snapshot without one */
    double utc_offset_s;              /* for clocks whose times have no time zone: csv */
    const char *column[SPOT_IMPORT_COLUMNS]; /* csv: column names; NULL: absent. Time and available
                                                are always present */
};

/* One value; texts live as long as the collection. */
struct spot_import_row {
    double time_s;
    const char *zone, *instance_type, *extra; /* extra: market, os, or the kind of a probe */
    double value[4]; /* count or price; hazard: min, max, savings; probe: asked, granted, price,
                        score, NaN where not given */
};

struct spot_import_node {
    double time_s;
    enum spot_trace_kind kind;
    const char *zone, *instance_type, *node;
    const char *source; /* where it was read, for messages */
    unsigned long line;
};

struct spot_import {
    struct spot_import_ask ask;
    enum spot_import_kind kind;
    struct spot_bad_rows bad; /* of the file read last, then of making a trace */
    bool is_lenient;          /* a node may be added or removed twice: the second has no effect */
    double end_s;             /* the last moment covered by a log; 0: not given by the files */
    struct spot_names text;
    /* the queries whose pages were read, identified by the common part of their rows */
    struct spot_names query;
    bool *has_last; /* [query.n] the last page was among them */
    size_t last_cap;
    size_t n_region; /* placement scores of whole regions */
    size_t n_row, row_cap, n_node, node_cap;
    struct spot_import_row *row;
    struct spot_import_node *node;
};

typedef int spot_import_doc_fn(struct spot_import *imp, const struct spot_json_doc *doc,
                               struct spot_err *err);
/* 1-based number, without the newline. */
typedef int spot_import_line_fn(struct spot_import *imp, const char *text, size_t n_byte,
                                const char *source, unsigned long line, struct spot_err *err);

struct spot_import_format {
    const char *name, *summary;
    enum spot_import_kind kind;
    bool is_wall_clock; /* times are unix times */
    /* One of these three: a whole file, the document that it is, or each line that is not blank. */
    int (*read)(struct spot_import *imp, FILE *in, const char *source, struct spot_err *err);
    spot_import_doc_fn *read_document;
    spot_import_line_fn *read_line;
};

/* All formats; ends with a NULL name. */
extern const struct spot_import_format spot_import_format[];

const struct spot_import_format *spot_import_find(const char *name);

/* Read one file. Returns 0, or -1 with *err: SPOT_EDATA with position; SPOT_ESYS. Rows that cannot
 * be read are in imp->bad; in the log of a run each is refused. */
int spot_import_read(struct spot_import *imp, const struct spot_import_format *format, FILE *in,
                     const char *source, struct spot_err *err);

/* Read a document that an earlier import wrote, of the same kind (not HAZARD). */
int spot_import_read_own(struct spot_import *imp, FILE *in, const char *source,
                         struct spot_err *err);

/* Insert the contents of another collection of the same kind before those of this one. */
void spot_import_prepend(struct spot_import *imp, const struct spot_import *before);

/* A query of which some pages are missing, identified by the common part of its rows, such as a
 * region; "" if that is unknown. NULL if there is none. */
const char *spot_import_unfinished(const struct spot_import *imp);

/* Earliest time collected; infinity if there is none. */
double spot_import_first_s(const struct spot_import *imp);

/* Subtract origin_s from all times collected so far. */
void spot_import_shift(struct spot_import *imp, double origin_s);

/* Sort by time and place, and drop duplicates; of two values for one moment and place the one read
 * last is kept. */
void spot_import_sort(struct spot_import *imp);

/* COUNT and NODE, sorted: make a trace, whose counts hold until end_s. Returns 0, or -1 with
 * SPOT_EDATA: a time before the origin, no rows. A node that is added or removed twice is in
 * imp->bad, the second time. */
int spot_import_trace(struct spot_import *imp, struct spot_trace *trace, struct spot_err *err);

/* The other kinds, sorted: CSV with a header. */
void spot_import_write(const struct spot_import *imp, FILE *out);

void spot_import_release(struct spot_import *imp);

/* For readers: copy a text into the collection; append a row. */
const char *spot_import_text(struct spot_import *imp, const char *text);
struct spot_import_row *spot_import_add(struct spot_import *imp, double time_s, const char *zone,
                                        const char *instance_type, const char *extra);

/* Append a probe; `extra` distinguishes requests from rows with only a price or a score. */
void spot_import_probe(struct spot_import *imp, const char *zone, const char *instance_type,
                       const struct spot_probe *probe);

/* A page of a query was read; `query` is the common part of its rows, "" if unknown. A last page of
 * "" counts for any query. */
void spot_import_page(struct spot_import *imp, const char *query, bool is_last);

/* The readers, one group to a file. */
int spot_import_events(struct spot_import *, FILE *, const char *, struct spot_err *);
int spot_import_count_log(struct spot_import *, FILE *, const char *, struct spot_err *);
int spot_import_csv(struct spot_import *, FILE *, const char *, struct spot_err *);
int spot_import_spot_event(struct spot_import *, FILE *, const char *, struct spot_err *);
spot_import_line_fn spot_import_spotserve;
spot_import_doc_fn spot_import_skypilot, spot_import_aws_price, spot_import_aws_score,
    spot_import_aws_advisor, spot_import_gcp_price, spot_import_azure_price;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_IMPORT_H */
