/* SPDX-License-Identifier: MIT */
/* report_plot.h - the picture of a run: machines and grid, steps, loss. */
#ifndef SPOT_RUN_REPORT_PLOT_H
#define SPOT_RUN_REPORT_PLOT_H

#include "common/err.h"
#include "model/report.h"

/* Draw to `path`, see common/plot.h; the loss above that of `reference` unless it is NULL. The grid
 * is 0 while none works; the steps are those that stand. Returns 0, or -1 with *err. */
int report_plot(const struct spot_run *run, const struct spot_run *reference, const char *path,
                struct spot_err *err);

#endif /* SPOT_RUN_REPORT_PLOT_H */
