/* SPDX-License-Identifier: MIT */
/* attention.cuh - where the rows of a head lie, and the door to the tensor-core kernels. */
#ifndef SPOT_ENGINE_CUDA_ATTENTION_CUH
#define SPOT_ENGINE_CUDA_ATTENTION_CUH

#include "engine/cuda/launch.cuh"

/* Passed to kernels by value; pointers of the arrays' element type. */
template <typename T> struct heads {
    int64_t seq, width, n_head, dim, per_shard, shard_width;
    float scale; /* of q . k */
    const T *qkv;
    T *out;
    float *lse;
    const T *dout;
    T *dqkv;
    float *dot;
};

template <typename T> static inline struct heads<T> heads_of(const struct spot_cuda_attention *at) {
    struct heads<T> h;

    h.seq = at->seq;
    h.width = at->width;
    h.n_head = at->n_head;
    h.dim = at->width / at->n_head;
    h.per_shard = at->n_head / at->n_shard;
    h.shard_width = at->width / at->n_shard;
    h.scale = 1.0F / sqrtf(static_cast<float>(h.dim));
    h.qkv = static_cast<const T *>(at->qkv);
    h.out = static_cast<T *>(at->out);
    h.lse = at->lse;
    h.dout = static_cast<const T *>(at->dout);
    h.dqkv = static_cast<T *>(at->dqkv);
    h.dot = at->dot;
    return h;
}

/* Offset in qkv of q of position 0; k and v lie one and two shard widths behind, the next position
 * 3C. `unit` is sequence * H + head. */
template <typename T>
__device__ inline int64_t query_offset(const struct heads<T> &h, int64_t unit)
{
    const int64_t head = unit % h.n_head;

    return unit / h.n_head * h.seq * 3 * h.width + head / h.per_shard * 3 * h.shard_width +
           head % h.per_shard * h.dim;
}

/* Offset in out of position 0; the next position C. */
template <typename T> __device__ inline int64_t out_offset(const struct heads<T> &h, int64_t unit)
{
    return unit / h.n_head * h.seq * h.width + unit % h.n_head * h.dim;
}

/* Tensor cores: bf16, head dimension 64 or 128. False when they are not for this shape. */
bool spot_cuda_flash_forward(const struct spot_cuda_attention *at, spot_stream s);
/* at->dot is filled in before. */
bool spot_cuda_flash_backward(const struct spot_cuda_attention *at, spot_stream s);

#endif /* SPOT_ENGINE_CUDA_ATTENTION_CUH */
