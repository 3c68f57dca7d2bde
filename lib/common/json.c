/* SPDX-License-Identifier: MIT */
#include "common/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/num.h"
#include "common/unpack.h"
#include "common/xalloc.h"

/* --- finding a JSON pointer --- */

/* The value at the pointer, or at the longest prefix of it that exists. */
static const struct spot_json_value *find_pointer(const struct spot_json_doc *doc,
                                                  const char *pointer)
{
    const struct spot_json_value *at = doc->root;

    while (*pointer == '/') {
        const size_t len = strcspn(pointer + 1, "/");
        const struct spot_json_value *const next =
            spot_json_is_array(at) ? spot_json_entry(at, strtoul(pointer + 1, NULL, 10))
                                   : spot_json_find(at, pointer + 1, len);

        if (!next)
            break;
        at = next;
        pointer += len + 1;
    }
    return at;
}

/* Reports an error at a byte of the text. */
static int fail_at(const struct spot_json_doc *doc, size_t at, const char *pointer,
                   struct spot_err *err, const char *what)
{
    unsigned long line = 1 + doc->lines_above;
    size_t line_start = 0;

    for (size_t i = 0; i < at; i++)
        if (doc->text[i] == '\n') {
            line++;
            line_start = i + 1;
        }
    return spot_err_at(err, doc->source, line, at - line_start + 1, pointer, "%s", what);
}

int spot_json_fail(const struct spot_json_doc *doc, const char *pointer, struct spot_err *err,
                   const char *fmt, ...)
{
    char what[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return fail_at(doc, doc->root ? spot_json_place(find_pointer(doc, pointer)) : 0, pointer, err,
                   what);
}

static int lacks(const struct spot_json_doc *doc, const char *pointer, const char *key,
                 struct spot_err *err)
{
    return spot_err_kind(err, "missing",
                         spot_json_fail(doc, pointer, err, "lacks the key '%s'", key));
}

static int is_not(const struct spot_json_doc *doc, const char *pointer, const char *type,
                  struct spot_err *err)
{
    return spot_err_kind(err, "type", spot_json_fail(doc, pointer, err, "expected %s", type));
}

/* --- loading --- */

static int too_large(const char *source, struct spot_err *err)
{
    spot_err_set(err, SPOT_EDATA, "%s: larger than %d MiB", source, SPOT_JSON_BYTE_MAX >> 20);
    return spot_err_kind(err, "limit", -1);
}

static int read_text(struct spot_json_doc *doc, FILE *in, struct spot_err *err)
{
    size_t cap = 0, got;

    do {
        doc->text = spot_xgrow(doc->text, &cap, doc->n_byte + 4096, 1);
        got = fread(doc->text + doc->n_byte, 1, cap - doc->n_byte - 1, in);
        doc->n_byte += got;
        if (doc->n_byte > SPOT_JSON_BYTE_MAX)
            return too_large(doc->source, err);
    } while (got);
    if (ferror(in))
        return spot_err_sys(err, "cannot read %s", doc->source);
    doc->text[doc->n_byte] = '\0';
    return 0;
}

/* Skips a byte order mark, which some editors write. */
static void drop_byte_order_mark(struct spot_json_doc *doc)
{
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t n = sizeof(mark) - 1;

    if (doc->lines_above || doc->n_byte < n || memcmp(doc->text, mark, n) != 0)
        return;
    doc->n_byte -= n;
    memmove(doc->text, doc->text + n, doc->n_byte + 1);
}

/* Parses the text in doc->text. */
static int parse_text(struct spot_json_doc *doc, enum spot_json_kind root, struct spot_err *err)
{
    struct spot_json_wrong wrong;

    doc->hash = spot_hash64(doc->text, doc->n_byte);
    drop_byte_order_mark(doc);
    if (strspn(doc->text, " \t\r\n") == doc->n_byte)
        return spot_err_kind(
            err, "missing",
            spot_err_at(err, doc->source, 0, 0, NULL, "empty input, expected a JSON document"));
    if (spot_json_tree_build(&doc->tree, doc->text, doc->n_byte, SPOT_JSON_DEPTH_MAX, &wrong))
        return spot_err_kind(err, "syntax", fail_at(doc, wrong.at, NULL, err, wrong.what));
    doc->root = doc->tree.value;
    if (!spot_json_is(doc->root, root))
        return spot_err_kind(
            err, "type",
            fail_at(doc, spot_json_place(doc->root), NULL, err,
                    root == SPOT_JSON_OBJECT ? "expected an object" : "expected an array"));
    return 0;
}

int spot_json_load(struct spot_json_doc *doc, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_unpack unpack;

    memset(doc, 0, sizeof(*doc));
    doc->source = source;
    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    spot_unpack_limit(&unpack, SPOT_JSON_UNPACKED_FREE, SPOT_JSON_UNPACKED_TIMES);
    if (spot_unpack_close(&unpack, read_text(doc, unpack.in, err), err) ||
        parse_text(doc, SPOT_JSON_OBJECT, err)) {
        spot_json_release(doc);
        return -1;
    }
    return 0;
}

int spot_json_parse(struct spot_json_doc *doc, const char *text, size_t n_byte, const char *source,
                    struct spot_err *err)
{
    return spot_json_parse_line(doc, text, n_byte, source, 1, err);
}

static int parse_copy(struct spot_json_doc *doc, const char *text, size_t n_byte,
                      const char *source, unsigned long line, enum spot_json_kind root,
                      struct spot_err *err)
{
    memset(doc, 0, sizeof(*doc));
    doc->source = source;
    doc->lines_above = line - 1;
    if (n_byte > SPOT_JSON_BYTE_MAX)
        return too_large(source, err);
    doc->text = spot_xcalloc(n_byte + 1, 1);
    if (n_byte) /* `text` may be NULL if n_byte is 0 */
        memcpy(doc->text, text, n_byte);
    doc->n_byte = n_byte;
    if (parse_text(doc, root, err)) {
        spot_json_release(doc);
        return -1;
    }
    return 0;
}

int spot_json_parse_line(struct spot_json_doc *doc, const char *text, size_t n_byte,
                         const char *source, unsigned long line, struct spot_err *err)
{
    return parse_copy(doc, text, n_byte, source, line, SPOT_JSON_OBJECT, err);
}

int spot_json_parse_array_line(struct spot_json_doc *doc, const char *text, size_t n_byte,
                               const char *source, unsigned long line, struct spot_err *err)
{
    return parse_copy(doc, text, n_byte, source, line, SPOT_JSON_ARRAY, err);
}

int spot_json_load_path(struct spot_json_doc *doc, const char *path, struct spot_err *err)
{
    const bool is_stdin = !strcmp(path, "-");
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    int rc;

    memset(doc, 0, sizeof(*doc));
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_json_load(doc, in, is_stdin ? "<stdin>" : path, err);
    if (!is_stdin)
        fclose(in);
    return rc;
}

void spot_json_release(struct spot_json_doc *doc)
{
    spot_json_tree_release(&doc->tree);
    free(doc->text);
    memset(doc, 0, sizeof(*doc));
}

/* --- the field table --- */

static const char *const type_name[] = {
    [SPOT_F_INT] = "an integer",
    [SPOT_F_REAL] = "a number",
    [SPOT_F_STR] = "a string",
    [SPOT_F_BOOL] = "true or false",
};

static bool has_type(const struct spot_json_value *value, enum spot_field_type type)
{
    switch (type) {
    case SPOT_F_INT:
        return spot_json_is_integer(value);
    case SPOT_F_REAL:
        return spot_json_is_number(value);
    case SPOT_F_STR:
        return spot_json_is_string(value);
    case SPOT_F_BOOL:
        return spot_json_is_boolean(value);
    }
    return false;
}

static void store(const struct spot_json_value *value, const struct spot_field *f, char *member)
{
    switch (f->type) {
    case SPOT_F_INT:
        *(int64_t *)(void *)member = spot_json_integer(value);
        break;
    case SPOT_F_REAL:
        *(double *)(void *)member = spot_json_number(value);
        break;
    case SPOT_F_STR:
        *(const char **)(void *)member = spot_json_text(value);
        break;
    case SPOT_F_BOOL:
        *(bool *)(void *)member = spot_json_is_true(value);
        break;
    }
}

static bool is_within(const struct spot_json_value *value, const struct spot_field *f)
{
    const double x = spot_json_number(value);

    if (!spot_json_is_integer(value))
        return x >= f->min && x <= f->max;
    return spot_num_compare_whole(spot_json_integer(value), f->min) >= 0 &&
           spot_num_compare_whole(spot_json_integer(value), f->max) <= 0;
}

static int outside(const struct spot_json_doc *doc, const char *pointer, const struct spot_field *f,
                   const struct spot_json_value *value, struct spot_err *err)
{
    const bool named = f->unit && strcmp(f->unit, "1") != 0;
    char got[SPOT_NUM_TEXT], min[SPOT_NUM_TEXT], max[SPOT_NUM_TEXT];

    if (spot_json_is_integer(value))
        snprintf(got, sizeof(got), "%" PRId64, spot_json_integer(value));
    else
        spot_num_format(spot_json_number(value), got);
    if (isinf(f->max))
        spot_json_fail(doc, pointer, err, "%s is less than %s%s%s", got,
                       spot_num_format(f->min, min), named ? " " : "", named ? f->unit : "");
    else
        spot_json_fail(doc, pointer, err, "%s is outside [%s, %s]%s%s", got,
                       spot_num_format(f->min, min), spot_num_format(f->max, max), named ? " " : "",
                       named ? f->unit : "");
    return spot_err_kind(err, "range", -1);
}

/* Text of unit "hex". */
static int check_hex(const struct spot_json_doc *doc, const char *pointer,
                     const struct spot_field *f, const char *text, struct spot_err *err)
{
    const size_t n = (size_t)f->max;

    if (strlen(text) != n || strspn(text, "0123456789abcdef") != n)
        return spot_json_fail(doc, pointer, err, "expected %zu hex digits, got \"%.40s\"", n, text);
    return 0;
}

int spot_json_read_fields(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                          const char *pointer, const struct spot_field *table, void *base,
                          struct spot_err *err)
{
    if (!spot_json_is_object(obj))
        return is_not(doc, pointer, "an object", err);
    for (const struct spot_field *f = table; f->key; f++) {
        const struct spot_json_value *value = spot_json_get(obj, f->key);
        char at[SPOT_JSON_POINTER_MAX];

        if (!value) {
            if (f->required)
                return lacks(doc, pointer, f->key, err);
            continue;
        }
        snprintf(at, sizeof(at), "%s/%s", pointer, f->key);
        if (!has_type(value, f->type))
            return is_not(doc, at, type_name[f->type], err);
        if (spot_json_is_number(value) && (f->min != 0 || f->max != 0) && !is_within(value, f))
            return outside(doc, at, f, value, err);
        if (f->type == SPOT_F_STR && f->unit && check_hex(doc, at, f, spot_json_text(value), err))
            return -1;
        store(value, f, (char *)base + f->offset);
    }
    return 0;
}

int spot_json_array(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                    const char *pointer, const char *key, bool required, size_t n_max,
                    const struct spot_json_value **out, struct spot_err *err)
{
    char at[SPOT_JSON_POINTER_MAX];

    *out = spot_json_get(obj, key);
    snprintf(at, sizeof(at), "%s/%s", pointer, key);
    if (!*out)
        return required ? lacks(doc, pointer, key, err) : 0;
    if (!spot_json_is_array(*out))
        return is_not(doc, at, "an array", err);
    if (spot_json_array_size(*out) > n_max)
        return spot_err_kind(err, "limit",
                             spot_json_fail(doc, at, err, "has %zu entries, the limit is %zu",
                                            spot_json_array_size(*out), n_max));
    return 0;
}

int spot_json_object(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                     const char *pointer, const char *key, bool required,
                     const struct spot_json_value **out, struct spot_err *err)
{
    char at[SPOT_JSON_POINTER_MAX];

    *out = spot_json_get(obj, key);
    snprintf(at, sizeof(at), "%s/%s", pointer, key);
    if (!*out)
        return required ? lacks(doc, pointer, key, err) : 0;
    if (!spot_json_is_object(*out))
        return is_not(doc, at, "an object", err);
    return 0;
}

int spot_json_rows(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                   const char *pointer, const char *key, const struct spot_doc_part *part,
                   const void *first, size_t size, void **row, size_t *n, struct spot_err *err)
{
    const struct spot_json_value *list;

    *row = NULL;
    *n = 0;
    if (spot_json_array(doc, obj, pointer, key, part->required, part->n_max, &list, err))
        return -1;
    *n = spot_json_array_size(list);
    *row = spot_xcalloc(*n, size);
    for (size_t i = 0; i < *n; i++) {
        char *const at = (char *)*row + i * size;
        char place[SPOT_JSON_POINTER_MAX];

        if (first)
            memcpy(at, first, size);
        snprintf(place, sizeof(place), "%.180s/%.40s/%zu", pointer, key, i);
        if (spot_json_read_fields(doc, spot_json_entry(list, i), place, part->field, at, err))
            return -1;
    }
    return 0;
}

int spot_json_expect_schema(const struct spot_json_doc *doc, const char *name, int major,
                            struct spot_err *err)
{
    const char *got = spot_json_text(spot_json_get(doc->root, "schema"));
    char want[64];

    snprintf(want, sizeof(want), "%s/%d", name, major);
    if (!got)
        return spot_err_kind(
            err, "missing",
            spot_json_fail(doc, "", err, "lacks the key 'schema', expected \"%s\"", want));
    if (strcmp(got, want) != 0)
        return spot_json_fail(doc, "/schema", err, "expected \"%s\", got \"%.40s\"", want, got);
    return 0;
}

void spot_jw_fields(struct spot_jw *jw, const struct spot_field *table, const void *base)
{
    for (const struct spot_field *f = table; f->key; f++) {
        const void *member = (const char *)base + f->offset;
        const char *text;

        switch (f->type) {
        case SPOT_F_INT:
            spot_jw_int(jw, f->key, *(const int64_t *)member);
            break;
        case SPOT_F_REAL:
            spot_jw_real(jw, f->key, *(const double *)member);
            break;
        case SPOT_F_STR:
            text = *(const char *const *)member;
            if (text)
                spot_jw_str(jw, f->key, text);
            break;
        case SPOT_F_BOOL:
            spot_jw_bool(jw, f->key, *(const bool *)member);
            break;
        }
    }
}

void spot_jw_rows(struct spot_jw *jw, const char *key, const struct spot_field *table,
                  const void *row, size_t n, size_t size)
{
    if (!n)
        return;
    spot_jw_array(jw, key);
    for (size_t i = 0; i < n; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_fields(jw, table, (const char *)row + i * size);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

void spot_jw_tree(struct spot_jw *jw, const char *key, const struct spot_json_value *value)
{
    const size_t n = spot_json_size(value);

    if (spot_json_is_object(value)) {
        spot_jw_object(jw, key);
        for (size_t i = 0; i < n; i++) {
            const char *name;
            const struct spot_json_value *const member = spot_json_member(value, i, &name);

            spot_jw_tree(jw, name, member);
        }
        spot_jw_end(jw);
    } else if (spot_json_is_array(value)) {
        spot_jw_array(jw, key);
        for (size_t i = 0; i < n; i++)
            spot_jw_tree(jw, NULL, spot_json_entry(value, i));
        spot_jw_end(jw);
    } else if (spot_json_is_string(value)) {
        spot_jw_str(jw, key, spot_json_text(value));
    } else if (spot_json_is_integer(value)) {
        spot_jw_int(jw, key, spot_json_integer(value));
    } else if (spot_json_is_number(value)) {
        spot_jw_real(jw, key, spot_json_number(value));
    } else if (spot_json_is_boolean(value)) {
        spot_jw_bool(jw, key, spot_json_is_true(value));
    } else {
        spot_jw_null(jw, key);
    }
}
