/* SPDX-License-Identifier: MIT */
/* trace_write.h - writes traces as CSV, in the forms of trace.h. */
#ifndef SPOT_TRACE_TRACE_WRITE_H
#define SPOT_TRACE_TRACE_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Print a time or a price: whole numbers as such, others in the shortest form; nothing, an empty
 * cell, for what is not finite. */
void spot_trace_put_real(FILE *out, double value);

/* The whole trace, rows by time, then by series; only the columns that some series has. Write
 * errors of `out` are left for the caller to detect. */
void spot_trace_write_counts(const struct spot_trace *trace, FILE *out);
void spot_trace_write_events(const struct spot_trace *trace, FILE *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_TRACE_WRITE_H */
