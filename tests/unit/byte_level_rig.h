/* SPDX-License-Identifier: MIT */
/* byte_level_rig.h - the alphabet of byte-level tokenizers, for tokenizers that a test writes. */
#ifndef SPOT_TESTS_BYTE_LEVEL_RIG_H
#define SPOT_TESTS_BYTE_LEVEL_RIG_H

#include <stdbool.h>
#include <stdio.h>

#include "common/buf.h"
#include "text/bpe.h"

/* GPT-2's letter for a byte: itself where it prints, else the next of those from 256 on. */
static inline unsigned letter_of(unsigned byte)
{
    unsigned next = 256;

    for (unsigned b = 0; b < 256; b++) {
        const bool prints = (b > 32 && b < 127) || (b > 160 && b != 173);

        if (b == byte)
            return prints ? b : next;
        next += !prints;
    }
    return 0;
}

/* A tokenizer of bytes, of which token 256 is special: "<|end|>". */
static inline struct spot_bpe *bpe_with_special(void)
{
    struct spot_buf text = { 0 };
    struct spot_bpe *bpe;
    char entry[64];
    static const char head[] =
        "{\"added_tokens\":[{\"id\":256,\"content\":\"<|end|>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],"
        "\"vocab\":";

    spot_buf_add(&text, head, sizeof(head) - 1);
    for (unsigned b = 0; b < 256; b++)
        spot_buf_add(&text, entry,
                     (size_t)snprintf(entry, sizeof(entry), "%s\"\\u%04x\":%u", b ? "," : "{",
                                      letter_of(b), b));
    spot_buf_add(&text, "}}}", 3);
    bpe = spot_bpe_of_tokenizer((const char *)text.data, text.n, "t", NULL);
    spot_buf_release(&text);
    return bpe;
}

#endif /* SPOT_TESTS_BYTE_LEVEL_RIG_H */
