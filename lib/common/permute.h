/* SPDX-License-Identifier: MIT */
/* permute.h - the order of a shuffled list, without the list.
 *
 * Entry x of a permutation of 0..n-1 in constant time and without memory: four Feistel rounds over
 * the next power of four, repeated until the result is below n.
 * Equal on every machine for an equal key. Not for secrets.
 * Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, method 2.
 */
#ifndef SPOT_COMMON_PERMUTE_H
#define SPOT_COMMON_PERMUTE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x < n <= 2^62. Returns 0..n-1, a different value for each x. */
uint64_t spot_permute(uint64_t n, uint64_t key, uint64_t x);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_PERMUTE_H */
