/* SPDX-License-Identifier: MIT */
/* gguf_tensors.h - the tensors of a GGUF file under the names and in the layouts of Hugging Face's
 * files, so that hf_names.h holds for both. */
#ifndef SPOT_WEIGHTS_GGUF_TENSORS_H
#define SPOT_WEIGHTS_GGUF_TENSORS_H

#include "shard/safetensors.h"
#include "weights/gguf.h"
#include "weights/hf_names.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One tensor of the model in the file. */
struct spot_gguf_part {
    const struct spot_gguf_tensor *tensor;
    uint64_t first;     /* first element, if all experts share a tensor */
    int64_t rows, cols; /* as stored in the file; a vector has one column */
    int64_t n_turned;   /* heads whose rotary pairs are adjacent, not half a head apart; 0: none */
    bool is_transposed; /* GPT-2's matrices are input by output in Hugging Face's files */
};

/* Fill *st as if the file were safetensors of F32, and part[st->n_tensor], which the caller frees.
 * A tensor that the model does not have is refused; rotary tensors are ignored. Returns 0, or -1
 * with *err (SPOT_EDATA). */
int spot_gguf_list(const struct spot_gguf *g, const struct spot_shape *shape, struct spot_st *st,
                   struct spot_gguf_part **part, struct spot_err *err);

/* Read the first n numbers, whole rows, in the layout of Hugging Face's files. */
int spot_gguf_part_read(const struct spot_gguf *g, const struct spot_gguf_part *part, size_t n,
                        float *x, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_GGUF_TENSORS_H */
