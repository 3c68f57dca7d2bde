/* SPDX-License-Identifier: MIT */
/* kernel.h - the arithmetic of a job, by name: two workers with one kernel name give equal bits.
 *
 * "portable" uses separate multiplications and additions in a fixed order and gives the same bits
 * on every x86-64 and aarch64. Faster kinds depend on the CPU's instructions; a job records its
 * kind, and a worker that lacks it is refused by name.
 */
#ifndef SPOT_ENGINE_KERNEL_H
#define SPOT_ENGINE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_kernel; /* a table of functions; static */

const char *spot_kernel_name(const struct spot_kernel *kernel);

/* A kind that this machine can run; "auto" is its CPU's fastest. A kind of the CUDA backend names
 * everything that determines its bits, as in "cuda-bf16-sm90x132-lt130100-cc1300"; "cuda" and
 * "cuda-bf16" select the one of this machine. NULL with *err (SPOT_EUSAGE: unknown name, with a
 * list of the known ones; SPOT_ESYS: this CPU cannot run it; SPOT_EGPU: no device). */
const struct spot_kernel *spot_kernel_find(const char *name, struct spot_err *err);

/* Whether this is the full name of a kind of the CUDA backend, of this machine or another. */
bool spot_kernel_is_whole_cuda(const char *name);

/* Whether, with this kind, members of a tensor group compute the same bits as a single member. */
bool spot_kernel_shares_stages(const char *name);

/* The i-th known kind of backend "cpu", "cuda", or "auto" for both; if `backend` is a kind of the
 * CPU, that kind alone. *runs_here: whether it runs on this machine. NULL past the end. */
const char *spot_kernel_list(size_t i, const char *backend, bool *runs_here);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_KERNEL_H */
