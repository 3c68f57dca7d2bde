/* SPDX-License-Identifier: MIT */
/* table.h - rows of text printed as an aligned table, CSV, TSV, Markdown or JSON Lines. */
#ifndef SPOT_CLI_TABLE_H
#define SPOT_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_format {
    SPOT_FORMAT_AUTO = 0, /* a table on a terminal, else the tool's machine form */
    SPOT_FORMAT_JSON,
    SPOT_FORMAT_JSONL,
    SPOT_FORMAT_CSV,
    SPOT_FORMAT_TSV,
    SPOT_FORMAT_TABLE,
    SPOT_FORMAT_MD,
};

/* Parse a --format value; NULL is AUTO. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int spot_format_parse(const char *text, enum spot_format *format, struct spot_err *err);

/* Resolves AUTO: a table if `output` (NULL: stdout) is a terminal, else `machine`. */
enum spot_format spot_format_settle(enum spot_format format, const char *output,
                                    enum spot_format machine);

enum { SPOT_TABLE_WIDTH = 100 };

struct spot_table {
    char **name;     /* [n_column] of columns */
    bool *is_number; /* [n_column] whether it is right-aligned, and without quotes in JSON Lines */
    char **cell;     /* [n_cell], row-major */
    size_t n_column, n_cell, cap_name, cap_number, cap;
    enum spot_format format;
    size_t break_at; /* > 0: an aligned table wider than SPOT_TABLE_WIDTH continues below from this
                        column */
};

/* columns: their names with commas between; those that end with # are of numbers. */
void spot_table_init(struct spot_table *table, const char *columns);
/* Add a column, before the first cell; its name may contain any characters. */
void spot_table_column(struct spot_table *table, const char *name, bool is_number);
void spot_table_release(struct spot_table *table);

/* Append cells, one for each conversion of fmt; rows fill from left to right. %s: a text; %d, %lld,
 * %zu: a whole number; %.3f: this many digits after the point; %g: the shortest form that reads
 * back; %G: the same for the nearest multiple of 1e-6; %.3e and %.3g: this many digits in tables
 * for people, and like %g and %G in formats for programs. Numbers that are not finite give an empty
 * cell. */
void spot_table_add(struct spot_table *table, const char *fmt, ...) SPOT_PRINTF(2, 3);
/* Add a row of two cells: a name, and a text of at most 159 bytes. */
void spot_table_row(struct spot_table *table, const char *what, const char *fmt, ...)
    SPOT_PRINTF(3, 4);

/* AUTO prints a table. Write errors of `out` are left for the caller to detect. */
void spot_table_print(const struct spot_table *table, FILE *out, enum spot_format format);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_TABLE_H */
