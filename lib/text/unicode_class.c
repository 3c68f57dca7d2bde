/* SPDX-License-Identifier: MIT */
#include "text/unicode_class.h"

#include <stddef.h>

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
