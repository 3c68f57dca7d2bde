/* SPDX-License-Identifier: MIT */
/* token_names.h - texts of tokens that may appear in other text: the longest at a place, in a time
 * that does not depend on how many there are.
 */
#ifndef SPOT_TEXT_TOKEN_NAMES_H
#define SPOT_TEXT_TOKEN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_names;

struct spot_names *spot_names_new(void);
void spot_names_free(struct spot_names *names); /* may be NULL */

/* Add one with a value of the caller's; "" is left out. Of one text the first counts. */
void spot_names_add(struct spot_names *names, const char *text, uint32_t value);
/* Call when all are there, once. */
void spot_names_index(struct spot_names *names);

/* The longest at the start of text[n], n > 0; NULL: none. *value may be NULL. */
const char *spot_names_longest(const struct spot_names *names, const char *text, size_t n,
                               uint32_t *value);

/* Have two the same text? The values of the first such pair, in the order they were added. */
bool spot_names_twins(const struct spot_names *names, uint32_t *first, uint32_t *second);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TOKEN_NAMES_H */
