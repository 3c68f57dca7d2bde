/* SPDX-License-Identifier: MIT */
/* pattern.h - the regular expressions by which tokenizers cut text.
 *
 * A pattern is made a table of states once: the state is what alternatives are still open, in their
 * order, so the first that matches counts, as where one is tried after the other, yet each
 * character is looked at once. That every public pattern has a small table was the reason for
 * this and against a function by hand for each vendor; and against backtracking, that no text makes
 * it slow. A pattern that can go on for ever without a match is refused; what could only lengthen a
 * match is looked for in the next SPOT_PATTERN_LOOK_MAX bytes.
 *
 * Known: | ( ) (?: ) (?i: ), sets with ranges, \s \d \p{L} and other categories and their
 * opposites, * + ? {m,n}, of one character also *+ ++ ?+, and (?= ) and (?! ) of oneXX */
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

/* NULL with *err (SPOT_EDATA): what is not known, where, and what would take too long. */
struct spot_pattern *spot_pattern_new(const char *text, struct spot_err *err);
/* For this text and nothing else. */
struct spot_pattern *spot_pattern_of_text(const char *text, struct spot_err *err);
void spot_pattern_free(struct spot_pattern *pattern); /* may be NULL */

enum spot_pattern_found { SPOT_PATTERN_NONE, SPOT_PATTERN_FOUND, SPOT_PATTERN_MORE };

/* Does it match at the start of text[n]? *length: bytes, 1 or more. MORE: what follows the text,
 * which does not end here, could change it. Invalid bytes are characters of no category. From
 * several threads at once. */
enum spot_pattern_found spot_pattern_match(const struct spot_pattern *pattern, const char *text,
                                           size_t n, bool is_end, size_t *length);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PATTERN_H */
