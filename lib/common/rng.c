/* SPDX-License-Identifier: MIT */
#include "common/rng.h"

#include <math.h>

static const uint64_t golden = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t finalize(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t spot_rng_mix(uint64_t seed, uint64_t index)
{
    return finalize(finalize(seed + golden) + golden * (index + 1));
}

void spot_rng_init(struct spot_rng *rng, uint64_t seed, uint64_t stream)
{
    const uint64_t base = spot_rng_mix(seed, stream);

    for (uint64_t i = 0; i < 4; i++)
        rng->word[i] = spot_rng_mix(base, i);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t spot_rng_next(struct spot_rng *rng)
{
    uint64_t *const s = rng->word;
    const uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t spot_rng_below(struct spot_rng *rng, uint64_t n)
{
    const uint64_t limit = UINT64_MAX - (UINT64_MAX % n + 1) % n;
    uint64_t x;

    do {
        x = spot_rng_next(rng);
    } while (x > limit);
    return x % n;
}

double spot_rng_unit(struct spot_rng *rng)
{
    return (double)(spot_rng_next(rng) >> 11) * 0x1p-53;
}

double spot_rng_normal(struct spot_rng *rng)
{
    const double radius = sqrt(-2 * log1p(-spot_rng_unit(rng)));

    return radius * cos(2 * 3.14159265358979323846 * spot_rng_unit(rng));
}
