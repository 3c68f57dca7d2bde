/* SPDX-License-Identifier: MIT */
/* pattern.h - the regular expressions by which tokenizers cut text.
 *
 * A pattern is compiled once to a table of states. A state is the ordered list of open
 * alternatives, so the first matching alternative wins, as with backtracking, but each character is
 * read once, and no text makes matching slow. The patterns of all public tokenizers have small
 * tables. A pattern that could continue forever without a match is refused; a longer match is
 * searched for only in the next SPOT_PATTERN_LOOK_MAX bytes. Supported: | ( ) (?: ) (?i: ), sets
 * with ranges, \s \d \p{L} and other categories and their opposites, * + ? {m,n}, of one character
 * also *+ ++ ?+, and (?= ) and (?! ) of oneXX */
#ifndef SPOT_TEXT_PATTERN_H
#define SPOT_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_PATTERN_NODES_MAX = 4096, /* its parts, after repetitions are written out */
    SPOT_PATTERN_STATES_MAX = 2048,
    SPOT_PATTERN_SETS_MAX = 64, /* different sets of characters */
    SPOT_PATTERN_LOOK_MAX = 1 << 16,
};

struct spot_pattern;

/* NULL with *err (SPOT_EDATA), with the position: unsupported syntax, or a pattern that could take
 * too long. */
struct spot_pattern *spot_pattern_new(const char *text, struct spot_err *err);
/* A pattern that matches exactly this text. */
struct spot_pattern *spot_pattern_of_text(const char *text, struct spot_err *err);
void spot_pattern_free(struct spot_pattern *pattern); /* may be NULL */

enum spot_pattern_found { SPOT_PATTERN_NONE, SPOT_PATTERN_FOUND, SPOT_PATTERN_MORE };

/* Match at the start of text[n]. *length: bytes, 1 or more. MORE: following text, if the text does
 * not end here, could change the result. Invalid bytes are characters of no category. Several
 * threads may call it at once. */
enum spot_pattern_found spot_pattern_match(const struct spot_pattern *pattern, const char *text,
                                           size_t n, bool is_end, size_t *length);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PATTERN_H */
