/* SPDX-License-Identifier: MIT */
/* family.h - which of the CSV families a file is of, by its header. */
#ifndef SPOT_TRACE_FAMILY_H
#define SPOT_TRACE_FAMILY_H

#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_family {
    SPOT_FAMILY_COUNTS = 0, /* trace/trace.h; also what is of none, for its reader to refuse */
    SPOT_FAMILY_PROBES,     /* trace/probe_trace.h */
    SPOT_FAMILY_ADVICE,     /* trace/advice.h */
};

/* `in` can be sought in, and stands again where it did. */
enum spot_family spot_family_of(FILE *in);

/* A stream that can be sought in: `in` itself, else a copy in a temporary file, which closes `in`
 * unless it is stdin. NULL with *err (SPOT_ESYS): `in` is closed as well. */
FILE *spot_family_seekable(FILE *in, const char *source, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_FAMILY_H */
