/* SPDX-License-Identifier: MIT */
/* bpe_rig.h - a text that comes in pieces of every length has the tokens of the whole. */
#ifndef SPOT_TESTS_BPE_RIG_H
#define SPOT_TESTS_BPE_RIG_H

#include <check.h>
#include <stdlib.h>

#include "text/bpe.h"

static inline void expect_in_pieces(struct spot_bpe *bpe, const char *text, size_t n,
                                    const struct spot_tokens *whole)
{
    for (size_t step = 1; step <= n; step++) {
        struct spot_tokens ids = { 0 };
        size_t done = 0;

        for (size_t known = 0; known < n;) {
            known = known + step < n ? known + step : n;
            done += spot_bpe_encode(bpe, text + done, known - done, known == n, &ids);
        }
        ck_assert_uint_eq(done, n);
        ck_assert_uint_eq(ids.n, whole->n);
        ck_assert_mem_eq(ids.id, whole->id, ids.n * sizeof(*ids.id));
        free(ids.id);
    }
}

#endif /* SPOT_TESTS_BPE_RIG_H */
