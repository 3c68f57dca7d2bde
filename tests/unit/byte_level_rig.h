/* SPDX-License-Identifier: MIT */
/* byte_level_rig.h - the alphabet of byte-level tokenizers, for tokenizers that a test writes. */
#ifndef SPOT_TESTS_BYTE_LEVEL_RIG_H
#define SPOT_TESTS_BYTE_LEVEL_RIG_H

#include <stdbool.h>

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

#endif /* SPOT_TESTS_BYTE_LEVEL_RIG_H */
