/* SPDX-License-Identifier: MIT */
/* json_field.h - tables of the keys of an object and their members in a struct. */
#ifndef SPOT_COMMON_JSON_FIELD_H
#define SPOT_COMMON_JSON_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    const char *unit; /* "s", "usd", "byte", "1" for a pure number; for text NULL, or "hex" */
    double min, max;  /* inclusive; both 0: unbounded; max may be INFINITY; for "hex" both are the
                         number of digits */
    bool required;
};

/* One table of a document and the objects that it describes: docs/schema is made from these. The
 * list of a document ends with {0}; several tables may describe the same objects. */
struct spot_doc_part {
    const char *at; /* "" the root, "next" an object, "units[].pieces[]" each entry of an array */
    const struct spot_field *field;
    bool required;    /* the object or array must be present */
    size_t n_max;     /* limit on the entries of the array */
    const char *when; /* NULL: the part applies always; else only if the document's "event" has this
                         value, and `at` is then "" or a key that must be present */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_FIELD_H */
