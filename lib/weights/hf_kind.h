/* SPDX-License-Identifier: MIT */
/* hf_kind.h - explains why a path is not a model's directory, with a hint. */
#ifndef SPOT_WEIGHTS_HF_KIND_H
#define SPOT_WEIGHTS_HF_KIND_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Detects the name of a model on a hub, a directory that has weights only in another format, or one
 * with Git LFS pointers: -1 with *err (SPOT_EDATA). Returns 0 for everything else. */
int spot_hf_check_kind(const char *path, struct spot_err *err);

/* The same for a file of weights by its first 8 bytes: a Git LFS pointer, GGUF, a PyTorch
 * pickle. */
int spot_hf_check_start(const char *path, const unsigned char start[8], struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HF_KIND_H */
