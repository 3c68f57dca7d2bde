/* SPDX-License-Identifier: MIT */
#include "text/pretoken.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "text/unicode_form.h"

void spot_text_steps_release(struct spot_text_steps *steps)
{
    for (size_t i = 0; i < steps->n; i++) {
        spot_pattern_free(steps->step[i].pattern);
        free(steps->step[i].to);
    }
    steps->n = 0;
}

/* Start of the next match in text[n] from `at` on; n: none; SIZE_MAX: depends on the following
 * text. */
static size_t next_match(const struct spot_pattern *pattern, const char *text, size_t n,
                         bool is_end, size_t at, size_t *length)
{
    while (at < n) {
        const enum spot_pattern_found found =
            spot_pattern_match(pattern, text + at, n - at, is_end, length);

        if (found != SPOT_PATTERN_NONE)
            return found == SPOT_PATTERN_MORE ? SIZE_MAX : at;
        for (at++; at < n && ((unsigned char)text[at] & 0xC0) == 0x80; at++)
            ;
    }
    return is_end ? n : SIZE_MAX;
}

static const char *taken(struct spot_buf *out, size_t *n)
{
    *n = out->n;
    return out->n ? (const char *)out->data : "";
}

static const char *replaced(const struct spot_text_step *step, const char *text, size_t *n,
                            struct spot_buf *out)
{
    size_t at = 0, length = 0, found = next_match(step->pattern, text, *n, true, 0, &length);

    if (found == *n)
        return text;
    for (; found < *n; found = next_match(step->pattern, text, *n, true, at, &length)) {
        spot_buf_add(out, text + at, found - at);
        spot_buf_add(out, step->to, strlen(step->to));
        at = found + length;
    }
    spot_buf_add(out, text + at, *n - at);
    return taken(out, n);
}

/* True if the text is already in the form: below U+0300 when composing, below U+0080 in any
 * case. */
static bool is_plain(const char *text, size_t n, bool composes)
{
    size_t i = 0;

    while (i < n && (unsigned char)text[i] < (composes ? 0xCC : 0x80))
        i++;
    return i == n;
}

const char *spot_text_step_apply(const struct spot_text_step *step, const char *text, size_t *n,
                                 struct spot_buf *out)
{
    const size_t length = step->to ? strlen(step->to) : 0;
    const bool composes = step->type == SPOT_STEP_NFC;

    assert(step->to || step->type > SPOT_STEP_REPLACE);
    out->n = 0;
    switch (step->type) {
    case SPOT_STEP_PREPEND:
    case SPOT_STEP_SPACE:
        if (!*n ||
            (step->type == SPOT_STEP_SPACE && *n >= length && !memcmp(text, step->to, length)))
            return text;
        spot_buf_add(out, step->to, length);
        spot_buf_add(out, text, *n);
        return taken(out, n);
    case SPOT_STEP_REPLACE:
        return replaced(step, text, n, out);
    default:
        if (is_plain(text, *n, composes))
            return text;
        spot_unicode_form(text, *n, composes, out);
        return taken(out, n);
    }
}

size_t spot_text_step_cut(const struct spot_text_step *step, const char *text, size_t n,
                          bool is_end, bool *is_out)
{
    size_t length = 0, end, next, ignored;
    const size_t begin = next_match(step->pattern, text, n, is_end, 0, &length);
    bool is_match = begin == 0;

    *is_out = false;
    if (begin == SIZE_MAX)
        return 0;
    end = is_match ? length : begin;
    is_match = is_match != step->is_inverse;
    *is_out = step->split == SPOT_SPLIT_REMOVED && is_match;
    if (step->split < SPOT_SPLIT_PREVIOUS || is_match != (step->split == SPOT_SPLIT_NEXT))
        return end;
    /* the piece is a text and the match after it, or a match and the text after it */
    if (begin)
        return begin + length;
    next = next_match(step->pattern, text, n, is_end, end, &ignored);
    return next == SIZE_MAX ? 0 : next;
}
