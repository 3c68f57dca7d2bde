/* SPDX-License-Identifier: MIT */
/* json.h - read JSON documents strictly; one field table per struct drives reading, writing and the
 * schema.
 *
 * A document takes at most nine times the bytes of its text, including the text itself
 * (json_tree.h); a compressed one counts unpacked, and must not expand beyond the limits below. A
 * value keeps its position in the text, so that later errors can name source:line:column and JSON
 * pointer.
 */
#ifndef SPOT_COMMON_JSON_H
#define SPOT_COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/json_field.h"
#include "common/json_tree.h"
#include "common/json_writer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_JSON_DEPTH_MAX = SPOT_JSON_SCAN_DEPTH,
    SPOT_JSON_BYTE_MAX = 64 << 20,
    SPOT_JSON_POINTER_MAX = 256,
    SPOT_JSON_UNPACKED_FREE = 6 << 20, /* compressed input of any size may expand to this */
    SPOT_JSON_UNPACKED_TIMES = 100,    /* beyond that, to this many times its size */
};

/* One document. Strings and struct values taken from it live until release. */
struct spot_json_doc {
    const char *source; /* for messages; borrowed */
    char *text;         /* [n_byte + 1]; holds the strings, so it is no longer JSON */
    size_t n_byte;
    uint64_t hash; /* spot_hash64 of the original text */
    struct spot_json_tree tree;
    struct spot_json_value *root; /* an object */
    unsigned long lines_above;    /* lines of the source before `text` */
};

/* Read `in` to its end as one JSON object; it may be compressed (common/unpack.h). Returns 0, or -1
 * with *err: SPOT_EDATA for more than SPOT_JSON_BYTE_MAX bytes, invalid compressed input, or
 * compressed input that expands beyond SPOT_JSON_UNPACKED_FREE and SPOT_JSON_UNPACKED_TIMES its
 * size, nesting beyond SPOT_JSON_DEPTH_MAX, a duplicate key, trailing text, NUL or invalid UTF-8;
 * SPOT_ESYS when reading fails. On failure *doc is zeroed: releasing it is legal, not needed. An
 * integer of more than 64 bits is a real. */
int spot_json_load(struct spot_json_doc *doc, FILE *in, const char *source, struct spot_err *err);
void spot_json_release(struct spot_json_doc *doc);

/* The same for a document in memory, and for a path ("-" is stdin). */
int spot_json_parse(struct spot_json_doc *doc, const char *text, size_t n_byte, const char *source,
                    struct spot_err *err);
/* One line of a JSON Lines file; `line` counts from 1 and is used in messages. */
int spot_json_parse_line(struct spot_json_doc *doc, const char *text, size_t n_byte,
                         const char *source, unsigned long line, struct spot_err *err);
/* The same for a line whose value is an array. */
int spot_json_parse_array_line(struct spot_json_doc *doc, const char *text, size_t n_byte,
                               const char *source, unsigned long line, struct spot_err *err);
int spot_json_load_path(struct spot_json_doc *doc, const char *path, struct spot_err *err);

/* Member `key` of an object with the wanted type, at pointer/key for messages.
 * Returns 0 with *out, NULL if it is absent and not required; or -1 with *err. */
int spot_json_array(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                    const char *pointer, const char *key, bool required, size_t n_max,
                    const struct spot_json_value **out, struct spot_err *err);
int spot_json_object(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                     const char *pointer, const char *key, bool required,
                     const struct spot_json_value **out, struct spot_err *err);

/* Fill the struct at `base` from object `obj`, which lies at JSON pointer
 * `pointer` ("" for the root). Unknown keys are ignored; an absent optional
 * key leaves its member as it was.
 * Returns 0, or -1 with *err (SPOT_EDATA) naming the offending value. */
int spot_json_read_fields(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                          const char *pointer, const struct spot_field *table, void *base,
                          struct spot_err *err);

/* Read the array `key` of an object: each entry, by part->field, into a row of `size` bytes that
 * starts as a copy of *first (NULL: zeros). *row [*n] is the caller's to free, also on failure;
 * none if the key is absent and not required. Returns 0, or -1 with *err. */
int spot_json_rows(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                   const char *pointer, const char *key, const struct spot_doc_part *part,
                   const void *first, size_t size, void **row, size_t *n, struct spot_err *err);

/* Check that the root's "schema" is `name`/`major`, as in "spot.plan/1".
 * Returns 0, or -1 with *err (SPOT_EDATA) saying what was found. */
int spot_json_expect_schema(const struct spot_json_doc *doc, const char *name, int major,
                            struct spot_err *err);

/* Fill *err with "source:line:column: pointer: message" and return -1. */
int spot_json_fail(const struct spot_json_doc *doc, const char *pointer, struct spot_err *err,
                   const char *fmt, ...) SPOT_PRINTF(4, 5);

/* Write every member the table names into the open object, in table order; a text that is NULL is
 * left out. */
void spot_jw_fields(struct spot_jw *jw, const struct spot_field *table, const void *base);

/* Write key: an array of objects, one for each row[n] of `size` bytes that the table describes;
 * nothing if n is 0. */
void spot_jw_rows(struct spot_jw *jw, const char *key, const struct spot_field *table,
                  const void *row, size_t n, size_t size);

/* Write a value that was read, including its children. */
void spot_jw_tree(struct spot_jw *jw, const char *key, const struct spot_json_value *value);

/* --- the content of a value: NULL stands for an absent one --- */

static inline bool spot_json_is_object(const struct spot_json_value *v)
{
    return spot_json_is(v, SPOT_JSON_OBJECT);
}

static inline bool spot_json_is_array(const struct spot_json_value *v)
{
    return spot_json_is(v, SPOT_JSON_ARRAY);
}

static inline bool spot_json_is_string(const struct spot_json_value *v)
{
    return spot_json_is(v, SPOT_JSON_STRING);
}

static inline bool spot_json_is_integer(const struct spot_json_value *v)
{
    return spot_json_is(v, SPOT_JSON_INTEGER);
}

static inline bool spot_json_is_number(const struct spot_json_value *v)
{
    return spot_json_is_integer(v) || spot_json_is(v, SPOT_JSON_REAL);
}

static inline bool spot_json_is_true(const struct spot_json_value *v)
{
    return spot_json_is(v, SPOT_JSON_TRUE);
}

static inline bool spot_json_is_false(const struct spot_json_value *v)
{
    return spot_json_is(v, SPOT_JSON_FALSE);
}

static inline bool spot_json_is_boolean(const struct spot_json_value *v)
{
    return spot_json_is_true(v) || spot_json_is_false(v);
}

static inline bool spot_json_is_null(const struct spot_json_value *v)
{
    return spot_json_is(v, SPOT_JSON_NULL);
}

static inline size_t spot_json_array_size(const struct spot_json_value *v)
{
    return spot_json_is_array(v) ? spot_json_size(v) : 0;
}

static inline size_t spot_json_object_size(const struct spot_json_value *v)
{
    return spot_json_is_object(v) ? spot_json_size(v) : 0;
}

static inline struct spot_json_value *spot_json_get(const struct spot_json_value *v,
                                                    const char *key)
{
    return spot_json_find(v, key, strlen(key));
}

#define spot_json_array_foreach(array, i, entry) \
    for ((i) = 0;                                \
         (i) < spot_json_array_size(array) && ((entry) = spot_json_entry(array, i), true); (i)++)

#define spot_json_object_foreach(object, key, member)                                        \
    for (size_t member_ = 0; ((member) = spot_json_member(object, member_, &(key))) != NULL; \
         member_++)

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_H */
