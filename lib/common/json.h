/* SPDX-License-Identifier: MIT */
/* json.h - read JSON documents strictly; one field table per struct drives
 * reading, writing and the schema.
 *
 * This is the only door to jansson: code that handles json_t includes this
 * header, never <jansson.h>. A loaded document keeps its text, so an error
 * found long after parsing still names source:line:column and JSON pointer;
 * the text is searched only on the error path.
 */
#ifndef SPOT_COMMON_JSON_H
#define SPOT_COMMON_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json_writer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_JSON_DEPTH_MAX = 64,
    SPOT_JSON_BYTE_MAX = 64 << 20,
    SPOT_JSON_POINTER_MAX = 256,
    SPOT_JSON_TREE_BYTE = 48 << 20, /* memory of a tree that is always granted */
};

/* One document. Strings and json_t taken from it live until release. */
struct spot_json_doc {
    const char *source; /* for messages; borrowed */
    char *text;         /* [n_byte + 1], NUL at the end */
    size_t n_byte;
    json_t *root;              /* an object */
    unsigned long lines_above; /* of the source that are not in `text` */
};

/* Read `in` to its end as one JSON object; it may be compressed (common/unpack.h).
 * Returns 0, or -1 with *err: SPOT_EDATA for more than SPOT_JSON_BYTE_MAX
 * bytes, nesting beyond SPOT_JSON_DEPTH_MAX, a tree of more than
 * SPOT_JSON_TREE_BYTE and of nine times the text (all found before parsing), a
 * duplicate key, trailing text, NUL or invalid UTF-8; SPOT_ESYS when reading fails. On failure *doc
 * is zeroed: releasing it is legal, not needed. */
int spot_json_load(struct spot_json_doc *doc, FILE *in, const char *source, struct spot_err *err);
void spot_json_release(struct spot_json_doc *doc);

/* The same for a document in memory, and for a path ("-" is stdin). */
int spot_json_parse(struct spot_json_doc *doc, const char *text, size_t n_byte, const char *source,
                    struct spot_err *err);
/* One line of a JSON Lines file; `line` counts from 1 and is what messages say. */
int spot_json_parse_line(struct spot_json_doc *doc, const char *text, size_t n_byte,
                         const char *source, unsigned long line, struct spot_err *err);
/* The same for a line that is an array. */
int spot_json_parse_array_line(struct spot_json_doc *doc, const char *text, size_t n_byte,
                               const char *source, unsigned long line, struct spot_err *err);
/* The same as spot_json_parse_line for a kind of document whose honest ones are made of many small
 * values: tree_byte in the place of SPOT_JSON_TREE_BYTE. */
int spot_json_parse_large(struct spot_json_doc *doc, const char *text, size_t n_byte,
                          const char *source, unsigned long line, size_t tree_byte,
                          struct spot_err *err);
int spot_json_load_path(struct spot_json_doc *doc, const char *path, struct spot_err *err);

/* Member `key` of an object with the wanted type, at pointer/key for messages.
 * Returns 0 with *out, NULL if it is absent and not required; or -1 with *err. */
int spot_json_array(const struct spot_json_doc *doc, const json_t *obj, const char *pointer,
                    const char *key, bool required, size_t n_max, const json_t **out,
                    struct spot_err *err);
int spot_json_object(const struct spot_json_doc *doc, const json_t *obj, const char *pointer,
                     const char *key, bool required, const json_t **out, struct spot_err *err);

enum spot_field_type {
    SPOT_F_INT = 1, /* int64_t, |x| <= 2^53 */
    SPOT_F_REAL,    /* double; integers accepted */
    SPOT_F_STR,     /* const char *, borrowed from the document */
    SPOT_F_BOOL,    /* bool */
};

/* One key of an object and its place in a struct. A table ends with {0}. */
struct spot_field {
    const char *key;
    enum spot_field_type type;
    size_t offset;
    const char *unit; /* "s", "usd", "byte", "1" for a pure number; of text NULL, or "hex" */
    double min, max;  /* inclusive; both 0 = unbounded; of "hex" the number of digits, both */
    bool required;
};

/* One table of a document and the objects it is about: what docs/schema is made from. The list of
 * a document ends with {0}; several may be about the same objects. */
struct spot_doc_part {
    const char *at; /* "" the root, "next" an object, "units[].pieces[]" each entry of an array */
    const struct spot_field *field;
    bool required;    /* the object or array has to be there */
    size_t n_max;     /* entries of the array */
    const char *when; /* only where the document's "event" is this; NULL: always. Then `at` is a key
                       * that it has to have, or "" */
};

/* Fill the struct at `base` from object `obj`, which lies at JSON pointer
 * `pointer` ("" for the root). Unknown keys are ignored; an absent optional
 * key leaves its member as it was.
 * Returns 0, or -1 with *err (SPOT_EDATA) naming the offending value. */
int spot_json_read_fields(const struct spot_json_doc *doc, const json_t *obj, const char *pointer,
                          const struct spot_field *table, void *base, struct spot_err *err);

/* Check that the root's "schema" is `name`/`major`, as in "spot.plan/1".
 * Returns 0, or -1 with *err (SPOT_EDATA) saying what was found. */
int spot_json_expect_schema(const struct spot_json_doc *doc, const char *name, int major,
                            struct spot_err *err);

/* Fill *err with "source:line:column: pointer: message" and return -1. */
int spot_json_fail(const struct spot_json_doc *doc, const char *pointer, struct spot_err *err,
                   const char *fmt, ...) SPOT_PRINTF(4, 5);

/* Write every member the table names into the open object, in table order. */
void spot_jw_fields(struct spot_jw *jw, const struct spot_field *table, const void *base);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_H */
