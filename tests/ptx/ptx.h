/* SPDX-License-Identifier: MIT */
/* ptx.h - runs PTX on the CPU, for exactly the instructions that nvcc emits for spot's kernels.
 *
 * Threads of a block run one at a time: a warp drawn at random, its lanes up to the next
 * instruction that they make together. What a device leaves open is used against the kernel:
 * cp.async copies when a wait group asks for it and not before, blocks come in any order, shared
 * memory holds NaN until it is written. An access outside of the memory that was given out, one
 * that is not aligned, two threads that meet in a byte of shared memory without a barrier between
 * (one of them writing), a read of shared memory that nobody wrote, and a barrier that not all
 * reach end the launch with an error.
 */
#ifndef SPOT_TESTS_PTX_H
#define SPOT_TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of a file are known from then on. Ends the program if it has what is not understood.
 */
void ptx_load(const char *path);

/* Memory of the device: NaN in every type, to be freed by ptx_forget_memory. */
void *ptx_memory(size_t n_byte);
void ptx_forget_memory(void);

struct ptx_launch {
    const char *kernel; /* mangled */
    unsigned grid[3], block;
    size_t shared_byte;
    const void *const *argument; /* one for each parameter */
    size_t n_argument;
};
void ptx_launch(const struct ptx_launch *launch);

/* Of the schedule; the same seed is the same run. */
void ptx_seed(uint64_t seed);
/* The first error since the last call of this, NULL if there was none. */
const char *ptx_error(void);
/* Instructions that ran, all threads together. */
uint64_t ptx_count(void);
/* Kernels that ran since they were loaded, of all that were; their names if `unrun` is asked for.
 */
void ptx_coverage(size_t *n_run, size_t *n, const char **unrun);

/* A kernel that is wrong on purpose: the nth instruction (from 0; -1: every one) that begins with
 * `instruction`, in kernels whose name contains `kernel`. */
enum ptx_change {
    PTX_DROP, /* it does nothing */
    PTX_ADD,  /* to the number that is its operand `a`, or the offset of its address */
    PTX_SWAP, /* its operands a and b */
};
struct ptx_mutation {
    const char *kernel, *instruction;
    int nth;
    enum ptx_change change;
    int a, b;
};
/* In force until the next call; NULL: none. Returns how many instructions it changes. */
int ptx_mutate(const struct ptx_mutation *mutation);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TESTS_PTX_H */
