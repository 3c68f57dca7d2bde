/* SPDX-License-Identifier: MIT */
/* self_test.h - checks that this machine's arithmetic is right: computes a fixed step of a small
 * model, forward, backward and update, whose hash is known for each CPU kernel kind. */
#ifndef SPOT_TRAIN_SELF_TEST_H
#define SPOT_TRAIN_SELF_TEST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Follows the name of a kernel kind that failed the test in a worker's list of kinds. */
#define SPOT_SELF_TEST_FAILED "(failed)"

/* The hash of the step as computed here; 0 if out of memory. */
uint64_t spot_self_test_hash(const struct spot_kernel *kernel);

/* True if the hash is the known one, or none is known for the kind. Computed once in a process. */
bool spot_self_test_passes(const char *kernel);

/* The same on up to n of the processors that this process may use, on all at the same time, and
 * computed at each call. *cpu is one that does not pass. Below n processors, each is tested. */
bool spot_self_test_all(const char *kernel, size_t n, int *cpu);

/* Write the result of spot_self_test_all for child processes of this program on this machine, and
 * take it in one of them: spot_self_test_passes then returns it and computes nothing for that kind.
 * Text of another form has no effect. */
void spot_self_test_print(const char *kernel, bool passes, char *text, size_t n);
void spot_self_test_take(const char *text);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SELF_TEST_H */
