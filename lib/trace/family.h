/* SPDX-License-Identifier: MIT */
/* family.h - determines the family of a CSV file by its header. */
#ifndef SPOT_TRACE_FAMILY_H
#define SPOT_TRACE_FAMILY_H

#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_family {
    SPOT_FAMILY_COUNTS = 0, /* trace/trace.h; also any other file, which its reader then rejects */
    SPOT_FAMILY_PROBES,     /* trace/probe_trace.h */
    SPOT_FAMILY_ADVICE,     /* trace/advice.h */
};

/* `in` must be seekable; its position is restored. */
enum spot_family spot_family_of(FILE *in);

/* Returns a seekable stream: `in` itself, else a copy in a temporary file, after which `in` is
 * closed unless it is stdin. On failure NULL with *err (SPOT_ESYS), and `in` is closed. */
FILE *spot_family_seekable(FILE *in, const char *source, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_FAMILY_H */
