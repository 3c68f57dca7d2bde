/* SPDX-License-Identifier: MIT */
/* load_import.h - converts request logs to loads. Formats: docs/formats/import.md. */
#ifndef SPOT_TRACE_LOAD_IMPORT_H
#define SPOT_TRACE_LOAD_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/bad_rows.h"
#include "common/err.h"
#include "common/rng.h"
#include "trace/load_generate.h"
#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_load_column {
    SPOT_LOAD_COLUMN_TIME,
    SPOT_LOAD_COLUMN_PROMPT,
    SPOT_LOAD_COLUMN_OUTPUT,
    SPOT_LOAD_COLUMN_ID,
    SPOT_LOAD_COLUMNS
};

/* The result of reading the files, and information that they do not contain. Times are the files'
 * own until spot_load_shift, requests in the files' order until spot_load_sort. */
struct spot_load_import {
    const char *column[SPOT_LOAD_COLUMNS]; /* burstgpt: column names; NULL: those of BurstGPT */
    struct spot_load_source *length;       /* azure-functions: source of lengths */
    struct spot_rng rng;                   /* azure-functions: time within a minute */
    struct spot_load load;
    struct spot_bad_rows bad; /* bad rows of the file read last */
    size_t n_empty;           /* left out: a length of 0, as failed requests have */
    size_t n_file;            /* read so far */
};

struct spot_load_format {
    const char *name, *summary;
    bool is_wall_clock; /* times are unix times */
    bool has_lengths;
    int (*read)(struct spot_load_import *imp, FILE *in, const char *source, struct spot_err *err);
};

/* All formats; ends with a NULL name. */
extern const struct spot_load_format spot_load_format[];

const struct spot_load_format *spot_load_format_find(const char *name);

/* Read one more file. Returns 0, or -1 with *err: SPOT_EDATA with position; SPOT_ESYS. Rows that
 * cannot be read are in imp->bad; in the log of a run each is refused. */
int spot_load_import_read(struct spot_load_import *imp, const struct spot_load_format *format,
                          FILE *in, const char *source, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LOAD_IMPORT_H */
