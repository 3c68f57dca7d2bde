/* SPDX-License-Identifier: MIT */
/* csv_reader.h - stream a headed CSV document (RFC 4180) row by row.
 *
 * Columns are found by header name, so files may carry extra columns in any
 * order. Compressed input (common/unpack.h) is unpacked. Memory is bounded by the longest record,
 * whatever the file's size.
 */
#ifndef SPOT_COMMON_CSV_READER_H
#define SPOT_COMMON_CSV_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/bad_rows.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_CSV_COLUMNS_MAX = 64, SPOT_CSV_LINE_MAX = 1 << 20 };

/* One record, borrowed: valid only until the callback returns. */
struct spot_csv_row {
    const char *source;       /* file name for messages, "<stdin>" for "-" */
    unsigned long line;       /* 1-based line the record starts on */
    const char *const *field; /* [n_want], in the order of `want` */
    const void *impl;
};

/* Return 0 to go on, nonzero (with *err filled) to stop. */
typedef int spot_csv_row_fn(const struct spot_csv_row *row, void *user, struct spot_err *err);

/* Read `in` to its end. `want` lists n_want header names; one that starts with
 * '?' is optional, and its field is NULL in every row where the file lacks it.
 * xxh3 (may be NULL) gets the hash of all bytes read, for provenance.
 * Returns 0, or -1 with *err naming source:line:column: SPOT_EDATA for a
 * missing or repeated column, a row of another length, bad quotes, NUL bytes,
 * invalid UTF-8, a line longer than SPOT_CSV_LINE_MAX, empty input. */
int spot_csv_read(FILE *in, const char *source, const char *const *want, size_t n_want,
                  spot_csv_row_fn *on_row, void *user, uint64_t *xxh3, struct spot_err *err);

/* Who is told of a column that is not read and has nearly the name of an optional one that is
 * absent; NULL (the default): nobody. To be set before threads are started. */
void spot_csv_doubts(void (*report)(const char *sentence));

/* Read a foreign log. Without a header its columns must be exactly those of `want`, in that order,
 * none of them optional. Records that cannot be parsed, or that on_row refuses with SPOT_EDATA, are
 * bad rows (common/bad_rows.h; bad NULL: errors). An unclosed quote invalidates only its line: the
 * following lines are read again. A wrong header is refused. */
int spot_csv_read_log(FILE *in, const char *source, const char *const *want, size_t n_want,
                      bool is_bare, spot_csv_row_fn *on_row, void *user, struct spot_bad_rows *bad,
                      struct spot_err *err);

/* Parse wanted column k of a row as a finite double in [min, max]. */
int spot_csv_real(const struct spot_csv_row *row, size_t k, double min, double max, double *out,
                  struct spot_err *err);

/* The same for a whole number, |bounds| <= 2^53. */
int spot_csv_int(const struct spot_csv_row *row, size_t k, int64_t min, int64_t max, int64_t *out,
                 struct spot_err *err);

/* Fill *err with "source:line:column: name: message" about wanted column k. */
int spot_csv_fail(const struct spot_csv_row *row, size_t k, struct spot_err *err, const char *fmt,
                  ...) SPOT_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_CSV_READER_H */
