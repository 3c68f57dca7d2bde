/* SPDX-License-Identifier: MIT */
/* The header is a Python dictionary in ASCII: numpy.lib.format says which keys it has. */
#include "common/npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { MAGIC_BYTE = 8, HEADER_MAX = 4096, BLOCK = 1 << 13 /* numbers read at once */ };

static const char magic[] = "\x93NUMPY";

struct header {
    char text[HEADER_MAX + 1];
    char kind; /* 'i' or 'u' */
    bool is_big_endian, is_fortran;
    int cell_byte;
    int64_t n_row, n_col;
};

bool spot_npy_begins(FILE *in)
{
    const int c = getc(in);

    if (c != EOF)
        ungetc(c, in);
    return c == (unsigned char)magic[0];
}

static int read_bytes(FILE *in, void *to, size_t n, const char *source, struct spot_err *err)
{
    if (fread(to, 1, n, in) == n)
        return 0;
    if (ferror(in))
        return spot_err_sys(err, "%s", source);
    return spot_err_at(err, source, 0, 0, NULL, "the array ends before its last number");
}

/* The value after 'key': in the dictionary; NULL: no such key. */
static const char *value_of(const struct header *h, const char *key)
{
    char quoted[32];
    const char *at;

    snprintf(quoted, sizeof quoted, "'%s':", key);
    at = strstr(h->text, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

/* "'<i8'" */
static bool parse_type(struct header *h, const char *type)
{
    if (strcspn(type + 1, "'") != 3 || *type != '\'' || !strchr("<>|=", type[1]) ||
        !strchr("iu", type[2]) || !strchr("1248", type[3]))
        return false;
    h->is_big_endian = type[1] == '>';
    h->kind = type[2];
    h->cell_byte = type[3] - '0';
    return true;
}

/* "(2, 3)" */
static bool parse_shape(struct header *h, const char *shape)
{
    char *end;

    if (*shape != '(' || shape[1] < '0' || shape[1] > '9')
        return false;
    errno = 0;
    h->n_row = strtoll(shape + 1, &end, 10);
    if (end[0] != ',' || end[1] != ' ' || end[2] < '0' || end[2] > '9')
        return false;
    h->n_col = strtoll(end + 2, &end, 10);
    return *end == ')' && !errno;
}

static int parse_header(struct header *h, const char *source, struct spot_err *err)
{
    const char *const type = value_of(h, "descr"), *const order = value_of(h, "fortran_order");
    const char *const shape = value_of(h, "shape");

    if (!type || !order || !shape)
        return spot_err_at(err, source, 0, 0, NULL, "the array's header lacks '%s'",
                           !type    ? "descr"
                           : !order ? "fortran_order"
                                    : "shape");
    if (!parse_type(h, type))
        return spot_err_at(err, source, 0, 0, NULL,
                           "expected an array of integers, such as int64, got %.*s",
                           (int)strcspn(type, ","), type);
    h->is_fortran = !strncmp(order, "True", 4);
    if (!parse_shape(h, shape))
        return spot_err_at(err, source, 0, 0, NULL, "expected a matrix, got an array of shape %.*s",
                           (int)strcspn(shape, ")") + 1, shape);
    return 0;
}

static int read_header(struct header *h, FILE *in, const char *source, struct spot_err *err)
{
    unsigned char start[MAGIC_BYTE], length[4] = { 0 };
    size_t n;

    if (read_bytes(in, start, sizeof start, source, err))
        return -1;
    if (memcmp(start, magic, sizeof magic - 1) != 0 || start[6] < 1 || start[6] > 3)
        return spot_err_at(err, source, 0, 0, NULL, "expected an array of NumPy, version 1 to 3");
    if (read_bytes(in, length, start[6] > 1 ? 4 : 2, source, err))
        return -1;
    n = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    if (n > HEADER_MAX)
        return spot_err_at(err, source, 0, 0, NULL,
                           "the array's header has %zu bytes, the limit is %d", n, HEADER_MAX);
    h->text[n] = '\0';
    return read_bytes(in, h->text, n, source, err) || parse_header(h, source, err) ? -1 : 0;
}

/* Reads a cell; the bytes above it are filled with its sign or with zeros. */
static uint64_t cell_of(const struct header *h, const unsigned char *byte)
{
    uint64_t x = 0;

    for (int i = 0; i < h->cell_byte; i++)
        x = x << 8 | byte[h->is_big_endian ? i : h->cell_byte - 1 - i];
    if (h->kind == 'i' && h->cell_byte < 8 && x >> (8 * h->cell_byte - 1))
        x |= UINT64_MAX << (8 * h->cell_byte);
    return x;
}

/* Fills `cell` from the bytes before; false if a number exceeds int64_t, *more. */
static bool convert(const struct header *h, const unsigned char *byte, size_t n, int64_t *cell,
                    uint64_t *more)
{
    for (size_t k = 0; k < n; k++) {
        const uint64_t x = cell_of(h, byte + k * (size_t)h->cell_byte);

        if (h->kind == 'u' && x > INT64_MAX) {
            *more = x;
            return false;
        }
        cell[k] = (int64_t)x;
    }
    return true;
}

static bool is_native(const struct header *h)
{
    const uint16_t one = 1;

    return h->kind == 'i' && h->cell_byte == 8 && h->is_big_endian == !*(const unsigned char *)&one;
}

/* n numbers; byte has room for them as they are in the file. */
static int read_numbers(const struct header *h, size_t n, int64_t *value, unsigned char *byte,
                        FILE *in, const char *source, struct spot_err *err)
{
    uint64_t more;

    if (is_native(h))
        return read_bytes(in, value, n * sizeof *value, source, err);
    if (read_bytes(in, byte, n * (size_t)h->cell_byte, source, err))
        return -1;
    if (convert(h, byte, n, value, &more))
        return 0;
    return spot_err_at(err, source, 0, 0, NULL, "%llu is more than 2^63 - 1",
                       (unsigned long long)more);
}

/* Numbers that come in order: narrow until some are not. */
struct sink {
    struct spot_npy *to;
    size_t n, cap;
};

static void append(struct sink *s, const int64_t *value, size_t n)
{
    struct spot_npy *const to = s->to;

    if (!to->cell) {
        to->narrow.cell = spot_xgrow(to->narrow.cell, &s->cap, s->n + n, 1);
        spot_prefer_huge_pages(to->narrow.cell, s->cap);
        if (!spot_narrow_add(&to->narrow, value, n)) {
            spot_npy_widen(to);
            s->cap = s->n;
        }
    }
    if (to->cell) {
        to->cell = spot_xgrow(to->cell, &s->cap, s->n + n, sizeof *to->cell);
        memcpy(to->cell + s->n, value, n * sizeof *value);
    }
    s->n += n;
}

/* Takes memory as numbers come, not by what the header says. */
static int read_cells(const struct header *h, struct spot_npy *matrix, FILE *in, const char *source,
                      struct spot_err *err)
{
    const size_t n = (size_t)h->n_row * (size_t)h->n_col;
    int64_t *const value = spot_xcalloc(BLOCK, sizeof *value);
    unsigned char *const byte = spot_xcalloc(BLOCK, (size_t)h->cell_byte);
    struct sink sink = { .to = matrix };
    int rc = 0;

    while (sink.n < n && !rc) {
        const size_t n_now = n - sink.n < BLOCK ? n - sink.n : BLOCK;

        rc = read_numbers(h, n_now, value, byte, in, source, err);
        if (!rc)
            append(&sink, value, n_now);
    }
    free(value), free(byte);
    return rc;
}

static void transpose(struct spot_npy *m)
{
    int64_t *const to = spot_xcalloc((size_t)(m->n_row * m->n_col), sizeof *to);

    spot_npy_widen(m);
    for (int64_t i = 0; i < m->n_row; i++)
        for (int64_t j = 0; j < m->n_col; j++)
            to[i * m->n_col + j] = m->cell[j * m->n_row + i];
    free(m->cell);
    m->cell = to;
}

int spot_npy_read(struct spot_npy *matrix, FILE *in, const char *source, int64_t side_max,
                  struct spot_err *err)
{
    struct header h = { 0 };

    *matrix = (struct spot_npy){ 0 };
    if (read_header(&h, in, source, err))
        return -1;
    if (h.n_row > side_max || h.n_col > side_max)
        return spot_err_at(err, source, 0, 0, NULL,
                           "a matrix of %lld x %lld, the limit is %lld in each", (long long)h.n_row,
                           (long long)h.n_col, (long long)side_max);
    matrix->n_row = h.n_row, matrix->n_col = h.n_col;
    if (read_cells(&h, matrix, in, source, err)) {
        spot_npy_release(matrix);
        return -1;
    }
    if (h.is_fortran)
        transpose(matrix);
    return 0;
}

void spot_npy_widen(struct spot_npy *matrix)
{
    const struct spot_narrow *const narrow = &matrix->narrow;

    if (matrix->cell)
        return;
    matrix->cell = spot_xcalloc(narrow->n, sizeof *matrix->cell);
    spot_narrow_widen(narrow, 0, narrow->n, matrix->cell);
    free(matrix->narrow.cell);
    matrix->narrow.cell = NULL;
}

void spot_npy_release(struct spot_npy *matrix)
{
    free(matrix->cell), free(matrix->narrow.cell);
    *matrix = (struct spot_npy){ 0 };
}
