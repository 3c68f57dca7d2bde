/* SPDX-License-Identifier: MIT */
/* hf_kind.h - says what a path is that is not a model's directory, and what would help. */
#ifndef SPOT_WEIGHTS_HF_KIND_H
#define SPOT_WEIGHTS_HF_KIND_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a model on a hub, a directory with weights of another format only, or with pointers
 * of Git LFS. Returns 0 for everything else, good or not; -1 with *err (SPOT_EDATA). */
int spot_hf_check_kind(const char *path, struct spot_err *err);

/* A file of weights by its first 8 bytes: a pointer of Git LFS, GGUF, what PyTorch pickles. */
int spot_hf_check_start(const char *path, const unsigned char start[8], struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HF_KIND_H */
