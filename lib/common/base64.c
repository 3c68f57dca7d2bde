/* SPDX-License-Identifier: MIT */
#include "common/base64.h"

#include <openssl/evp.h>
#include <string.h>

void spot_base64_encode(const void *data, size_t n, char *text)
{
    EVP_EncodeBlock((unsigned char *)text, data, (int)n);
}

/* Decodes four letters. OpenSSL accepts blanks and stray bits, so the result is encoded again and
 * compared. */
static bool decode_group(const char *four, size_t n_byte, unsigned char *data)
{
    unsigned char three[3];
    char again[5];

    if (EVP_DecodeBlock(three, (const unsigned char *)four, 4) != 3)
        return false;
    spot_base64_encode(three, n_byte, again);
    memcpy(data, three, n_byte);
    return !memcmp(again, four, 4);
}

bool spot_base64_decode(const char *text, size_t n_text, void *data, size_t cap, size_t *n)
{
    *n = 0;
    if (n_text % 4)
        return false;
    for (size_t i = 0; i < n_text; i += 4) {
        const bool is_last = i + 4 == n_text;
        const size_t n_pad = is_last ? (size_t)(text[i + 3] == '=') + (text[i + 2] == '=') : 0;

        if (*n + 3 - n_pad > cap || !decode_group(text + i, 3 - n_pad, (unsigned char *)data + *n))
            return false;
        *n += 3 - n_pad;
    }
    return true;
}
