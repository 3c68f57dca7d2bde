/* SPDX-License-Identifier: MIT */
/* report_exec.h - the report of a job that ran a foreign command: rows of the table, the document,
 * and the picture. */
#ifndef SPOT_RUN_REPORT_EXEC_H
#define SPOT_RUN_REPORT_EXEC_H

#include <stdio.h>

#include "cli/table.h"
#include "common/err.h"
#include "common/prov.h"
#include "model/report.h"
#include "report_doc.h"

void report_exec_rows(struct spot_table *table, const struct spot_run *run);
/* Returns 0, or -1 with *err (SPOT_ESYS). */
int report_exec_write(const struct spot_run *run, const struct report_price *price,
                      const struct spot_prov *prov, FILE *out, struct spot_err *err);

/* Nodes and rounds, committed steps and where they are held, and the pause of each round. */
int report_exec_plot(const struct spot_run *run, const char *path, struct spot_err *err);

#endif /* SPOT_RUN_REPORT_EXEC_H */
