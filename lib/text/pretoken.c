/* SPDX-License-Identifier: MIT */
#include "text/pretoken.h"

#include <assert.h>
#include <string.h>

#include "common/utf8.h"
#include "text/unicode_class.h"

static enum spot_char_class class_at(const char *text, size_t n, size_t at, size_t *length)
{
    uint32_t code;

    *length = spot_utf8_char(text + at, n - at, &code);
    return spot_char_class(code);
}

/* Where the characters of a class that begin at `at` end; *last is where the last one begins. */
static size_t run_of(enum spot_char_class class, const char *text, size_t n, size_t at,
                     size_t *last)
{
    size_t length;

    while (at < n && class_at(text, n, at, &length) == class) {
        *last = at;
        at += length;
    }
    return at;
}

static size_t contraction(const char *text, size_t n)
{
    static const char *const tail[] = { "s", "t", "re", "ve", "m", "ll", "d" };

    for (size_t i = 0; text[0] == '\'' && i < sizeof(tail) / sizeof(tail[0]); i++) {
        const size_t length = strlen(tail[i]);

        if (n > length && !memcmp(text + 1, tail[i], length))
            return 1 + length;
    }
    return 0;
}

size_t spot_pretoken(const char *text, size_t n)
{
    const size_t short_form = contraction(text, n);
    const size_t begin = n > 1 && text[0] == ' ' ? 1 : 0;
    size_t length, last = 0, end;
    enum spot_char_class class;

    assert(n >= 1);
    if (short_form)
        return short_form;
    class = class_at(text, n, begin, &length);
    if (class != SPOT_CHAR_SPACE)
        return run_of(class, text, n, begin, &last);
    end = run_of(SPOT_CHAR_SPACE, text, n, 0, &last);
    /* the last space before a word belongs to the word's piece, if it is not alone */
    return end < n && last > 0 ? last : end;
}
