/* SPDX-License-Identifier: MIT */
/* report_doc.h - the report of a run as the document spot.report/1. */
#ifndef SPOT_RUN_REPORT_DOC_H
#define SPOT_RUN_REPORT_DOC_H

#include <stdio.h>

#include "common/err.h"
#include "common/json_writer.h"
#include "common/prov.h"
#include "model/report.h"

/* Prices in USD of a machine-hour, 0 where none is known. */
struct report_price {
    double machine_h, spot_usd_per_h, on_demand_usd_per_h;
};

/* What the machines took and cost. */
void report_doc_price(struct spot_jw *jw, const struct report_price *price);

/* `reference` is NULL for a run alone. Returns 0, or -1 with *err (SPOT_ESYS). */
int report_doc_write(const struct spot_run *run, const struct spot_run *reference,
                     const struct report_price *price, const struct spot_prov *prov, FILE *out,
                     struct spot_err *err);

#endif /* SPOT_RUN_REPORT_DOC_H */
