/* SPDX-License-Identifier: MIT */
/* attention.cuh - where the rows of a head lie, and the door to the tensor-core kernels. */
#ifndef SPOT_ENGINE_CUDA_ATTENTION_CUH
#define SPOT_ENGINE_CUDA_ATTENTION_CUH

#include "engine/cuda/launch.cuh"

/* Passed to kernels by value; pointers of the arrays' element type. */
template <typename T> struct heads {
    int64_t seq, n_head, n_kv_head, dim;
    int64_t group, per_shard, kv_per_shard;   /* query heads per key head; heads in a shard */
    int64_t stride, shard_stride, out_stride; /* of qkv from row to row, shard to shard; of out */
    float scale;                              /* of q . k */
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
    h.n_head = at->n_head;
    h.n_kv_head = at->n_kv_head;
    h.dim = at->dim;
    h.group = at->n_head / at->n_kv_head;
    h.per_shard = at->n_head / at->n_shard;
    h.kv_per_shard = at->n_kv_head / at->n_shard;
    h.shard_stride = (h.per_shard + 2 * h.kv_per_shard) * h.dim;
    h.stride = at->n_shard * h.shard_stride;
    h.out_stride = at->n_head * h.dim;
    h.scale = 1.0F / sqrtf(static_cast<float>(h.dim));
    h.qkv = static_cast<const T *>(at->qkv);
    h.out = static_cast<T *>(at->out);
    h.lse = at->lse;
    h.dout = static_cast<const T *>(at->dout);
    h.dqkv = static_cast<T *>(at->dqkv);
    h.dot = at->dot;
    return h;
}

/* Offsets of position 0, the next one `stride` further. `unit` is sequence * H + head, and
 * `kv_unit` sequence * Hk + head of keys and values. */
template <typename T>
__device__ inline int64_t query_offset(const struct heads<T> &h, int64_t unit)
{
    const int64_t head = unit % h.n_head;

    return unit / h.n_head * h.seq * h.stride + head / h.per_shard * h.shard_stride +
           head % h.per_shard * h.dim;
}

template <typename T>
__device__ inline int64_t key_offset(const struct heads<T> &h, int64_t kv_unit)
{
    const int64_t head = kv_unit % h.n_kv_head;

    return kv_unit / h.n_kv_head * h.seq * h.stride + head / h.kv_per_shard * h.shard_stride +
           (h.per_shard + head % h.kv_per_shard) * h.dim;
}

/* From a key to its value. */
template <typename T> __device__ inline int64_t value_step(const struct heads<T> &h)
{
    return h.kv_per_shard * h.dim;
}

/* In out, where the next position is out_stride further. */
template <typename T> __device__ inline int64_t out_offset(const struct heads<T> &h, int64_t unit)
{
    return unit / h.n_head * h.seq * h.out_stride + unit % h.n_head * h.dim;
}

/* Tensor cores: bf16, head dimension 64 or 128. False when they are not for this shape. */
bool spot_cuda_flash_forward(const struct spot_cuda_attention *at, spot_stream s);
/* at->dot is filled in before. */
bool spot_cuda_flash_backward(const struct spot_cuda_attention *at, spot_stream s);

#endif /* SPOT_ENGINE_CUDA_ATTENTION_CUH */
