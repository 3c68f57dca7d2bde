/* SPDX-License-Identifier: MIT */
/* trace.h - availability traces: the number of machines over time and by zone.
 *
 * A trace is CSV in one of two forms, many series to a file, one series per
 * (zone, instance_type), rows of different series in any order:
 *   count  time_s,available[,zone,instance_type,price_usd_per_h,requested]
 *   event  time_s,event,node[,zone,instance_type]     event: add, remove, notice
 * In the count form a value holds until that series' next row; a grid is a count form with equal
 * steps. Of two rows at one time the later one counts (the other held for no time). The event form
 * starts with no machines; events at one time all take effect then. A time that goes backwards
 * within a series, a node added twice or removed while absent, and numbers that are not finite or
 * out of range are rejected with their position.
 */
#ifndef SPOT_TRACE_TRACE_H
#define SPOT_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_TRACE_SERIES_MAX = 4096,
    SPOT_TRACE_NODES_MAX = 1 << 20,
    SPOT_TRACE_COUNT_MAX = 1 << 20, /* machines in one series */
    SPOT_TRACE_ROWS_MAX = 1 << 25,  /* of a loaded trace; a stream has no limit */
    /* limit on the intervals of all series of a trace, see _check_grid */
    SPOT_TRACE_GRID_MAX = 1 << 22,
};

#define SPOT_TRACE_TIME_MAX_S 1e11 /* 3,000 years, so that unix times fit */

enum spot_trace_kind {
    SPOT_TRACE_COUNT = 0, /* a row of the count form */
    SPOT_TRACE_ADD,
    SPOT_TRACE_REMOVE,
    SPOT_TRACE_NOTICE, /* the node will leave; it still counts */
};

/* One row as read, borrowed: valid only until the callback returns. */
struct spot_trace_row {
    size_t series;                    /* index by first appearance */
    const char *zone, *instance_type; /* "" where the file names none */
    double time_s;
    int32_t available;      /* in the series, after this row */
    int32_t requested;      /* -1: not known */
    double price_usd_per_h; /* NaN: not known */
    enum spot_trace_kind kind;
    size_t node;           /* event form: index by first appearance */
    const char *node_name; /* NULL in the count form */
};

/* Return 0 to go on, nonzero (with *err filled) to stop. */
typedef int spot_trace_row_fn(const struct spot_trace_row *row, void *user, struct spot_err *err);

/* Stream a trace; rows are checked before they are passed on. `xxh3` may be NULL. Memory grows with
 * series and nodes, not with rows. Returns 0, or -1 with *err: SPOT_EDATA with source:line:column
 * for anything malformed, including a trace without rows; SPOT_ESYS when reading fails. */
int spot_trace_stream(FILE *in, const char *source, spot_trace_row_fn *on_row, void *user,
                      uint64_t *xxh3, struct spot_err *err);

struct spot_trace_event {
    double time_s;
    enum spot_trace_kind kind;
    uint32_t node; /* index in trace->node_name */
};

struct spot_trace_series {
    char *zone, *instance_type; /* "" where the file names none */
    size_t n, cap;              /* rows, at least 1 */
    double *time_s;             /* [n], strictly increasing, 0..SPOT_TRACE_TIME_MAX_S */
    int32_t *available;         /* [n], 0..SPOT_TRACE_COUNT_MAX */
    double *price_usd_per_h;    /* [n], NaN where not known; NULL without such a column */
    int32_t *requested;         /* [n], -1 where not known; NULL without such a column */
    size_t n_event, event_cap;
    struct spot_trace_event *event; /* [n_event], in order; NULL in the count form */
};

struct spot_trace {
    size_t n_series;
    struct spot_trace_series *series; /* [n_series], by first appearance */
    size_t n_node;
    char **node_name;      /* [n_node]; empty in the count form */
    double start_s, end_s; /* first and last time of any series */
    uint64_t xxh3;         /* of the bytes read, for provenance */
};

/* Read a whole trace. On failure *trace is zeroed: releasing it is legal, not
 * needed. Errors as spot_trace_stream. */
int spot_trace_load(struct spot_trace *trace, FILE *in, const char *source, struct spot_err *err);

/* The same for a path; "-" or NULL is stdin. */
int spot_trace_load_path(struct spot_trace *trace, const char *path, struct spot_err *err);

void spot_trace_release(struct spot_trace *trace);

/* Make a trace from rows instead of a file. Start from a zeroed trace; series and nodes are
 * numbered 0, 1, .. in the order in which they first appear, times must not go backwards within a
 * series. Then spot_trace_find_span sets start_s and end_s. */
struct spot_trace_builder {
    struct spot_trace *trace;
    const char *source; /* for messages */
    size_t series_cap, node_cap, n_row;
};
int spot_trace_build(struct spot_trace_builder *builder, const struct spot_trace_row *row,
                     struct spot_err *err);
void spot_trace_find_span(struct spot_trace *trace);

/* Number of rows at or before time_s, so row [result - 1] is in force; 0 before the first. Cost:
 * O(log n). */
size_t spot_trace_find(const struct spot_trace_series *series, double time_s);

/* Number of machines at time_s: the value of the last row at or before it, 0 before the first
 * row. */
int32_t spot_trace_at(const struct spot_trace_series *series, double time_s);

/* The largest count of the series. */
int32_t spot_trace_peak(const struct spot_trace_series *series);

/* "zone/instance_type", or the one that is not empty, or "-", for tables and messages.
 * Returns `text`. */
enum { SPOT_TRACE_LABEL = 128 };
const char *spot_trace_label(const struct spot_trace_series *series, char text[SPOT_TRACE_LABEL]);

/* The smallest step between two rows, 0 for a series of one row: used as the interval of a grid. */
double spot_trace_interval_s(const struct spot_trace_series *series);

/* available[i] = machines there at start_s + i * interval_s, i < n; cost O(log rows + rows + n).
 * interval_s > 0. */
void spot_trace_resample(const struct spot_trace_series *series, double start_s, double interval_s,
                         size_t n, int32_t *available);

/* Check that a grid of n intervals is not too large, before memory is allocated: two rows can be a
 * thousand years apart. At most n_max are allowed, or four per row of a long trace. `remedy` tells
 * the user what to change. Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_trace_check_grid(const struct spot_trace *trace, double n, double interval_s, size_t n_max,
                          const char *remedy, struct spot_err *err);

/* The points of that grid from start_s to end_s, both ends included; SIZE_MAX if
 * there are more than SPOT_TRACE_ROWS_MAX. */
size_t spot_trace_grid_n(double start_s, double end_s, double interval_s);

/* Keep from_s <= time_s <= to_s. The value in force at from_s gets a row there and, if the trace
 * continued after to_s, the value then gets one at to_s; times are unchanged. Of node events, those
 * inside are kept, and nodes present at from_s are added there. Returns 0, or -1 with
 * SPOT_EINFEASIBLE if nothing is left. */
int spot_trace_cut(struct spot_trace *trace, double from_s, double to_s, struct spot_err *err);

/* floor(available / k) and floor(requested / k), k >= 1; node events are dropped if k > 1, prices
 * per machine are unchanged. */
void spot_trace_scale(struct spot_trace *trace, int32_t k);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_TRACE_H */
