/* SPDX-License-Identifier: MIT */
/* self_test.h - does this machine compute what its kernel kind is known to compute? A fixed step of
 * a small model, forward, backward and update, whose hash is known for each kind of the CPU. */
#ifndef SPOT_TRAIN_SELF_TEST_H
#define SPOT_TRAIN_SELF_TEST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Behind the name of a kind in the list of those that a worker offers: it failed the test. */
#define SPOT_SELF_TEST_FAILED "(failed)"

/* The hash of the step here, 0: no memory for it. */
uint64_t spot_self_test_hash(const struct spot_kernel *kernel);

/* Is it the known one? True for a kind of which none is known. Computed once in a process. */
bool spot_self_test_passes(const char *kernel);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SELF_TEST_H */
