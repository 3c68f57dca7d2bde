/* SPDX-License-Identifier: MIT */
#include "text/pretoken.h"

#include <assert.h>
#include <stdbool.h>
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

/* The same with capitals, and with the long s that is one of them. */
static size_t contraction_of_any_case(const char *text, size_t n)
{
    char folded[4] = { text[0], 0, 0, 0 };
    const size_t known = n < 3 ? n : 3;
    size_t length;

    if (n > 2 && !memcmp(text, "'\xC5\xBF", 3))
        return 3;
    for (size_t i = 1; i < known; i++)
        folded[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 'a' - 'A' : text[i]);
    length = contraction(folded, known);
    return length;
}

static bool is_newline(char c)
{
    return c == '\r' || c == '\n';
}

/* Spaces from the start: to the last line's end among them, or all but one before a word. */
static size_t spaces(const char *text, size_t n, size_t *reach)
{
    size_t last = 0;
    const size_t end = run_of(SPOT_CHAR_SPACE, text, n, 0, &last);

    *reach = end;
    for (size_t i = end; i > 0; i--)
        if (is_newline(text[i - 1]))
            return i;
    return end < n && last > 0 ? last : end;
}

static size_t numbers(const char *text, size_t n)
{
    size_t at = 0, length;

    for (int i = 0; i < 3 && at < n && class_at(text, n, at, &length) == SPOT_CHAR_NUMBER; i++)
        at += length;
    return at;
}

size_t spot_pretoken_llama3(const char *text, size_t n, size_t *reach)
{
    const size_t short_form = contraction_of_any_case(text, n);
    size_t length, next, last = 0, end;
    enum spot_char_class class, then;

    assert(n >= 1);
    *reach = short_form;
    if (short_form)
        return short_form;
    class = class_at(text, n, 0, &length);
    then = length < n ? class_at(text, n, length, &next) : SPOT_CHAR_SPACE;
    if (class == SPOT_CHAR_LETTER)
        return *reach = run_of(SPOT_CHAR_LETTER, text, n, 0, &last);
    if (class != SPOT_CHAR_NUMBER && then == SPOT_CHAR_LETTER && !is_newline(text[0]))
        return *reach = run_of(SPOT_CHAR_LETTER, text, n, length, &last);
    if (class == SPOT_CHAR_NUMBER)
        return *reach = numbers(text, n);
    if (class == SPOT_CHAR_OTHER || (text[0] == ' ' && then == SPOT_CHAR_OTHER)) {
        end = run_of(SPOT_CHAR_OTHER, text, n, text[0] == ' ', &last);
        while (end < n && is_newline(text[end]))
            end++;
        return *reach = end;
    }
    return spaces(text, n, reach);
}
