/* SPDX-License-Identifier: MIT */
#include "common/csv_reader.h"

#include <assert.h>
#include <csv.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/edit_distance.h"
#include "common/hash.h"
#include "common/num.h"
#include "common/unpack.h"
#include "common/utf8.h"
#include "common/xalloc.h"

enum { BUFFER_BYTE = 2 * SPOT_CSV_LINE_MAX };
enum { ABSENT = SPOT_CSV_COLUMNS_MAX }; /* column_of for a missing optional column */

struct reader {
    const char *source;
    const char *const *want;
    size_t n_want;
    spot_csv_row_fn *on_row;
    void *user;
    struct spot_bad_rows *bad; /* NULL: refuse the first */
    struct spot_err *err;

    char *buffer; /* [BUFFER_BYTE], holds [begin, end) */
    size_t begin, end;
    bool at_end;
    struct spot_hash_stream *hash;

    char *kept, *again; /* for logs: lines of the open record; lines to be read again */
    size_t n_kept, kept_cap, n_again, again_at;

    const char *raw; /* the physical line being fed, in buffer or in again */
    size_t raw_len;
    unsigned long line;        /* its number */
    unsigned long record_line; /* line the current record began on */
    bool failed, have_header, in_record;
    bool is_open, is_continued; /* a record is incomplete; it began on an earlier line */
    bool is_long;               /* the line exceeds the limit, and raw is the end of it */

    char *text; /* NUL-separated fields of the record */
    size_t text_len, text_cap;
    size_t offset[SPOT_CSV_COLUMNS_MAX]; /* of field i in text */
    size_t n_field, n_header;
    size_t n_before;                        /* fields of the record that ended on earlier lines */
    size_t column_of[SPOT_CSV_COLUMNS_MAX]; /* wanted k -> file column */
    const char *picked[SPOT_CSV_COLUMNS_MAX];
};

/* Byte column where file column `index` of the record starts in the raw line; 1 for one that began
 * on a line before. Only runs on the error path, so the hot path carries no offsets. */
static size_t column_start(const struct reader *r, size_t index)
{
    bool quoted = r->is_continued;
    size_t i;

    if (index < r->n_before)
        return 1;
    index -= r->n_before;
    for (i = 0; i < r->raw_len && index; i++) {
        if (r->raw[i] == '"')
            quoted = !quoted;
        else if (r->raw[i] == ',' && !quoted)
            index--;
    }
    return i + 1;
}

static void fail(struct reader *r, size_t column, const char *what, const char *detail)
{
    spot_err_at(r->err, r->source, r->line, column, NULL, "%s%s", what, detail);
    r->failed = spot_err_kind(r->err, "syntax", true);
}

static void on_field(void *data, size_t len, void *user)
{
    struct reader *r = user;

    if (r->failed)
        return;
    if (!r->in_record) {
        r->in_record = true;
        r->n_field = r->text_len = 0;
    }
    if (r->n_field == SPOT_CSV_COLUMNS_MAX) {
        fail(r, column_start(r, r->n_field), "too many columns", "");
        return;
    }
    if (memchr(data, '\0', len)) {
        fail(r, column_start(r, r->n_field), "NUL byte in field", "");
        return;
    }
    if (r->text_len + len + 1 > r->text_cap) {
        r->text = spot_xgrow(r->text, &r->text_cap, r->text_len + len + 1, 1);
    }
    if (len)
        memcpy(r->text + r->text_len, data, len);
    r->text[r->text_len + len] = '\0';
    r->offset[r->n_field++] = r->text_len;
    r->text_len += len + 1;
}

/* The file column of a header name, n_field if missing; -1 if repeated. */
static int find_column(const struct reader *r, const char *name, size_t *column)
{
    *column = r->n_field;
    for (size_t i = 0; i < r->n_field; i++)
        if (!strcmp(r->text + r->offset[i], name)) {
            if (*column != r->n_field) {
                *column = i;
                return -1;
            }
            *column = i;
        }
    return 0;
}

static bool is_wanted(const struct reader *r, const char *column)
{
    for (size_t k = 0; k < r->n_want; k++)
        if (!strcmp(r->want[k] + (r->want[k][0] == '?'), column))
            return true;
    return false;
}

/* The most similar name of a column that is not read, at most `most` letters away; NULL: none. */
static const char *nearest_column(const struct reader *r, const char *name, size_t most)
{
    const char *best = NULL;
    size_t least = most < 2 ? most + 1 : 3;

    for (size_t i = 0; i < r->n_field; i++) {
        const char *const column = r->text + r->offset[i];
        const size_t d = spot_edit_distance(column, name);

        if (d < least && !is_wanted(r, column)) {
            least = d;
            best = column;
        }
    }
    return best;
}

static void (*report_doubt)(const char *sentence);

void spot_csv_doubts(void (*report)(const char *sentence))
{
    report_doubt = report;
}

/* Optional columns that the file seems to have under another name. */
static void doubt(const struct reader *r)
{
    for (size_t k = 0; report_doubt && k < r->n_want; k++) {
        const char *const name = r->want[k] + 1, *near;
        char sentence[256];

        if (r->column_of[k] != ABSENT || !(near = nearest_column(r, name, strlen(name) / 3)))
            continue;
        snprintf(sentence, sizeof(sentence),
                 "%.80s:%lu: the column '%.60s' is not read; did you mean '%.60s'?", r->source,
                 r->line, near, name);
        report_doubt(sentence);
    }
}

/* Reports a missing column, with a hint if the file uses another separator. */
static void fail_lacks(struct reader *r, const char *name)
{
    static const char other[] = ";\t|";
    const char *header = r->n_field == 1 ? r->text + r->offset[0] : "";
    const char *near;
    char detail[160];

    snprintf(detail, sizeof(detail), "%.80s", name);
    for (const char *c = other; *c; c++)
        if (strchr(header, *c) && strstr(header, name)) {
            snprintf(detail, sizeof(detail),
                     "%.80s; are the columns separated by %s? they must be by commas", name,
                     *c == '\t'  ? "tabs"
                     : *c == ';' ? "';'"
                                 : "'|'");
            break;
        }
    near = nearest_column(r, name, strlen(name) / 2);
    if (near && r->n_field > 1)
        snprintf(detail, sizeof(detail), "%.60s; did you mean '%.60s'?", name, near);
    fail(r, 1, "header lacks the column ", detail);
}

static void take_header(struct reader *r)
{
    for (size_t k = 0; k < r->n_want; k++) {
        const bool optional = r->want[k][0] == '?';
        const char *name = r->want[k] + optional;

        if (find_column(r, name, &r->column_of[k])) {
            fail(r, column_start(r, r->column_of[k]), "header repeats the column ", name);
            return;
        }
        if (r->column_of[k] == r->n_field) {
            if (!optional) {
                fail_lacks(r, name);
                return;
            }
            r->column_of[k] = ABSENT;
        }
    }
    doubt(r);
    r->have_header = true;
    r->n_header = r->n_field;
}

static void take_row(struct reader *r)
{
    struct spot_csv_row row = {
        .source = r->source, .line = r->record_line, .field = r->picked, .impl = r
    };

    if (r->n_field != r->n_header) {
        char detail[64];

        snprintf(detail, sizeof(detail), "expected %zu fields, got %zu", r->n_header, r->n_field);
        fail(r, 1, detail, "");
        return;
    }
    for (size_t k = 0; k < r->n_want; k++)
        r->picked[k] = r->column_of[k] == ABSENT ? NULL : r->text + r->offset[r->column_of[k]];
    if (r->on_row(&row, r->user, r->err))
        r->failed = true;
}

/* At the end of a record: decide whether to continue after a failure. */
static void settle(struct reader *r)
{
    if (r->failed && r->n_kept)
        return; /* an open quote may have swallowed the lines after the first */
    if (r->bad && r->have_header && !spot_bad_rows_take(r->bad, r->failed ? -1 : 0, r->err))
        r->failed = false;
}

static void on_record(int terminator, void *user)
{
    struct reader *r = user;

    (void)terminator;
    r->is_open = false;
    if (!r->in_record)
        return;
    r->in_record = false;
    if (!r->have_header) {
        if (!r->failed)
            take_header(r);
        return;
    }
    if (!r->failed)
        take_row(r);
    settle(r);
}

/* Byte offset of the first fault in a line, or its length. */
static size_t utf8_fault(const char *line, size_t len)
{
    size_t i = 0;

    while (i < len) {
        uint32_t code;
        const size_t n = spot_utf8_char(line + i, len - i, &code);

        if (code == UINT32_MAX)
            break;
        i += n;
    }
    return i;
}

static int fail_long(struct reader *r)
{
    return spot_err_kind(r->err, "limit",
                         spot_err_at(r->err, r->source, r->line + 1, 0, NULL,
                                     "line longer than %d bytes", SPOT_CSV_LINE_MAX));
}

/* Bring the next physical line, newline included, to r->raw and r->raw_len.
 * Returns 1, 0 at the end, -1 with *err. */
static int next_line(struct reader *r, FILE *in)
{
    size_t searched = 0;

    r->is_long = false;
    if (r->again_at < r->n_again) {
        const char *newline = memchr(r->again + r->again_at, '\n', r->n_again - r->again_at);

        r->raw = r->again + r->again_at;
        r->raw_len = newline ? (size_t)(newline - r->raw) + 1 : r->n_again - r->again_at;
        r->again_at += r->raw_len;
        return 1;
    }
    for (;;) {
        char *start = r->buffer + r->begin;
        const char *newline = memchr(start + searched, '\n', r->end - r->begin - searched);

        if (newline || (r->at_end && r->end > r->begin)) {
            r->raw = start;
            r->raw_len = newline ? (size_t)(newline - start) + 1 : r->end - r->begin;
            r->begin += r->raw_len;
            return 1;
        }
        if (r->at_end)
            return r->is_long; /* a long line ended without a newline */
        searched = r->end - r->begin;
        if (searched > SPOT_CSV_LINE_MAX) {
            if (!r->bad || !r->have_header)
                return fail_long(r);
            r->is_long = true;
            searched = 0; /* drop the part read so far */
        }
        memmove(r->buffer, start, searched);
        r->begin = 0;
        r->end = searched + fread(r->buffer + searched, 1, BUFFER_BYTE - searched, in);
        if (ferror(in))
            return spot_err_sys(r->err, "cannot read %s", r->source);
        r->at_end = r->end == searched;
        if (r->hash)
            spot_hash_stream_add(r->hash, r->buffer + searched, r->end - searched);
    }
}

/* Splits a complete record of ASCII without spaces and quotes, as most are, without libcsv. False:
 * it needs libcsv, and nothing was consumed. */
static bool take_plain(struct reader *r)
{
    size_t n_field = 1;
    char *text;

    if (r->is_open || r->in_record || r->raw_len < 2 || r->raw[r->raw_len - 1] != '\n')
        return false;
    r->text = spot_xgrow(r->text, &r->text_cap, r->raw_len, 1);
    text = r->text;
    r->offset[0] = 0;
    for (size_t i = 0; i + 1 < r->raw_len; i++) {
        const unsigned char c = (unsigned char)r->raw[i];

        text[i] = (char)c;
        if (c <= ' ' || c == '"' || c >= 0x7f)
            return false;
        if (c != ',')
            continue;
        if (n_field == SPOT_CSV_COLUMNS_MAX)
            return false;
        text[i] = '\0';
        r->offset[n_field++] = i + 1;
    }
    text[r->raw_len - 1] = '\0';
    r->text_len = r->raw_len;
    r->n_field = n_field;
    r->n_before = 0;
    r->is_continued = false;
    r->in_record = true;
    r->record_line = ++r->line;
    on_record('\n', r);
    return true;
}

static bool is_blank(const struct reader *r)
{
    size_t n = 0;

    while (n < r->raw_len && strchr(" \t\r\n", r->raw[n]) && r->raw[n])
        n++;
    return n == r->raw_len;
}

/* Feed one line to libcsv. Returns 0, or -1 with *err. */
static int parse_line(struct reader *r, struct csv_parser *parser)
{
    size_t used, fault;

    if (r->have_header && take_plain(r))
        return r->failed ? -1 : 0;
    r->n_before = r->in_record ? r->n_field : 0;
    r->is_continued = r->is_open;
    r->is_open = r->is_continued || !is_blank(r);
    if (!r->is_continued)
        r->record_line = r->line + 1;
    r->line++;
    if (!r->is_open)
        return 0;
    if (r->line == 1 && r->raw_len >= 3 && !memcmp(r->raw, "\xEF\xBB\xBF", 3)) {
        r->raw += 3; /* a UTF-8 byte order mark is not data */
        r->raw_len -= 3;
    }
    fault = utf8_fault(r->raw, r->raw_len);
    if (fault < r->raw_len) {
        fail(r, fault + 1, "not valid UTF-8", "");
        return -1;
    }
    if (!r->have_header && !r->is_continued && r->raw_len && (*r->raw == '{' || *r->raw == '[')) {
        fail(r, 1, "expected a CSV header, this is JSON", "");
        return -1;
    }
    used = csv_parse(parser, r->raw, r->raw_len, on_field, on_record, r);
    if (!r->failed && used != r->raw_len)
        fail(r, used + 1, "stray quote", "");
    return r->failed ? -1 : 0;
}

static int open_parser(const struct reader *r, struct csv_parser *parser)
{
    return csv_init(parser, CSV_STRICT | CSV_STRICT_FINI)
               ? spot_err_set(r->err, SPOT_ESYS, "%s: cannot start the CSV parser", r->source)
               : 0;
}

/* Queues lines [at, n_kept) of the failed record to be read again, before lines already queued.
 */
static void read_again(struct reader *r, size_t at)
{
    const size_t n = r->n_kept - at, rest = r->n_again - r->again_at;
    char *again = spot_xcalloc(n + rest + 1, 1);

    memcpy(again, r->kept + at, n);
    if (rest)
        memcpy(again + n, r->again + r->again_at, rest);
    free(r->again);
    r->again = again;
    r->n_again = n + rest;
    r->again_at = r->n_kept = 0;
    r->line = r->record_line;
}

static void keep_line(struct reader *r)
{
    r->kept = spot_xgrow(r->kept, &r->kept_cap, r->n_kept + r->raw_len, 1);
    memcpy(r->kept + r->n_kept, r->raw, r->raw_len);
    r->n_kept += r->raw_len;
}

/* Continues after a record that failed: its first line is skipped, the others are read again, with
 * a new parser. Returns 0 to continue. */
static int recover(struct reader *r, struct csv_parser *parser)
{
    if (!r->bad || !r->have_header || spot_bad_rows_take(r->bad, -1, r->err))
        return -1;
    if (r->n_kept) {
        const char *end = memchr(r->kept, '\n', r->n_kept);

        if (r->bad->n == 1)
            spot_err_kind(&r->bad->first, "syntax",
                          spot_err_at(&r->bad->first, r->source, r->record_line, 1, NULL,
                                      "quoted field is never closed"));
        read_again(r, end ? (size_t)(end - r->kept) + 1 : r->n_kept);
    }
    r->failed = r->in_record = r->is_open = false;
    csv_free(parser);
    return open_parser(r, parser);
}

static int feed_line(struct reader *r, struct csv_parser *parser)
{
    if (r->is_long) {
        fail_long(r);
        r->line++;
        return recover(r, parser);
    }
    if (!r->is_open)
        r->n_kept = 0;
    if (!parse_line(r, parser)) {
        if (r->bad && r->is_open)
            keep_line(r);
        return 0;
    }
    if (r->n_kept)
        keep_line(r);
    return recover(r, parser);
}

/* At the end of the file. Returns 1 if there are lines to be read again, 0 if not, or -1 with
 * *err. */
static int finish(struct reader *r, struct csv_parser *parser)
{
    if (csv_fini(parser, on_field, on_record, r)) {
        r->line = r->record_line;
        fail(r, 1, "quoted field is never closed", "");
        return recover(r, parser) ? -1 : 1;
    }
    return r->failed ? -1 : 0;
}

static int read_all(struct reader *r, FILE *in, struct csv_parser *parser)
{
    int more, rc;

    do {
        while ((more = next_line(r, in)) > 0)
            if (feed_line(r, parser))
                return -1;
        rc = more ? -1 : finish(r, parser);
    } while (rc > 0);
    if (rc)
        return -1;
    if (!r->have_header || !r->line)
        return spot_err_kind(r->err, "missing",
                             spot_err_at(r->err, r->source, 0, 0, NULL, "empty input, expected %s",
                                         r->have_header ? "rows" : "a CSV header"));
    return r->bad ? spot_bad_rows_end(r->bad, r->line, r->source, r->err) : 0;
}

static int read_with(struct reader *r, FILE *in, uint64_t *xxh3)
{
    struct spot_unpack unpack;
    struct csv_parser parser;
    int rc;

    assert(r->n_want <= SPOT_CSV_COLUMNS_MAX);
    if (open_parser(r, &parser))
        return -1;
    if (spot_unpack_open(&unpack, in, r->source, r->err)) {
        csv_free(&parser);
        return -1;
    }
    r->buffer = spot_xcalloc(BUFFER_BYTE, 1);
    r->raw = r->buffer;
    r->hash = xxh3 ? spot_hash_stream_new() : NULL;
    rc = spot_unpack_close(&unpack, read_all(r, unpack.in, &parser), r->err);
    if (xxh3)
        *xxh3 = spot_hash_stream_64(r->hash);
    spot_hash_stream_free(r->hash);
    csv_free(&parser);
    free(r->text);
    free(r->kept);
    free(r->again);
    free(r->buffer);
    return rc;
}

int spot_csv_read(FILE *in, const char *source, const char *const *want, size_t n_want,
                  spot_csv_row_fn *on_row, void *user, uint64_t *xxh3, struct spot_err *err)
{
    struct reader r = {
        .source = source, .want = want, .n_want = n_want, .on_row = on_row, .user = user, .err = err
    };

    return read_with(&r, in, xxh3);
}

static void take_bare(struct reader *r)
{
    r->have_header = true;
    r->n_header = r->n_want;
    for (size_t k = 0; k < r->n_want; k++)
        r->column_of[k] = k;
}

int spot_csv_read_log(FILE *in, const char *source, const char *const *want, size_t n_want,
                      bool is_bare, spot_csv_row_fn *on_row, void *user, struct spot_bad_rows *bad,
                      struct spot_err *err)
{
    struct reader r = { .source = source,
                        .want = want,
                        .n_want = n_want,
                        .on_row = on_row,
                        .user = user,
                        .bad = bad,
                        .err = err };

    if (is_bare)
        take_bare(&r);
    return read_with(&r, in, NULL);
}

int spot_csv_fail(const struct spot_csv_row *row, size_t k, struct spot_err *err, const char *fmt,
                  ...)
{
    const struct reader *r = row->impl;
    char detail[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    return spot_err_at(err, row->source, r->column_of[k] < r->n_before ? row->line : r->line,
                       column_start(r, r->column_of[k]), NULL, "%s: %s",
                       r->want[k] + (r->want[k][0] == '?'), detail);
}

/* Parses up to 15 digits, exactly; most cells of a trace are such numbers. */
static bool parse_small(const char *text, double *out)
{
    int64_t x = 0;
    size_t n = 0;

    for (; text[n] >= '0' && text[n] <= '9' && n < 16; n++)
        x = 10 * x + (text[n] - '0');
    *out = (double)x;
    return n && n < 16 && !text[n];
}

static int outside(const struct spot_csv_row *row, size_t k, double min, double max,
                   struct spot_err *err)
{
    char low[SPOT_NUM_TEXT], high[SPOT_NUM_TEXT];

    return spot_csv_fail(row, k, err, "%.40s is outside [%s, %s]", row->field[k],
                         spot_num_format(min, low), spot_num_format(max, high));
}

int spot_csv_real(const struct spot_csv_row *row, size_t k, double min, double max, double *out,
                  struct spot_err *err)
{
    const char *text = row->field[k];

    if (!parse_small(text, out) && spot_num_parse(text, out))
        return spot_csv_fail(row, k, err, "expected a number, got '%.40s'", text);
    return *out < min || *out > max ? outside(row, k, min, max, err) : 0;
}

int spot_csv_int(const struct spot_csv_row *row, size_t k, int64_t min, int64_t max, int64_t *out,
                 struct spot_err *err)
{
    double x;

    if (spot_csv_real(row, k, -HUGE_VAL, HUGE_VAL, &x, err))
        return -1;
    if (x != rint(x))
        return spot_csv_fail(row, k, err, "expected a whole number, got '%.40s'", row->field[k]);
    if (x < (double)min || x > (double)max)
        return outside(row, k, (double)min, (double)max, err);
    *out = (int64_t)x;
    return 0;
}
