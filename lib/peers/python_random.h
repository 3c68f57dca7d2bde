/* SPDX-License-Identifier: MIT */
/* python_random.h - Python's random.Random, which the released scheduler uses to shuffle types. */
#ifndef SPOT_PEERS_PYTHON_RANDOM_H
#define SPOT_PEERS_PYTHON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Mersenne twister MT19937 (Matsumoto, Nishimura 1998), seeded as Python seeds it. */
struct spot_python_random {
    uint32_t word[624];
    size_t at;
};

void spot_python_random_init(struct spot_python_random *random, uint32_t seed);
uint32_t spot_python_random_next(struct spot_python_random *random);
/* random.shuffle */
void spot_python_random_shuffle(struct spot_python_random *random, size_t *item, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_PYTHON_RANDOM_H */
