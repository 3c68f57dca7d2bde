/* SPDX-License-Identifier: MIT */
#include "text/unicode_class.h"

#include <stddef.h>
#include <string.h>

#include "common/utf8.h"

/* By turns a capital and its small letter. */
enum { LU_LL = SPOT_CHARS };
enum {
    LU = SPOT_CHAR_LU,
    LL = SPOT_CHAR_LL,
    LT = SPOT_CHAR_LT,
    LM = SPOT_CHAR_LM,
    LO = SPOT_CHAR_LO,
    M = SPOT_CHAR_M,
    ND = SPOT_CHAR_ND,
    NL = SPOT_CHAR_NL,
    NO = SPOT_CHAR_NO,
    PC = SPOT_CHAR_PC,
    P = SPOT_CHAR_P,
    S = SPOT_CHAR_S,
    Z = SPOT_CHAR_Z
};

/* Ascending, disjoint. */
static const struct range {
    uint32_t first, last;
    uint8_t category;
} range[] = {
#include "text/unicode_class.inc"
};

bool spot_char_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

enum spot_char_category spot_char_category(uint32_t code, uint32_t *last)
{
    const size_t n = sizeof(range) / sizeof(range[0]);
    size_t low = 0, high = n;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (code > range[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == n || code < range[low].first) {
        *last = low == n ? UINT32_MAX : range[low].first - 1;
        return SPOT_CHAR_C;
    }
    *last = range[low].last;
    if (range[low].category != LU_LL)
        return (enum spot_char_category)range[low].category;
    *last = code;
    return (code - range[low].first) % 2 ? SPOT_CHAR_LL : SPOT_CHAR_LU;
}

enum spot_char_class spot_char_class(uint32_t code)
{
    uint32_t last;
    const unsigned is = spot_char_is_space(code) ? 0 : 1U << spot_char_category(code, &last);

    if (!is)
        return SPOT_CHAR_SPACE;
    return is & SPOT_CHARS_L   ? SPOT_CHAR_LETTER
           : is & SPOT_CHARS_N ? SPOT_CHAR_NUMBER
                               : SPOT_CHAR_OTHER;
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
