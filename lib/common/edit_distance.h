/* SPDX-License-Identifier: MIT */
/* edit_distance.h - the distance between two words, for suggesting the one that was meant. */
#ifndef SPOT_COMMON_EDIT_DISTANCE_H
#define SPOT_COMMON_EDIT_DISTANCE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Levenshtein distance: the number of single-character insertions, deletions and substitutions that
 * turn `a` into `b`. 99 if either has 63 bytes or more. */
size_t spot_edit_distance(const char *a, const char *b);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_EDIT_DISTANCE_H */
