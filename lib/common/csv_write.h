/* SPDX-License-Identifier: MIT */
/* csv_write.h - writes one field of separated values. */
#ifndef SPOT_COMMON_CSV_WRITE_H
#define SPOT_COMMON_CSV_WRITE_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Write a field, quoted (RFC 4180) if it contains the separator, a quote or a line end. */
void spot_csv_put(FILE *out, const char *text, char separator);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_CSV_WRITE_H */
