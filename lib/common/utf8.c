/* SPDX-License-Identifier: MIT */
#include "common/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

size_t spot_utf8_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    return first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

size_t spot_utf8_char(const char *text, size_t n, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *const p = (const unsigned char *)text;
    const size_t length = spot_utf8_length(p[0]);
    uint32_t c = length == 1 ? p[0] : p[0] & (0x7FU >> length);

    assert(n >= 1);
    *code = UINT32_MAX;
    if (!length || length > n)
        return 1;
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 1;
        c = c << 6 | (p[i] & 0x3F);
    }
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return 1;
    *code = c;
    return length;
}

size_t spot_utf8_put(uint32_t code, char text[SPOT_UTF8_MAX])
{
    const size_t n = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);

    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3F));
    text[0] = (char)(n == 1 ? code : (0xF00U >> n & 0xFF) | code);
    return n;
}

static bool is_plain(uint32_t c)
{
    return c >= 0x20 && (c < 0x7F || c >= 0xA0) && c != 0x2028 && c != 0x2029 && c != UINT32_MAX;
}

bool spot_utf8_is_plain(const char *text)
{
    for (size_t n = strlen(text), length; n; text += length, n -= length) {
        uint32_t c;

        length = spot_utf8_char(text, n, &c);
        if (!is_plain(c))
            return false;
    }
    return true;
}

void spot_utf8_make_plain(char *text)
{
    for (size_t n = strlen(text), length; n; text += length, n -= length) {
        uint32_t c;

        length = spot_utf8_char(text, n, &c);
        if (!is_plain(c))
            memset(text, '?', length);
    }
}

char *spot_utf8_shown(const char *text)
{
    size_t n = strlen(text), length, used = 0;
    char *shown = spot_xcalloc(n + 1, sizeof("\\u0000") - 1);

    for (; n; text += length, n -= length) {
        uint32_t c;

        length = spot_utf8_char(text, n, &c);
        if (is_plain(c)) {
            memcpy(shown + used, text, length);
            used += length;
        } else {
            used +=
                (size_t)sprintf(shown + used, c > 0xFF && c != UINT32_MAX ? "\\u%04x" : "\\x%02x",
                                c == UINT32_MAX ? (unsigned char)*text : (unsigned)c);
        }
    }
    return shown;
}

size_t spot_utf8_cut(const char *text, size_t n_max)
{
    const size_t n = strlen(text);
    size_t end = 0;

    while (end < n) {
        uint32_t c;
        const size_t length = spot_utf8_char(text + end, n - end, &c);

        if (end + length > n_max)
            break;
        end += length;
    }
    return end;
}
