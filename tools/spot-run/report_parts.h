/* SPDX-License-Identifier: MIT */
/* report_parts.h - the parts of spot-run report. */
#ifndef SPOT_RUN_REPORT_PARTS_H
#define SPOT_RUN_REPORT_PARTS_H

#include <stddef.h>
#include <stdio.h>

#include "cli/plot.h"
#include "cli/table.h"
#include "common/err.h"
#include "common/json_writer.h"
#include "common/prov.h"
#include "model/report.h"

/* --- curves of a figure, whose points are stored and freed together --- */

enum { REPORT_CURVES = 32 };

/* Zero it at the start. */
struct report_canvas {
    double *block[2 * REPORT_CURVES];
    size_t n_block;
};

/* A new curve for at most n_most points; `label` is borrowed. At most REPORT_CURVES curves. */
struct spot_series report_curve(struct report_canvas *canvas, const char *label,
                                enum spot_series_style style, size_t n_most);
/* Add a point to the curve that was begun last. */
void report_point(struct report_canvas *canvas, struct spot_series *series, double x, double y);
/* The number of members of the job as a wide pale band behind the other curves. */
struct spot_series report_members(struct report_canvas *canvas, const struct spot_run *run);
/* Dotted lines from 0 to `top`. */
struct spot_series report_marks(struct report_canvas *canvas, const char *label, const char *colour,
                                const double *at_s, size_t n, double top);
/* The largest y of the series that are not marks; 1 if there is none. */
double report_top(const struct spot_series *series, size_t n);
void report_canvas_release(struct report_canvas *canvas);

/* --- the report of a run as the document spot.report/1 --- */

/* Prices in USD per machine-hour, 0 if unknown. */
struct report_price {
    double machine_h, spot_usd_per_h, on_demand_usd_per_h;
};

/* Write the machine time and its cost. */
void report_doc_price(struct spot_jw *jw, const struct report_price *price);

/* `reference`: the run to compare with, NULL for none. Returns 0, or -1 with *err (SPOT_ESYS). */
int report_doc_write(const struct spot_run *run, const struct spot_run *reference,
                     const struct report_price *price, const struct spot_prov *prov, FILE *out,
                     struct spot_err *err);

/* --- the report of a job that ran a foreign command: rows of the table, the document, and the
 * figure --- */

void report_exec_rows(struct spot_table *table, const struct spot_run *run);
/* Returns 0, or -1 with *err (SPOT_ESYS). */
int report_exec_write(const struct spot_run *run, const struct report_price *price,
                      const struct spot_prov *prov, FILE *out, struct spot_err *err);

/* Draws nodes and rounds, committed steps and where they are held, and the pause of each round. */
int report_exec_plot(const struct spot_run *run, const char *path, struct spot_err *err);

/* --- the figure of a run: machines and grid, steps, loss --- */

/* Draw to `path`, see common/plot.h; the loss together with that of `reference` unless it is NULL.
 * The grid is 0 during outages; the steps are those that stand. Returns 0, or -1 with *err. */
int report_plot(const struct spot_run *run, const struct spot_run *reference, const char *path,
                struct spot_err *err);

/* --- the report of a serving run: rows of a table, keys of spot.report/1, and the figure --- */

/* Add the columns `what` and `measured`, without the cost of machines. */
void report_serve_rows(struct spot_table *table, const struct spot_run *run);

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int report_serve_write(const struct spot_run *run, const struct report_price *price,
                       const struct spot_prov *prov, FILE *out, struct spot_err *err);

/* Draws machines and replicas, choices in progress, and percentiles of the times, with a mark where
 * a member joined, got a notice or was lost. */
int report_serve_plot(const struct spot_run *run, const char *path, struct spot_err *err);

#endif /* SPOT_RUN_REPORT_PARTS_H */
