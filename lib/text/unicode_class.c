/* SPDX-License-Identifier: MIT */
#include "text/unicode_class.h"

#include <stddef.h>
#include <string.h>

#include "common/utf8.h"

enum { LETTER = SPOT_CHAR_LETTER, NUMBER = SPOT_CHAR_NUMBER };

/* Ascending, disjoint. */
static const struct range {
    uint32_t first, last;
    uint8_t class;
} range[] = {
#include "text/unicode_class.inc"
};

static int is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

enum spot_char_class spot_char_class(uint32_t code)
{
    size_t low = 0, high = sizeof(range) / sizeof(range[0]);

    if (is_space(code))
        return SPOT_CHAR_SPACE;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (code > range[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == sizeof(range) / sizeof(range[0]) || code < range[low].first)
        return SPOT_CHAR_OTHER;
    return (enum spot_char_class)range[low].class;
}

/* Of each case ascending and disjoint: small letters first. */
static const struct case_range {
    uint32_t first, last, step;
    int32_t delta;
    uint8_t raises;
} case_range[] = {
#include "text/unicode_case.inc"
};

size_t spot_char_cased(uint32_t code, bool raises, char text[SPOT_CHAR_CASED_MAX])
{
    const size_t n = sizeof(case_range) / sizeof(case_range[0]);

    if (code < 0x80) {
        const bool is_letter = raises ? code >= 'a' && code <= 'z' : code >= 'A' && code <= 'Z';

        text[0] = (char)(is_letter ? code ^ 0x20 : code);
        return 1;
    }
    if (raises ? code == 0xDF : code == 0x130) { /* one that becomes two */
        memcpy(text, raises ? "SS" : "i\xCC\x87", raises ? 2 : 3);
        return raises ? 2 : 3;
    }
    for (size_t i = 0; i < n; i++)
        if (case_range[i].raises == raises && code >= case_range[i].first &&
            code <= case_range[i].last) {
            if ((code - case_range[i].first) % case_range[i].step == 0)
                code = (uint32_t)((int32_t)code + case_range[i].delta);
            break;
        }
    return spot_utf8_put(code, text);
}
