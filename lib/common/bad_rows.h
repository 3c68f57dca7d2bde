/* SPDX-License-Identifier: MIT */
/* bad_rows.h - rows of somebody else's log that cannot be read: left out and counted, or refused.
 *
 * One struct for each file; `is_strict` is the caller's, the rest begins as 0. Our own documents
 * are not read so: what is wrong in them is refused.
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
    bool is_full;          /* set by a reader that met a limit: refuse whatever follows */
    size_t n, n_good;      /* left out; read */
    struct spot_err first; /* why the first was left out */
};

/* What becomes of a row whose reader returned rc, with *err if that is not 0: counts
 * it and returns 0 to go on, or -1 to refuse it. Only SPOT_EDATA is of a row. */
int spot_bad_rows_take(struct spot_bad_rows *bad, int rc, struct spot_err *err);

/* The next line of a text that is not blank, without its end. Lines of more than n_max bytes and
 * those with a NUL are bad rows. Returns 1, 0 at the end, or -1 with *err. */
int spot_bad_rows_line(struct spot_bad_rows *bad, struct spot_line *line, FILE *in, size_t n_max,
                       const char *source, struct spot_err *err);

/* At the end of a file of `n_line` lines: refuses an empty one, and one of which no row could be
 * read, which is of another format. Returns 0, or -1 with *err. */
int spot_bad_rows_end(const struct spot_bad_rows *bad, unsigned long n_line, const char *source,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_BAD_ROWS_H */
