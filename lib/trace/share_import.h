/* SPDX-License-Identifier: MIT */
/* share_import.h - converts job traces and accounting logs of clusters to jobs or throughputs.
 * Formats: docs/formats/import.md. */
#ifndef SPOT_TRACE_SHARE_IMPORT_H
#define SPOT_TRACE_SHARE_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/bad_rows.h"
#include "common/err.h"
#include "model/share_doc.h"
#include "trace/share_pollux.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_share_import {
    struct spot_share_jobs jobs;
    struct spot_job_rates_row *speed; /* [n_speed], texts are owned */
    size_t n_speed, cap_speed;
    struct spot_pollux *pollux; /* files of trainings that settle turns into speeds */
    struct spot_bad_rows bad;   /* of the file read last */
    size_t n_left_out;          /* never started, or ran for less than a second */
    size_t n_replaced; /* records of a job, or a throughput, that a later one contradicts */
};

struct spot_share_format {
    const char *name, *summary;
    bool is_wall_clock; /* times are unix times */
    int (*read)(struct spot_share_import *imp, FILE *in, const char *source, struct spot_err *err);
};

/* All formats; ends with a NULL name. */
extern const struct spot_share_format spot_share_format[];

const struct spot_share_format *spot_share_format_find(const char *name);

/* Read one more file. Returns 0, or -1 with *err: SPOT_EDATA with position; SPOT_ESYS. Rows that
 * cannot be read are in imp->bad. */
int spot_share_import_read(struct spot_share_import *imp, const struct spot_share_format *format,
                           FILE *in, const char *source, struct spot_err *err);

/* Call it after the last file: of jobs with the same id, and of throughputs of the same kind, scale
 * and type, the one read last is kept. Returns 0, or -1 with *err (SPOT_EDATA) if a file of a group
 * is missing. */
int spot_share_import_settle(struct spot_share_import *imp, struct spot_err *err);
void spot_share_import_release(struct spot_share_import *imp);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_SHARE_IMPORT_H */
