/* SPDX-License-Identifier: MIT */
#include "shard/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/le.h"
#include "common/utf8.h"
#include "common/xalloc.h"

static const struct {
    const char *name;
    unsigned bit; /* of one element */
} dtype_table[SPOT_DTYPES] = {
    [SPOT_DT_BOOL] = { "BOOL", 8 },
    [SPOT_DT_U8] = { "U8", 8 },
    [SPOT_DT_I8] = { "I8", 8 },
    [SPOT_DT_F8_E4M3] = { "F8_E4M3", 8 },
    [SPOT_DT_F8_E5M2] = { "F8_E5M2", 8 },
    [SPOT_DT_U16] = { "U16", 16 },
    [SPOT_DT_I16] = { "I16", 16 },
    [SPOT_DT_F16] = { "F16", 16 },
    [SPOT_DT_BF16] = { "BF16", 16 },
    [SPOT_DT_U32] = { "U32", 32 },
    [SPOT_DT_I32] = { "I32", 32 },
    [SPOT_DT_F32] = { "F32", 32 },
    [SPOT_DT_U64] = { "U64", 64 },
    [SPOT_DT_I64] = { "I64", 64 },
    [SPOT_DT_F64] = { "F64", 64 },
    [SPOT_DT_C64] = { "C64", 64 },
    [SPOT_DT_F8_E8M0] = { "F8_E8M0", 8 },
    [SPOT_DT_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 8 },
    [SPOT_DT_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 8 },
    [SPOT_DT_F6_E2M3] = { "F6_E2M3", 6 },
    [SPOT_DT_F6_E3M2] = { "F6_E3M2", 6 },
    [SPOT_DT_F4] = { "F4", 4 },
};

const char *spot_dtype_name(enum spot_dtype dtype)
{
    return dtype_table[dtype].name;
}

size_t spot_dtype_byte(enum spot_dtype dtype)
{
    return (dtype_table[dtype].bit + 7) / 8;
}

/* Number of bits of all elements; false if it exceeds 64 bits. */
static bool count_bits(const struct spot_st_tensor *t, uint64_t *n_bit)
{
    bool too_big = false;

    *n_bit = dtype_table[t->dtype].bit;
    for (int i = 0; i < t->n_dim; i++)
        too_big |= __builtin_mul_overflow(*n_bit, t->dim[i], n_bit);
    return !too_big;
}

/* A special parser instead of a JSON tree, which for a hostile 100 MB header would take
 * gigabytes. */
struct cursor {
    const char *text, *at, *end, *source;
    char *word; /* [SPOT_ST_NAME_MAX + 1], the last string, unescaped */
    size_t n_word;
    bool is_skipping; /* strings are checked, of any length, and not kept */
    struct spot_err *err;
};

static int fail(struct cursor *c, const char *fmt, ...) SPOT_PRINTF(2, 3);

static int fail(struct cursor *c, const char *fmt, ...)
{
    char what[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return spot_err_set(c->err, SPOT_EDATA, "%s: safetensors header byte %zu: %s", c->source,
                        (size_t)(c->at - c->text), what);
}

static void skip_blank(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static bool take(struct cursor *c, char wanted)
{
    skip_blank(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static int expect(struct cursor *c, char wanted)
{
    return take(c, wanted) ? 0 : fail(c, "expected '%c'", wanted);
}

static int add_bytes(struct cursor *c, const char *text, size_t n)
{
    if (c->is_skipping)
        return 0;
    if (n > SPOT_ST_NAME_MAX - c->n_word)
        return fail(c, "string longer than %d bytes", SPOT_ST_NAME_MAX);
    memcpy(c->word + c->n_word, text, n);
    c->n_word += n;
    return 0;
}

static int add_rune(struct cursor *c, unsigned rune)
{
    char text[SPOT_UTF8_MAX];

    return add_bytes(c, text, spot_utf8_put(rune, text));
}

static int read_hex4(struct cursor *c, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        const char *digits = "0123456789abcdefABCDEF", *d;

        if (c->at == c->end || !*c->at || !(d = strchr(digits, *c->at)))
            return fail(c, "expected four hex digits");
        *value = *value << 4 | (unsigned)(d - digits < 16 ? d - digits : d - digits - 6);
    }
    return 0;
}

static int read_unicode(struct cursor *c)
{
    unsigned rune, low;

    if (read_hex4(c, &rune))
        return -1;
    if (!rune || (rune >= 0xdc00 && rune < 0xe000))
        return fail(c, "\\u%04x is not a character", rune);
    if (rune < 0xd800 || rune >= 0xe000)
        return add_rune(c, rune);
    if (c->end - c->at < 2 || memcmp(c->at, "\\u", 2) != 0)
        return fail(c, "half of a surrogate pair");
    c->at += 2;
    if (read_hex4(c, &low))
        return -1;
    if (low < 0xdc00 || low >= 0xe000)
        return fail(c, "half of a surrogate pair");
    return add_rune(c, 0x10000 + ((rune - 0xd800) << 10) + (low - 0xdc00));
}

static int read_escape(struct cursor *c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;

    if (c->at == c->end || !*c->at)
        return fail(c, "unfinished escape");
    if (*c->at == 'u') {
        c->at++;
        return read_unicode(c);
    }
    found = strchr(from, *c->at);
    if (!found)
        return fail(c, "unknown escape");
    c->at++;
    return add_bytes(c, &to[found - from], 1);
}

/* The next string into c->word, NUL at the end. */
static int read_string(struct cursor *c)
{
    c->n_word = 0;
    if (expect(c, '"'))
        return -1;
    for (;;) {
        if (c->at == c->end)
            return fail(c, "unfinished string");
        if (*c->at == '"') {
            c->at++;
            c->word[c->n_word] = '\0';
            return 0;
        }
        if (*c->at == '\\') {
            c->at++;
            if (read_escape(c))
                return -1;
        } else if ((unsigned char)*c->at < 0x20) {
            return fail(c, "control character in a string");
        } else {
            uint32_t code;
            const size_t n = spot_utf8_char(c->at, (size_t)(c->end - c->at), &code);

            if (code == UINT32_MAX)
                return fail(c, "invalid UTF-8");
            c->at += n;
            if (add_bytes(c, c->at - n, n))
                return -1;
        }
    }
}

static int read_integer(struct cursor *c, uint64_t *value)
{
    const char *first;

    skip_blank(c);
    first = c->at;
    *value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*c->at - '0'), value))
            return fail(c, "number beyond 64 bits");
    if (c->at == first)
        return fail(c, "expected a whole number");
    if (*first == '0' && c->at - first > 1)
        return fail(c, "leading zero");
    return 0;
}

/* Reads an array of at most `max` whole numbers. */
static int read_integers(struct cursor *c, uint64_t *value, int max, int *n)
{
    *n = 0;
    if (expect(c, '['))
        return -1;
    if (take(c, ']'))
        return 0;
    do {
        if (*n == max)
            return fail(c, "more than %d numbers", max);
        if (read_integer(c, &value[(*n)++]))
            return -1;
    } while (take(c, ','));
    return expect(c, ']');
}

static int read_dtype(struct cursor *c, struct spot_st_tensor *t)
{
    if (read_string(c))
        return -1;
    for (int i = 0; i < SPOT_DTYPES; i++)
        if (!strcmp(c->word, dtype_table[i].name)) {
            t->dtype = (enum spot_dtype)i;
            return 0;
        }
    return fail(c, "%.64s: unknown dtype '%.32s'", t->name, c->word);
}

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4 };

static int read_member(struct cursor *c, struct spot_st_tensor *t, unsigned *seen)
{
    uint64_t offset[2];
    unsigned bit;
    int n;

    if (read_string(c) || expect(c, ':'))
        return -1;
    bit = !strcmp(c->word, "dtype")          ? HAS_DTYPE
          : !strcmp(c->word, "shape")        ? HAS_SHAPE
          : !strcmp(c->word, "data_offsets") ? HAS_OFFSETS
                                             : 0;
    if (!bit || *seen & bit)
        return fail(c, "%.64s: %s key '%.32s'", t->name, bit ? "duplicate" : "unknown", c->word);
    *seen |= bit;
    if (bit == HAS_DTYPE)
        return read_dtype(c, t);
    if (bit == HAS_SHAPE)
        return read_integers(c, t->dim, SPOT_ST_DIMS_MAX, &t->n_dim);
    if (read_integers(c, offset, 2, &n))
        return -1;
    if (n != 2 || offset[1] < offset[0])
        return fail(c, "%.64s: expected data_offsets [begin, end]", t->name);
    t->begin = offset[0];
    t->end = offset[1];
    return 0;
}

static int check_size(struct cursor *c, const struct spot_st_tensor *t)
{
    uint64_t n_bit;
    const bool is_counted = count_bits(t, &n_bit);

    if (is_counted && n_bit % 8)
        return fail(c, "%.64s: %" PRIu64 " bits, expected whole bytes", t->name, n_bit);
    if (!is_counted || n_bit / 8 != t->end - t->begin)
        return fail(
            c, "%.64s: data_offsets span %" PRIu64 " bytes, dtype and shape ask for %s%" PRIu64,
            t->name, t->end - t->begin, is_counted ? "" : "more than ",
            (is_counted ? n_bit : UINT64_MAX) / 8);
    return 0;
}

static int read_tensor(struct cursor *c, struct spot_st_tensor *t)
{
    unsigned seen = 0;

    if (expect(c, '{'))
        return -1;
    do {
        if (read_member(c, t, &seen))
            return -1;
    } while (take(c, ','));
    if (expect(c, '}'))
        return -1;
    if (seen != (HAS_DTYPE | HAS_SHAPE | HAS_OFFSETS))
        return fail(c, "%.64s: lacks %s", t->name,
                    !(seen & HAS_DTYPE)   ? "dtype"
                    : !(seen & HAS_SHAPE) ? "shape"
                                          : "data_offsets");
    return check_size(c, t);
}

/* Checks the form of __metadata__, strings or null by name; its content is not used. */
static int read_metadata(struct cursor *c)
{
    int rc;

    skip_blank(c);
    if (c->end - c->at >= 4 && !memcmp(c->at, "null", 4)) {
        c->at += 4;
        return 0;
    }
    rc = expect(c, '{');
    if (rc || take(c, '}'))
        return rc;
    c->is_skipping = true; /* a value may be very long */
    do
        rc = read_string(c) || expect(c, ':') || read_string(c) ? -1 : 0;
    while (!rc && take(c, ','));
    c->is_skipping = false;
    return rc ? rc : expect(c, '}');
}

static int by_place(const void *a, const void *b)
{
    const struct spot_st_tensor *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const struct spot_st_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static int check_names(struct cursor *c, const struct spot_st *st)
{
    const struct spot_st_tensor **sorted = spot_xcalloc(st->n_tensor, sizeof(const void *));
    int rc = 0;

    for (size_t i = 0; i < st->n_tensor; i++)
        sorted[i] = &st->tensor[i];
    qsort(sorted, st->n_tensor, sizeof(const void *), by_name);
    for (size_t i = 1; i < st->n_tensor && !rc; i++)
        if (!strcmp(sorted[i - 1]->name, sorted[i]->name))
            rc = fail(c, "duplicate tensor '%.64s'", sorted[i]->name);
    free(sorted);
    return rc;
}

/* Checks for gaps and overlaps: sorted by offset, each tensor starts where the one before ends. */
static int check_cover(struct cursor *c, struct spot_st *st)
{
    if (st->n_tensor)
        qsort(st->tensor, st->n_tensor, sizeof(*st->tensor), by_place);
    for (size_t i = 0; i < st->n_tensor; i++) {
        if (st->tensor[i].begin != st->data_byte)
            return fail(c, "%.64s: begins at %" PRIu64 ", the tensor before ends at %" PRIu64,
                        st->tensor[i].name, st->tensor[i].begin, st->data_byte);
        st->data_byte = st->tensor[i].end;
    }
    return 0;
}

static int read_entries(struct cursor *c, struct spot_st *st)
{
    size_t cap = 0;
    bool has_metadata = false;

    if (c->at == c->end || *c->at != '{')
        return fail(c, "expected '{'");
    c->at++;
    if (take(c, '}'))
        return 0;
    do {
        if (read_string(c) || expect(c, ':'))
            return -1;
        if (!strcmp(c->word, "__metadata__")) {
            if (has_metadata)
                return fail(c, "duplicate key '__metadata__'");
            has_metadata = true;
            if (read_metadata(c))
                return -1;
            continue;
        }
        if (st->n_tensor == SPOT_ST_TENSORS_MAX)
            return fail(c, "more than %d tensors", SPOT_ST_TENSORS_MAX);
        st->tensor = spot_xgrow(st->tensor, &cap, st->n_tensor + 1, sizeof(*st->tensor));
        memset(&st->tensor[st->n_tensor], 0, sizeof(*st->tensor));
        st->tensor[st->n_tensor].name = spot_xstrdup(c->word);
        st->n_tensor++;
        if (read_tensor(c, &st->tensor[st->n_tensor - 1]))
            return -1;
    } while (take(c, ','));
    return expect(c, '}');
}

int spot_st_prefix(const void *prefix, const char *source, uint64_t *n_byte, struct spot_err *err)
{
    *n_byte = spot_le_get(prefix, SPOT_ST_PREFIX_BYTE);
    if (*n_byte < 2 || *n_byte > SPOT_ST_HEADER_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "%s: not a safetensors file, which begins with the length of its "
                            "header, 2 to %d",
                            source, SPOT_ST_HEADER_MAX);
    return 0;
}

int spot_st_parse(struct spot_st *st, const char *text, size_t n_byte, const char *source,
                  struct spot_err *err)
{
    struct cursor c = { .text = text, .at = text, .end = text + n_byte, .source = source };
    int rc;

    c.err = err;
    c.word = spot_xcalloc(SPOT_ST_NAME_MAX + 1, 1);
    memset(st, 0, sizeof(*st));
    rc = read_entries(&c, st);
    if (!rc) {
        skip_blank(&c);
        if (c.at != c.end)
            rc = fail(&c, "text after the end of the header");
    }
    if (!rc)
        rc = check_names(&c, st) || check_cover(&c, st) ? -1 : 0;
    free(c.word);
    if (rc)
        spot_st_release(st);
    return rc;
}

void spot_st_release(struct spot_st *st)
{
    for (size_t i = 0; i < st->n_tensor; i++)
        free(st->tensor[i].name);
    free(st->tensor);
    memset(st, 0, sizeof(*st));
}

ptrdiff_t spot_st_find(const struct spot_st *st, const char *name)
{
    for (size_t i = 0; i < st->n_tensor; i++)
        if (!strcmp(st->tensor[i].name, name))
            return (ptrdiff_t)i;
    return -1;
}

static void add_text(struct spot_buf *out, const char *text)
{
    spot_buf_add(out, text, strlen(text));
}

static void add_name(struct spot_buf *out, const char *name)
{
    char escape[8];

    add_text(out, "\"");
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            snprintf(escape, sizeof(escape), "\\%c", *name);
        else if ((unsigned char)*name < 0x20)
            snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)*name);
        else
            snprintf(escape, sizeof(escape), "%c", *name);
        add_text(out, escape);
    }
    add_text(out, "\"");
}

static void add_notes(struct spot_buf *out, const struct spot_st_note *note, size_t n_note)
{
    add_text(out, "\"__metadata__\":{");
    for (size_t i = 0; i < n_note; i++) {
        add_text(out, i ? "," : "");
        add_name(out, note[i].key);
        add_text(out, ":");
        add_name(out, note[i].text);
    }
    add_text(out, "}");
}

uint64_t spot_st_write(const struct spot_st_tensor *tensor, size_t n_tensor, struct spot_buf *out)
{
    return spot_st_write_noted(NULL, 0, tensor, n_tensor, out);
}

uint64_t spot_st_write_noted(const struct spot_st_note *note, size_t n_note,
                             const struct spot_st_tensor *tensor, size_t n_tensor,
                             struct spot_buf *out)
{
    static const char zero[SPOT_ST_PREFIX_BYTE] = { 0 };
    const size_t start = out->n;
    uint64_t at = 0;
    char text[128];

    spot_buf_add(out, zero, sizeof(zero));
    add_text(out, "{");
    if (n_note)
        add_notes(out, note, n_note);
    for (size_t i = 0; i < n_tensor; i++) {
        uint64_t n_bit;

        count_bits(&tensor[i], &n_bit);
        add_text(out, i || n_note ? "," : "");
        add_name(out, tensor[i].name);
        snprintf(text, sizeof(text), ":{\"dtype\":\"%s\",\"shape\":[",
                 spot_dtype_name(tensor[i].dtype));
        add_text(out, text);
        for (int d = 0; d < tensor[i].n_dim; d++) {
            snprintf(text, sizeof(text), "%s%" PRIu64, d ? "," : "", tensor[i].dim[d]);
            add_text(out, text);
        }
        snprintf(text, sizeof(text), "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                 at + n_bit / 8);
        add_text(out, text);
        at += n_bit / 8;
    }
    add_text(out, "}");
    while ((out->n - start) % 8)
        add_text(out, " ");
    spot_le_put(out->data + start, out->n - start - SPOT_ST_PREFIX_BYTE, SPOT_ST_PREFIX_BYTE);
    return at;
}
