/* SPDX-License-Identifier: MIT */
/* report_canvas.h - curves of a picture whose points are kept, and freed, together. */
#ifndef SPOT_RUN_REPORT_CANVAS_H
#define SPOT_RUN_REPORT_CANVAS_H

#include <stddef.h>

#include "cli/plot.h"
#include "model/report.h"

enum { REPORT_CURVES = 32 };

/* All zero at the start. */
struct report_canvas {
    double *block[2 * REPORT_CURVES];
    size_t n_block;
};

/* A curve without points, of n_most at most; `label` is borrowed. REPORT_CURVES at most. */
struct spot_series report_curve(struct report_canvas *canvas, const char *label,
                                enum spot_series_style style, size_t n_most);
/* One more point of the curve that was begun last. */
void report_point(struct report_canvas *canvas, struct spot_series *series, double x, double y);
/* How many members the job had, broad and pale: what else is drawn lies on it. */
struct spot_series report_members(struct report_canvas *canvas, const struct spot_run *run);
/* Dotted lines from 0 to `top`. */
struct spot_series report_marks(struct report_canvas *canvas, const char *label, const char *colour,
                                const double *at_s, size_t n, double top);
/* The largest y of series that are no marks; 1 where there is none. */
double report_top(const struct spot_series *series, size_t n);
void report_canvas_release(struct report_canvas *canvas);

#endif /* SPOT_RUN_REPORT_CANVAS_H */
