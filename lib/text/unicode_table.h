/* SPDX-License-Identifier: MIT */
/* unicode_table.h - reads the numbers of unicode.inc. They are written in digits from '(' on: a
 * digit below 64 ends a number, larger ones continue it in base 23. Private to unicode_*.c. */
#ifndef SPOT_TEXT_UNICODE_TABLE_H
#define SPOT_TEXT_UNICODE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_unicode_table {
    const char *const *line; /* ends with NULL */
    const char *at;          /* current position; NULL: start of the first line */
};

static inline bool spot_unicode_ends(struct spot_unicode_table *t)
{
    t->at = t->at ? t->at : *t->line;
    if (t->at && !*t->at)
        t->at = *++t->line;
    return !t->at;
}

static inline uint32_t spot_unicode_next(struct spot_unicode_table *t)
{
    uint32_t high = 0;

    while (!spot_unicode_ends(t)) {
        const uint32_t digit = (uint32_t)(*t->at++ - '(');

        if (digit < 64)
            return 64 * high + digit;
        high = 23 * high + digit - 63;
    }
    return high;
}

/* A difference. */
static inline uint32_t spot_unicode_step(struct spot_unicode_table *t)
{
    const uint32_t n = spot_unicode_next(t);

    return n % 2 ? 0 - (n + 1) / 2 : n / 2;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_UNICODE_TABLE_H */
