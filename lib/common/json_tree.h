/* SPDX-License-Identifier: MIT */
/* json_tree.h - the values of a JSON text, in twelve bytes each.
 *
 * What strangers send may consist of nothing but small values. A value here takes at most eight
 * times the bytes of its text, so that no document, known keys or not, takes more than nine times
 * its length with the text. To get there: all values lie in one block, children of a container one
 * after the other; strings lie in the text itself.
 */
#ifndef SPOT_COMMON_JSON_TREE_H
#define SPOT_COMMON_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json_scan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_json_kind {
    SPOT_JSON_OBJECT,
    SPOT_JSON_ARRAY,
    SPOT_JSON_STRING,
    SPOT_JSON_INTEGER,
    SPOT_JSON_REAL,
    SPOT_JSON_TRUE,
    SPOT_JSON_FALSE,
    SPOT_JSON_NULL,
};

/* A value. NULL stands for one that is not there: it has no kind, no children, no text. */
struct spot_json_value {
    uint32_t place_kind;
    uint32_t part[2]; /* of a container: its children, and how far behind it the first lies */
};

struct spot_json_tree {
    struct spot_json_value *value; /* [0] is the root */
    char *decoded;                 /* of strings with escapes */
};

/* text[n] with a NUL behind it stays as long as the tree: strings lie there, a NUL in the place of
 * the closing quote. Integers are of 64 bits and reals finite. Returns 0, or -1 with *wrong. */
int spot_json_tree_build(struct spot_json_tree *tree, char *text, size_t n, int depth_max,
                         struct spot_json_wrong *wrong);
void spot_json_tree_release(struct spot_json_tree *tree);

bool spot_json_is(const struct spot_json_value *v, enum spot_json_kind kind);

/* The byte of the text where it begins. */
size_t spot_json_place(const struct spot_json_value *v);

/* How many members or entries it has; 0 if it is not a container. */
size_t spot_json_size(const struct spot_json_value *v);

/* An entry of an array; NULL: there is none. */
struct spot_json_value *spot_json_entry(const struct spot_json_value *v, size_t i);

/* A member of an object in the order of the text, and its key; NULL: there is none. */
struct spot_json_value *spot_json_member(const struct spot_json_value *v, size_t i,
                                         const char **key);

/* The member with the key key[n]; NULL: there is none. */
struct spot_json_value *spot_json_find(const struct spot_json_value *v, const char *key, size_t n);

/* Members that are null go. */
void spot_json_drop_nulls(struct spot_json_value *object);

const char *spot_json_text(const struct spot_json_value *v); /* NULL: no string */
int64_t spot_json_integer(const struct spot_json_value *v);  /* 0: no integer */
double spot_json_number(const struct spot_json_value *v);    /* 0: no number */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_TREE_H */
