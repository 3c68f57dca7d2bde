/* SPDX-License-Identifier: MIT */
/* json_tree.h - the values of a JSON text, twelve bytes each.
 *
 * Untrusted input may consist of nothing but small values. A value here takes at most eight times
 * the bytes of its text, so that no document, known keys or not, takes more than nine times its
 * length including the text. To achieve this, all values lie in one block, children of a container
 * one after the other, and strings stay in the text itself.
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

/* A value. NULL stands for an absent value, without kind, children or text. */
struct spot_json_value {
    uint32_t place_kind;
    uint32_t part[2]; /* for a container: number of children, and distance to the first */
};

struct spot_json_tree {
    struct spot_json_value *value; /* [0] is the root */
    char *decoded;                 /* of strings with escapes */
};

/* text[n], followed by a NUL, must live as long as the tree: strings stay in it, with a NUL in
 * place of the closing quote. Integers have 64 bits, longer
 * ones are reals, and reals are finite. Returns 0, or -1 with
 * *wrong. */
int spot_json_tree_build(struct spot_json_tree *tree, char *text, size_t n, int depth_max,
                         struct spot_json_wrong *wrong);
void spot_json_tree_release(struct spot_json_tree *tree);

bool spot_json_is(const struct spot_json_value *v, enum spot_json_kind kind);

/* Byte offset of a value in the text. */
size_t spot_json_place(const struct spot_json_value *v);

/* Number of members or entries; 0 if it is not a container. */
size_t spot_json_size(const struct spot_json_value *v);

/* An entry of an array; NULL if there is none. */
struct spot_json_value *spot_json_entry(const struct spot_json_value *v, size_t i);

/* A member of an object in the order of the text, and its key; NULL if there is none. */
struct spot_json_value *spot_json_member(const struct spot_json_value *v, size_t i,
                                         const char **key);

/* The member with the key key[n]; NULL if there is none. */
struct spot_json_value *spot_json_find(const struct spot_json_value *v, const char *key, size_t n);

/* Remove members that are null. */
void spot_json_drop_nulls(struct spot_json_value *object);

const char *spot_json_text(const struct spot_json_value *v); /* NULL: not a string */
int64_t spot_json_integer(const struct spot_json_value *v);  /* 0: not an integer */
double spot_json_number(const struct spot_json_value *v);    /* 0: not a number */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_TREE_H */
