/* SPDX-License-Identifier: MIT */
/* report_serve.h - the report of a run that served: rows of a table, keys of spot.report/1, and the
 * picture. */
#ifndef SPOT_RUN_REPORT_SERVE_H
#define SPOT_RUN_REPORT_SERVE_H

#include "cli/table.h"
#include "common/err.h"
#include "common/prov.h"
#include "model/report.h"
#include "report_doc.h"

/* `what` and `measured`, without what the machines cost. */
void report_serve_rows(struct spot_table *table, const struct spot_run *run);

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int report_serve_write(const struct spot_run *run, const struct report_price *price,
                       const struct spot_prov *prov, FILE *out, struct spot_err *err);

/* Machines and replicas, choices under way, and percentiles of the times, with a mark where a
 * member came, was told to go, or was gone. */
int report_serve_plot(const struct spot_run *run, const char *path, struct spot_err *err);

#endif /* SPOT_RUN_REPORT_SERVE_H */
