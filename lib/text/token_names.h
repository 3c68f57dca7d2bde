/* SPDX-License-Identifier: MIT */
/* token_names.h - finds the longest token name at a position of a text, in a time that does not
 * depend on the number of names.
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

/* Add a name with a value of the caller; "" is ignored. If a name is added twice the first value
 * counts. */
void spot_names_add(struct spot_names *names, const char *text, uint32_t value);
/* Call once, after all names were added. */
void spot_names_index(struct spot_names *names);

/* The longest name at the start of text[n], n > 0; NULL: none. *value may be NULL. */
const char *spot_names_longest(const struct spot_names *names, const char *text, size_t n,
                               uint32_t *value);

/* True if two names are equal; gives the values of the first such pair in the order of adding. */
bool spot_names_twins(const struct spot_names *names, uint32_t *first, uint32_t *second);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TOKEN_NAMES_H */
