/* SPDX-License-Identifier: MIT */
/* json_scan.h - what a JSON text would take as a tree, found before the tree is built.
 *
 * A tree of small values takes up to eighty times the bytes of its text, so its size has to be
 * known first. One pass over the bytes, no memory of its own. What is no JSON is for the parser to
 * refuse: up to its first error a text is counted like a right one, so that a parser that stops
 * there has built no more than was counted.
 */
#ifndef SPOT_COMMON_JSON_SCAN_H
#define SPOT_COMMON_JSON_SCAN_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Refuse a NUL byte, nesting deeper than depth_max (1..64) and a tree of more than tree_max bytes;
 * `line` is the number of the first one. *tree_byte (may be NULL) gets what jansson takes from
 * malloc() for the tree, a little less or more; not for the text, nor the longest string once more.
 * Returns 0, or -1 with *err (SPOT_EDATA) and source:line:column. */
int spot_json_scan(const char *text, size_t n_byte, int depth_max, size_t tree_max,
                   const char *source, unsigned long line, size_t *tree_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_SCAN_H */
