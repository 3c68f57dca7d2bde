/* SPDX-License-Identifier: MIT */
/* plot.h - draws all figures, by gnuplot. A figure is data; this module turns it into one gnuplot
 * script with its data inline. The suffix of the path selects the format: .svg .png .pdf, .gp for
 * the script itself (used in golden tests), "-" for text on stdout, where each series of several
 * gets a drawing of its own.
 */
#ifndef SPOT_CLI_PLOT_H
#define SPOT_CLI_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PLOT_SERIES_MAX = 24 };

enum spot_series_style {
    SPOT_SERIES_LINE,
    SPOT_SERIES_STEP, /* held until the next sample: instance counts */
    SPOT_SERIES_DOT,
    SPOT_SERIES_BAND, /* the area between y and y2, translucent unless it has a colour */
    SPOT_SERIES_MARK, /* an event: a dotted line from 0 to y */
};

struct spot_series {
    const char *label; /* "-" or "": none, not shown in the key */
    enum spot_series_style style;
    size_t n;
    const double *x;    /* [n] */
    const double *y;    /* [n] */
    const double *y2;   /* [n], bands only: the upper edge */
    double width;       /* of the line; 0: default */
    const char *colour; /* "#rrggbb"; NULL: by the index in the figure, like the dashes */
};

struct spot_figure {
    const char *title;                /* the finding, not the subject */
    const char *x_label, *y_label;    /* with units: "time (h)" */
    const char *made_by;              /* the command, kept as a comment; NULL for none */
    const struct spot_series *series; /* [n_series] */
    size_t n_series;
    bool is_count; /* y are counts: the axis starts at 0, in whole numbers */
    /* [n_name], labels at 0, 1, ... of an axis instead of numbers; NULL: numbers */
    const char *const *x_name, *const *y_name;
    size_t n_name;
};

/* Draw fig to path, which is replaced only when the figure is complete.
 * Returns 0, or -1 with *err: SPOT_EUSAGE for an unknown suffix, SPOT_ESYS
 * when gnuplot is missing or fails, or the file cannot be written. */
int spot_plot(const struct spot_figure *fig, const char *path, struct spot_err *err);

enum { SPOT_PLOT_MULTIPLES_MAX = 24 };

/* Small multiples: series 0 is the background, a grey area behind a thin panel for each of the
 * others, all on the same axes; 2..SPOT_PLOT_MULTIPLES_MAX series, each panel named by its
 * label. */
int spot_plot_multiples(const struct spot_figure *fig, const char *path, struct spot_err *err);

enum { SPOT_PLOT_PANELS_MAX = 6 };

/* The same for several figures, one above the other. */
int spot_plot_panels(const struct spot_figure *panel, size_t n_panel, const char *path,
                     struct spot_err *err);

/* Check, before any work, that a figure can be drawn to a path of this name. Returns 0, or -1 with
 * *err (SPOT_EUSAGE). */
int spot_plot_check(const char *path, struct spot_err *err);

/* True if a plot as text to stdout replaces the document that would be written there. `path` of the
 * plot and `output` may be NULL. */
bool spot_plot_takes_stdout(const char *path, const char *output);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_PLOT_H */
