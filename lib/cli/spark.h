/* SPDX-License-Identifier: MIT */
/* spark.h - one-line trends for terminals. */
#ifndef SPOT_CLI_SPARK_H
#define SPOT_CLI_SPARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One glyph per sample x[n], eight heights between the extremes; a flat
 * series draws at the lowest. UTF-8 blocks, or " .:-=+*#" if ascii is set. */
void spot_spark(FILE *out, const double *x, size_t n, bool ascii);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_SPARK_H */
