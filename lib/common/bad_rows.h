/* SPDX-License-Identifier: MIT */
/* bad_rows.h - invalid rows of foreign logs, which are skipped and counted, or refused. One struct
 * per file; the caller sets `is_strict`, the rest is 0. Errors in our own documents are always
 * refused.
 */
#ifndef SPOT_COMMON_BAD_ROWS_H
#define SPOT_COMMON_BAD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"
#include "common/line.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_bad_rows {
    bool is_strict;        /* refuse the first */
    bool is_full;          /* set by a reader that reached a limit: refuse all further rows */
    size_t n, n_good;      /* skipped rows; valid rows */
    struct spot_err first; /* error of the first skipped row */
};

/* Handle the result rc of reading a row, with *err if rc is not 0: count it and return 0 to
 * continue, or return -1 to refuse it. Only SPOT_EDATA counts as an error of the row. */
int spot_bad_rows_take(struct spot_bad_rows *bad, int rc, struct spot_err *err);

/* The next line of a text that is not blank, without its end. Lines of more than n_max bytes and
 * those with a NUL are bad rows. Returns 1, 0 at the end, or -1 with *err. */
int spot_bad_rows_line(struct spot_bad_rows *bad, struct spot_line *line, FILE *in, size_t n_max,
                       const char *source, struct spot_err *err);

/* At the end of a file of `n_line` lines: refuses an empty file, and one without any valid row,
 * which has another format. Returns 0, or -1 with *err. */
int spot_bad_rows_end(const struct spot_bad_rows *bad, unsigned long n_line, const char *source,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_BAD_ROWS_H */
