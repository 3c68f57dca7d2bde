/* SPDX-License-Identifier: MIT */
/* rng.h - random numbers that are the same on every machine for the same seed.
 *
 * xoshiro256** seeded through splitmix64 (Blackman and Vigna, public domain
 * algorithms). Not for secrets.
 */
#ifndef SPOT_COMMON_RNG_H
#define SPOT_COMMON_RNG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_rng {
    uint64_t word[4];
};

/* `stream` separates independent sequences under one seed. */
void spot_rng_init(struct spot_rng *rng, uint64_t seed, uint64_t stream);

uint64_t spot_rng_next(struct spot_rng *rng);
uint64_t spot_rng_below(struct spot_rng *rng, uint64_t n); /* 0..n-1, unbiased, n > 0 */
double spot_rng_unit(struct spot_rng *rng);                /* [0, 1), 53 bits */
double spot_rng_normal(struct spot_rng *rng);              /* mean 0, variance 1 */

/* A pure function of its arguments, equidistributed over 64 bits. */
uint64_t spot_rng_mix(uint64_t seed, uint64_t index);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_RNG_H */
