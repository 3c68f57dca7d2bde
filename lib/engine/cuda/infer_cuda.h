/* SPDX-License-Identifier: MIT */
/* infer_cuda.h - the serving engine on a device: shared by its two files. Symbols as in
 * infer_kernels.h; R rows of logits. */
#ifndef SPOT_ENGINE_CUDA_INFER_CUDA_H
#define SPOT_ENGINE_CUDA_INFER_CUDA_H

#include "engine/cuda/device.h"
#include "engine/cuda/infer_kernels.h"
#include "engine/infer_state.h"
#include "engine/memory_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_cuda_infer {
    struct spot_infer *f;
    struct spot_device *dev;
    spot_stream stream;
    enum spot_real real;
    const void **tensor; /* as f->tensor, on the device; NULL: not needed here */
    /* on the device */
    const void **embed; /* [shards of the model] the table of tokens */
    float *pool, *turn;
    float *x, *norm, *stat; /* [N][C], [N][C], [N][2] */
    float *qkv, *att;       /* [N][S][Q], [N][S][H d] */
    float *pre, *act;       /* [N][S][..] before and after the activation */
    float *sum;             /* [S][N][C] sums per shard */
    float *other;           /* [N][C] of another member; NULL if none is directly reachable */
    float *logit;           /* [R][S][rows of a shard] */
    float *partial, *paged; /* scratch of products and of attention */
    int32_t *meta;          /* description of a run, see infer_pass_cuda.c */
    /* on the host, page-locked */
    int32_t *meta_host;
    float *host; /* hidden states, or logits */
};

/* A run; f->n_token > 0. Returns 0, or -1 with *err. */
int spot_cuda_infer_pass(struct spot_infer *f, struct spot_err *err);

/* Tokens per product: bounds its scratch, does not affect the bits. */
int64_t spot_cuda_infer_chunk(int64_t n_in, int64_t n_out);
/* Maximum number of pages of a sequence; int32 in `meta`. */
int64_t spot_cuda_infer_page_stride(const struct spot_infer *f);
size_t spot_cuda_infer_meta_elem(const struct spot_infer *f);
/* Floats of `host`. */
size_t spot_cuda_infer_host_elem(const struct spot_infer *f);

extern const struct spot_infer_backend spot_infer_cuda;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_INFER_CUDA_H */
