/* SPDX-License-Identifier: MIT */
#include "common/permute.h"

#include <assert.h>

#include "common/rng.h"

/* A permutation of 0..2^(2 half)-1. */
static uint64_t scramble(uint64_t x, int half, uint64_t key)
{
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = x >> half, right = x & mask;

    for (uint64_t round = 0; round < 4; round++) {
        const uint64_t next = left ^ (spot_rng_mix(key + round, right) & mask);

        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t spot_permute(uint64_t n, uint64_t key, uint64_t x)
{
    int half = 1;

    assert(x < n && n <= UINT64_C(1) << 62);
    while ((UINT64_C(1) << 2 * half) < n)
        half++;
    do { /* repeating leads back to x in the end, so a value below n is found */
        x = scramble(x, half, key);
    } while (x >= n);
    return x;
}
