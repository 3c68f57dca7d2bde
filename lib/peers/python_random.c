/* SPDX-License-Identifier: MIT */
#include "peers/python_random.h"

enum { N = 624, M = 397 };

static void fill(struct spot_python_random *r, uint32_t seed)
{
    r->word[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        r->word[i] = 1812433253u * (r->word[i - 1] ^ (r->word[i - 1] >> 30)) + i;
    r->at = N;
}

/* init_by_array with a one-word key. */
void spot_python_random_init(struct spot_python_random *r, uint32_t seed)
{
    size_t i = 1;

    fill(r, 19650218u);
    for (size_t k = 0; k < N; k++) {
        r->word[i] = (r->word[i] ^ ((r->word[i - 1] ^ (r->word[i - 1] >> 30)) * 1664525u)) + seed;
        if (++i >= N) {
            r->word[0] = r->word[N - 1];
            i = 1;
        }
    }
    for (size_t k = 0; k < N - 1; k++) {
        r->word[i] =
            (r->word[i] ^ ((r->word[i - 1] ^ (r->word[i - 1] >> 30)) * 1566083941u)) - (uint32_t)i;
        if (++i >= N) {
            r->word[0] = r->word[N - 1];
            i = 1;
        }
    }
    r->word[0] = 0x80000000u;
}

static void twist(struct spot_python_random *r)
{
    for (size_t i = 0; i < N; i++) {
        const uint32_t y = (r->word[i] & 0x80000000u) | (r->word[(i + 1) % N] & 0x7fffffffu);

        r->word[i] = r->word[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    r->at = 0;
}

uint32_t spot_python_random_next(struct spot_python_random *r)
{
    uint32_t y;

    if (r->at == N)
        twist(r);
    y = r->word[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static size_t below(struct spot_python_random *r, size_t n)
{
    unsigned bits = 0;
    size_t x;

    while (n >> bits)
        bits++;
    do
        x = spot_python_random_next(r) >> (32 - bits);
    while (x >= n);
    return x;
}

void spot_python_random_shuffle(struct spot_python_random *r, size_t *item, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        const size_t j = below(r, i + 1), kept = item[i];

        item[i] = item[j];
        item[j] = kept;
    }
}
