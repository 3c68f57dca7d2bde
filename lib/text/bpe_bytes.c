/* SPDX-License-Identifier: MIT */
/* The vocabulary of a model of bytes: like GPT-2's without merges, with ids in the order of the
 * bytes.
 */
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "text/bpe.h"

/* GPT-2 writes a byte that is not a visible character of Latin-1 as one from U+0100 on. */
static bool is_visible(unsigned b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

struct spot_bpe *spot_bpe_of_bytes(void)
{
    static const char merges[] = "#version: 0.2\n";
    struct spot_buf json = { 0 };
    struct spot_bpe *bpe;
    unsigned n_hidden = 0;

    for (unsigned b = 0; b < 256; b++) {
        char member[32];
        const int n = snprintf(member, sizeof(member), "%c\"\\u%04x\":%u", b ? ',' : '{',
                               is_visible(b) ? b : 0x100 + n_hidden, b);

        n_hidden += !is_visible(b);
        spot_buf_add(&json, member, (size_t)n);
    }
    spot_buf_add(&json, "}", 1);
    bpe = spot_bpe_of_vocab((const char *)json.data, json.n, "bytes", merges, strlen(merges),
                            "bytes", NULL);
    spot_buf_release(&json);
    return bpe;
}
