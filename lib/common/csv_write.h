/* SPDX-License-Identifier: MIT */
/* csv_write.h - one field of separated values. */
#ifndef SPOT_COMMON_CSV_WRITE_H
#define SPOT_COMMON_CSV_WRITE_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In quotes (RFC 4180) where it holds the separator, a quote or the end of a line. */
void spot_csv_put(FILE *out, const char *text, char separator);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_CSV_WRITE_H */
