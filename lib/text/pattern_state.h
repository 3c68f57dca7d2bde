/* SPDX-License-Identifier: MIT */
/* pattern_state.h - the syntax tree of a pattern; private to pattern*.c. */
#ifndef SPOT_TEXT_PATTERN_STATE_H
#define SPOT_TEXT_PATTERN_STATE_H

#include "text/pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PATTERN_RANGES = 64 };

/* A set of characters: categories (a bit each), ranges, and White_Space. */
struct spot_pattern_set {
    bool is_not, has_space, has_no_space;
    uint32_t categories;
    uint32_t n;
    uint32_t range[SPOT_PATTERN_RANGES][2];
};

enum spot_pattern_type {
    SPOT_PATTERN_EMPTY,
    SPOT_PATTERN_SET,    /* one character of `set` */
    SPOT_PATTERN_AHEAD,  /* look-ahead: the next character is in `set`, or not (is_not), or the text
                            ends */
    SPOT_PATTERN_THEN,   /* a, b */
    SPOT_PATTERN_EITHER, /* a, or else b */
    SPOT_PATTERN_REPEAT, /* a, min to max times, as often as it can */
};

struct spot_pattern_node {
    uint8_t type;
    bool is_not, is_possessive;
    uint32_t set, a, b; /* indices in the list of sets, or of nodes */
    int min, max;       /* -1: no end */
};

struct spot_pattern_tree {
    struct spot_pattern_node *node; /* [n] */
    size_t n, cap;
    struct spot_pattern_set *set; /* [n_set] */
    size_t n_set, set_cap;
    uint32_t root;
};

/* pattern_read.c: parse a pattern. Returns 0, or -1 with *err. The tree must be released in either
 * case. */
int spot_pattern_read(struct spot_pattern_tree *t, const char *text, struct spot_err *err);
void spot_pattern_release(struct spot_pattern_tree *t);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PATTERN_STATE_H */
