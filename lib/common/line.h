/* SPDX-License-Identifier: MIT */
/* line.h - reads lines of bounded length. */
#ifndef SPOT_COMMON_LINE_H
#define SPOT_COMMON_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_line {
    char *text; /* the last line read: n bytes, then NUL; without the newline */
    size_t n, cap;
    unsigned long number; /* from 1; 0: none was read */
};

/* The next line. Returns 1, 0 at the end of the input, -1 with *err: SPOT_EDATA for a line of more
 * than n_max bytes, SPOT_ESYS. */
int spot_line_read(struct spot_line *line, FILE *in, size_t n_max, const char *source,
                   struct spot_err *err);

/* Skip the rest of a line that was too long. */
void spot_line_skip(struct spot_line *line, FILE *in);

/* True if text[n], which is followed by a NUL, has only blanks, tabs and line ends. */
bool spot_line_is_blank(const char *text, size_t n);

/* For lines of text: drop carriage returns at the end. Returns 0, or -1 with *err (SPOT_EDATA) for
 * a line with a NUL byte in it. */
int spot_line_trim(struct spot_line *line, const char *source, struct spot_err *err);

void spot_line_release(struct spot_line *line);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_LINE_H */
