/* SPDX-License-Identifier: MIT */
/* The header is a Python dictionary in ASCII: numpy.lib.format says which keys it has. */
#include "common/npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { MAGIC_BYTE = 8, HEADER_MAX = 4096 };

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

/* Reads line by line, so that a false size in the header takes no memory. */
static int read_cells(const struct header *h, int64_t **cell, FILE *in, const char *source,
                      struct spot_err *err)
{
    const size_t n_line = (size_t)(h->is_fortran ? h->n_col : h->n_row);
    const size_t n = (size_t)(h->is_fortran ? h->n_row : h->n_col);
    unsigned char *const byte = spot_xcalloc(n, (size_t)h->cell_byte);
    size_t cap = 0;
    int rc = 0;

    for (size_t i = 0; i < n_line && n && !rc; i++) {
        rc = read_bytes(in, byte, n * (size_t)h->cell_byte, source, err);
        *cell = spot_xgrow(*cell, &cap, (i + 1) * n, sizeof **cell);
        for (size_t j = 0; j < n && !rc; j++) {
            const uint64_t x = cell_of(h, byte + j * (size_t)h->cell_byte);

            if (h->kind == 'u' && x > INT64_MAX)
                rc = spot_err_at(err, source, 0, 0, NULL, "%llu is more than 2^63 - 1",
                                 (unsigned long long)x);
            (*cell)[i * n + j] = (int64_t)x;
        }
    }
    free(byte);
    return rc;
}

static int64_t *transposed(int64_t *cell, int64_t n_row, int64_t n_col)
{
    int64_t *const to = spot_xcalloc((size_t)(n_row * n_col), sizeof *to);

    for (int64_t i = 0; i < n_row; i++)
        for (int64_t j = 0; j < n_col; j++)
            to[i * n_col + j] = cell[j * n_row + i];
    free(cell);
    return to;
}

int spot_npy_read(struct spot_npy *matrix, FILE *in, const char *source, int64_t side_max,
                  struct spot_err *err)
{
    struct header h = { 0 };
    int64_t *cell = NULL;

    if (read_header(&h, in, source, err))
        return -1;
    if (h.n_row > side_max || h.n_col > side_max)
        return spot_err_at(err, source, 0, 0, NULL,
                           "a matrix of %lld x %lld, the limit is %lld in each", (long long)h.n_row,
                           (long long)h.n_col, (long long)side_max);
    if (read_cells(&h, &cell, in, source, err)) {
        free(cell);
        return -1;
    }
    if (cell && h.is_fortran)
        cell = transposed(cell, h.n_row, h.n_col);
    *matrix = (struct spot_npy){ h.n_row, h.n_col, cell };
    return 0;
}
