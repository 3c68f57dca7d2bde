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

void spot_table_column(struct spot_table *table, const char *name, bool is_number)
{
    const size_t n = table->n_column++;

    table->name = spot_xgrow(table->name, &table->cap_name, n + 1, sizeof(*table->name));
    table->is_number =
        spot_xgrow(table->is_number, &table->cap_number, n + 1, sizeof(*table->is_number));
    table->name[n] = spot_xstrdup(name);
    table->is_number[n] = is_number;
}

void spot_table_init(struct spot_table *table, const char *columns)
{
    char *copy = spot_xstrdup(columns), *name = copy, *end;

    memset(table, 0, sizeof(*table));
    do {
        const size_t n = strcspn(name, ",");
        const bool is_number = n && name[n - 1] == '#';

        end = name[n] ? name + n + 1 : NULL;
        name[n - is_number] = '\0';
        spot_table_column(table, name, is_number);
        name = end;
    } while (name);
    free(copy);
}

void spot_table_release(struct spot_table *table)
{
    for (size_t i = 0; i < table->n_cell; i++)
        free(table->cell[i]);
    for (size_t j = 0; j < table->n_column; j++)
        free(table->name[j]);
    free(table->cell);
    free(table->name);
    free(table->is_number);
    memset(table, 0, sizeof(*table));
}

static void put_text(struct spot_table *table, const char *text)
{
    table->cell = spot_xgrow(table->cell, &table->cap, table->n_cell + 1, sizeof(*table->cell));
    table->cell[table->n_cell++] = spot_xstrdup(text);
}

/* Formats a number by a conversion of spot_table_add. */
static void put_real(struct spot_table *table, char conversion, int digits, double x)
{
    const bool is_read = table->format == SPOT_FORMAT_TABLE || table->format == SPOT_FORMAT_MD;
    char text[64] = "";

    if (conversion == 'G' || (conversion == 'g' && digits >= 0 && !is_read))
        x = round(x * 1e6) / 1e6;
    if (isfinite(x) && (conversion == 'f' || (digits >= 0 && is_read)))
        snprintf(text, sizeof(text), "%.*f", digits, x);
    else if (isfinite(x))
        spot_num_format(x, text);
    put_text(table, text);
}

static void put_int(struct spot_table *table, long long value)
{
    char text[SPOT_NUM_TEXT];

    snprintf(text, sizeof(text), "%lld", value);
    put_text(table, text);
}

void spot_table_add(struct spot_table *table, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    for (const char *at = fmt; (at = strchr(at, '%')); at++) {
        int digits = -1;

        at++;
        if (*at == '.' && at[1] == '*') {
            digits = va_arg(ap, int);
            at += 2;
        } else if (*at == '.') {
            char *end;

            digits = (int)strtol(at + 1, &end, 10);
            at = end;
        }
        if (*at == 's')
            put_text(table, va_arg(ap, const char *));
        else if (*at == 'd')
            put_int(table, va_arg(ap, int));
        else if (*at == 'l')
            put_int(table, va_arg(ap, long long));
        else if (*at == 'z')
            put_int(table, (long long)va_arg(ap, size_t));
        else
            put_real(table, *at, digits, va_arg(ap, double));
    }
    va_end(ap);
}

void spot_table_row(struct spot_table *table, const char *what, const char *fmt, ...)
{
    char text[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    put_text(table, what);
    put_text(table, text);
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

/* Prints column 0, then columns first..end - 1. */
static void print_block(const struct spot_table *t, FILE *out, bool md, const int *width,
                        size_t first, size_t end)
{
    const size_t n_row = t->n_cell / t->n_column;

    for (size_t i = 0; i <= n_row; i++) {
        for (size_t j = 0; j < end; j = j || first <= 1 ? j + 1 : first) {
            fputs(md ? "| " : j ? "  " : "", out);
            put_padded(out, i ? t->cell[(i - 1) * t->n_column + j] : t->name[j], width[j],
                       t->is_number[j], !md && j + 1 == end);
            fputs(md ? " " : "", out);
        }
        fputs(md ? "|\n" : "\n", out);
        for (size_t j = 0; md && !i && j < end; j++)
            fputs(t->is_number[j] ? "|---:" : "|---", out);
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
        width[j] = width_of(t->name[j]);
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
    for (size_t i = 0; i < plain.n_cell; i++)
        free(plain.cell[i]);
    free(plain.cell);
}

static void print_separated(const struct spot_table *t, FILE *out, char separator)
{
    for (size_t j = 0; j < t->n_column; j++) {
        spot_csv_put(out, t->name[j], separator);
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
            if (t->is_number[j])
                spot_jw_raw(&jw, t->name[j], *t->cell[i + j] ? t->cell[i + j] : "null");
            else
                spot_jw_str(&jw, t->name[j], t->cell[i + j]);
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
