/* SPDX-License-Identifier: MIT */
#include "cli/table.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/csv_write.h"
#include "common/json_writer.h"
#include "common/num.h"
#include "common/utf8.h"
#include "common/xalloc.h"

int spot_format_parse(const char *text, enum spot_format *format, struct spot_err *err)
{
    static const char *const name[] = {
        [SPOT_FORMAT_JSON] = "json", [SPOT_FORMAT_JSONL] = "jsonl", [SPOT_FORMAT_CSV] = "csv",
        [SPOT_FORMAT_TSV] = "tsv",   [SPOT_FORMAT_TABLE] = "table", [SPOT_FORMAT_MD] = "md"
    };

    *format = SPOT_FORMAT_AUTO;
    if (!text)
        return 0;
    for (size_t i = 1; i < sizeof(name) / sizeof(name[0]); i++)
        if (!strcmp(text, name[i])) {
            *format = (enum spot_format)i;
            return 0;
        }
    return spot_err_set(err, SPOT_EUSAGE,
                        "--format must be json, jsonl, csv, tsv, table or md, got '%s'", text);
}

enum spot_format spot_format_settle(enum spot_format format, const char *output,
                                    enum spot_format machine)
{
    if (format != SPOT_FORMAT_AUTO)
        return format;
    return (!output || !strcmp(output, "-")) && isatty(STDOUT_FILENO) ? SPOT_FORMAT_TABLE : machine;
}

void spot_table_init(struct spot_table *table, const struct spot_column *column, size_t n_column)
{
    memset(table, 0, sizeof(*table));
    table->column = column;
    table->n_column = n_column;
}

void spot_table_release(struct spot_table *table)
{
    for (size_t i = 0; i < table->n_cell; i++)
        free(table->cell[i]);
    free(table->cell);
    memset(table, 0, sizeof(*table));
}

void spot_table_text(struct spot_table *table, const char *text)
{
    table->cell = spot_xgrow(table->cell, &table->cap, table->n_cell + 1, sizeof(*table->cell));
    table->cell[table->n_cell++] = spot_xstrdup(text);
}

void spot_table_int(struct spot_table *table, long long value)
{
    char text[SPOT_NUM_TEXT];

    snprintf(text, sizeof(text), "%lld", value);
    spot_table_text(table, text);
}

void spot_table_real(struct spot_table *table, double value)
{
    char text[SPOT_NUM_TEXT];

    spot_table_text(table, isfinite(value) ? spot_num_format(value, text) : "");
}

void spot_table_fixed(struct spot_table *table, double value, int digits)
{
    char text[64];

    snprintf(text, sizeof(text), "%.*f", digits, value);
    spot_table_text(table, isfinite(value) ? text : "");
}

void spot_table_exact(struct spot_table *table, double value, int digits)
{
    if (table->format == SPOT_FORMAT_TABLE || table->format == SPOT_FORMAT_MD)
        spot_table_fixed(table, value, digits);
    else
        spot_table_real(table, value);
}

void spot_table_rounded(struct spot_table *table, double value, int digits)
{
    const bool is_read = table->format == SPOT_FORMAT_TABLE || table->format == SPOT_FORMAT_MD;

    spot_table_exact(table, is_read ? value : round(value * 1e6) / 1e6, digits);
}

void spot_table_row(struct spot_table *table, const char *what, const char *fmt, ...)
{
    char text[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    spot_table_text(table, what);
    spot_table_text(table, text);
}

/* Columns that a terminal shows: one for each character. */
static int width_of(const char *text)
{
    int width = 0;
    uint32_t code;

    for (size_t n = strlen(text), length; n; text += length, n -= length, width++)
        length = spot_utf8_char(text, n, &code);
    return width;
}

static void put_padded(FILE *out, const char *text, int width, bool right, bool last)
{
    const int pad = width - width_of(text);

    if (right)
        fprintf(out, "%*s%s", pad, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
}

/* Columns first..end - 1, and column 0 before them. */
static void print_block(const struct spot_table *t, FILE *out, bool md, const int *width,
                        size_t first, size_t end)
{
    const size_t n_row = t->n_cell / t->n_column;

    for (size_t i = 0; i <= n_row; i++) {
        for (size_t j = 0; j < end; j = j || first <= 1 ? j + 1 : first) {
            fputs(md ? "| " : j ? "  " : "", out);
            put_padded(out, i ? t->cell[(i - 1) * t->n_column + j] : t->column[j].name, width[j],
                       t->column[j].is_number, !md && j + 1 == end);
            fputs(md ? " " : "", out);
        }
        fputs(md ? "|\n" : "\n", out);
        for (size_t j = 0; md && !i && j < end; j++)
            fputs(t->column[j].is_number ? "|---:" : "|---", out);
        if (md && !i)
            fputs("|\n", out);
    }
}

static void print_aligned(const struct spot_table *t, FILE *out, bool md)
{
    int *width = spot_xcalloc(t->n_column, sizeof(*width)), all = 0;
    const size_t n_row = t->n_cell / t->n_column;
    size_t first = 0;

    for (size_t j = 0; j < t->n_column; j++) {
        width[j] = width_of(t->column[j].name);
        for (size_t i = 0; i < n_row; i++)
            if (width_of(t->cell[i * t->n_column + j]) > width[j])
                width[j] = width_of(t->cell[i * t->n_column + j]);
        all += width[j] + (j ? 2 : 0);
    }
    for (size_t j = 1; j <= t->n_column; j++) {
        const bool is_end = j == t->n_column;

        if (!is_end && (md || all <= SPOT_TABLE_WIDTH || j != t->break_at))
            continue;
        if (first)
            putc('\n', out);
        print_block(t, out, md, width, first, j);
        first = j;
    }
    free(width);
}

/* A cell may be a name of unknown origin, such as a tensor's: it must not steer the terminal or
 * break a line. */
static void print_plain(const struct spot_table *table, FILE *out, bool md)
{
    struct spot_table plain = *table;

    plain.cell = spot_xcalloc(table->n_cell, sizeof(*plain.cell));
    for (size_t i = 0; i < table->n_cell; i++)
        plain.cell[i] = spot_utf8_shown(table->cell[i]);
    print_aligned(&plain, out, md);
    spot_table_release(&plain);
}

static void print_separated(const struct spot_table *t, FILE *out, char separator)
{
    for (size_t j = 0; j < t->n_column; j++) {
        spot_csv_put(out, t->column[j].name, separator);
        putc(j + 1 < t->n_column ? separator : '\n', out);
    }
    for (size_t k = 0; k < t->n_cell; k++) {
        spot_csv_put(out, t->cell[k], separator);
        putc((k + 1) % t->n_column ? separator : '\n', out);
    }
}

static void print_jsonl(const struct spot_table *t, FILE *out)
{
    for (size_t i = 0; i + t->n_column <= t->n_cell; i += t->n_column) {
        struct spot_jw jw;

        spot_jw_init(&jw, out, false);
        spot_jw_object(&jw, NULL);
        for (size_t j = 0; j < t->n_column; j++) {
            if (t->column[j].is_number)
                spot_jw_raw(&jw, t->column[j].name, *t->cell[i + j] ? t->cell[i + j] : "null");
            else
                spot_jw_str(&jw, t->column[j].name, t->cell[i + j]);
        }
        spot_jw_end(&jw);
        putc('\n', out);
    }
}

void spot_table_print(const struct spot_table *table, FILE *out, enum spot_format format)
{
    assert(table->n_cell % table->n_column == 0);
    switch (format) {
    case SPOT_FORMAT_CSV:
        print_separated(table, out, ',');
        break;
    case SPOT_FORMAT_TSV:
        print_separated(table, out, '\t');
        break;
    case SPOT_FORMAT_JSON:
    case SPOT_FORMAT_JSONL:
        print_jsonl(table, out);
        break;
    default:
        print_plain(table, out, format == SPOT_FORMAT_MD);
    }
}
