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

struct spot_column {
    const char *name;
    bool is_number; /* right-aligned; bare in JSON Lines */
};

enum { SPOT_TABLE_WIDTH = 100 };

struct spot_table {
    const struct spot_column *column; /* [n_column], borrowed */
    size_t n_column, n_cell, cap;
    enum spot_format format; /* AUTO, if not set, is TABLE */
    size_t break_at; /* > 0: a table wider than SPOT_TABLE_WIDTH is broken before this column, and
                        continues below */
    char **cell;     /* [n_cell], row-major */
};

void spot_table_init(struct spot_table *table, const struct spot_column *column, size_t n_column);
void spot_table_release(struct spot_table *table);

/* Append one cell; rows fill from left to right. */
void spot_table_text(struct spot_table *table, const char *text);
void spot_table_int(struct spot_table *table, long long value);
void spot_table_real(struct spot_table *table, double value);              /* shortest form */
void spot_table_fixed(struct spot_table *table, double value, int digits); /* after the point */
/* A number with this many digits in tables for people; in formats for programs to 1e-6, or
 * exactly. */
void spot_table_rounded(struct spot_table *table, double value, int digits);
void spot_table_exact(struct spot_table *table, double value, int digits);
/* Two cells: a label, and a text of at most 159 bytes. */
void spot_table_row(struct spot_table *table, const char *what, const char *fmt, ...)
    SPOT_PRINTF(3, 4);

/* AUTO prints a table. Write errors of `out` are left for the caller to detect. */
void spot_table_print(const struct spot_table *table, FILE *out, enum spot_format format);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_TABLE_H */
