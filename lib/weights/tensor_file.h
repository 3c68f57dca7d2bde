/* SPDX-License-Identifier: MIT */
/* tensor_file.h - tensors of a safetensors or GGUF file as floats. */
#ifndef SPOT_WEIGHTS_TENSOR_FILE_H
#define SPOT_WEIGHTS_TENSOR_FILE_H

#include <stdio.h>

#include "common/err.h"
#include "model/shape.h"
#include "shard/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_tensor_file {
    char *path;
    FILE *in;
    struct spot_st st;
    uint64_t data;               /* offset of the data */
    struct spot_gguf *gguf;      /* NULL: it is safetensors */
    struct spot_gguf_part *part; /* [st.n_tensor], of a GGUF file */
};

/* A name that ends in .gguf is opened as GGUF, of a model of this shape. Returns 0, or -1 with *err
 * (SPOT_ESYS, SPOT_EDATA); close it in both cases. */
int spot_tensor_file_open(struct spot_tensor_file *f, const char *path,
                          const struct spot_shape *shape, struct spot_err *err);
void spot_tensor_file_close(struct spot_tensor_file *f);

/* Check that the type is F32, F16 or BF16. Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_tensor_file_check_type(const struct spot_tensor_file *f, const struct spot_st_tensor *t,
                                struct spot_err *err);

/* Read the first n elements of a tensor of such a type; free them with spot_free_aligned. NULL with
 * *err. */
float *spot_tensor_file_read(const struct spot_tensor_file *f, const struct spot_st_tensor *t,
                             size_t n, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_TENSOR_FILE_H */
