/* SPDX-License-Identifier: MIT */
/* launch.cuh - what all kernels share: launching, types, and sums whose order is fixed.
 *
 * The same sources are compiled a second time for the CPU (tests/twin), which replaces the two
 * macros below.
 */
#ifndef SPOT_ENGINE_CUDA_LAUNCH_CUH
#define SPOT_ENGINE_CUDA_LAUNCH_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "engine/cuda/kernels.h"

#ifndef SPOT_LAUNCH
#define SPOT_LAUNCH(kernel, grid, block, shared, stream, ...) \
    (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define SPOT_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#endif

enum { WARP = 32, BLOCK = 256 };
constexpr unsigned ALL_LANES = 0xffffffffU;

using bf16 = __nv_bfloat16;

static inline unsigned blocks_of(int64_t n, int64_t per_block)
{
    return static_cast<unsigned>((n + per_block - 1) / per_block);
}

__device__ inline float to_float(float x)
{
    return x;
}

__device__ inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}

template <typename T> __device__ inline T from_float(float x);

template <> __device__ inline float from_float<float>(float x)
{
    return x;
}

template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16(x);
}

/* W elements that move in one access. */
template <typename T, int W> struct alignas(sizeof(T) * W) pack {
    T x[W];
};

template <typename T, int W> __device__ inline pack<T, W> load(const T *p)
{
    return *reinterpret_cast<const pack<T, W> *>(p);
}

template <typename T, int W> __device__ inline void store(T *p, const pack<T, W> &v)
{
    *reinterpret_cast<pack<T, W> *>(p) = v;
}

/* Every lane gets the sum; a butterfly, so the order is that of the lanes' numbers. */
__device__ inline float warp_sum(float x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}

__device__ inline double warp_sum(double x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}

__device__ inline float warp_max(float x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}

/* Over a block of BLOCK threads; every thread gets the result. `room` is BLOCK / WARP shared
 * elements, free again after the next __syncthreads. */
template <typename T> __device__ inline T block_sum(T x, T *room)
{
    T sum = 0;

    x = warp_sum(x);
    if (threadIdx.x % WARP == 0)
        room[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < BLOCK / WARP; i++)
        sum += room[i];
    return sum;
}

__device__ inline float block_max(float x, float *room)
{
    x = warp_max(x);
    if (threadIdx.x % WARP == 0)
        room[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < BLOCK / WARP; i++)
        x = fmaxf(x, room[i]);
    return x;
}

/* Magnitude as bits: ordered like the magnitude, NaN above all. */
__device__ inline uint32_t magnitude(float x)
{
    return static_cast<uint32_t>(__float_as_int(x)) & 0x7fffffffU;
}

/* round(x * scale) to nearest even for |x * scale| <= 2^51 */
__device__ inline unsigned long long quantise(float x, double scale)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */

    /* unsigned: what is too large is marked elsewhere, and wraps here */
    return static_cast<unsigned long long>(
               __double_as_longlong(__dadd_rn(__dmul_rn(static_cast<double>(x), scale), magic))) -
           static_cast<unsigned long long>(__double_as_longlong(magic));
}

__device__ inline void add_to_sum(int64_t *sum, float x, double scale)
{
    *sum = static_cast<int64_t>(static_cast<unsigned long long>(*sum) + quantise(x, scale));
}

/* The tanh form of GELU is x times the logistic function of 2 sqrt(2/pi) (x + 0.044715 x^3). */
__device__ inline float gelu_of(float x, float *slope)
{
    const float u = x * (1.5957691216F + 0.0713548163F * x * x);
    const float e = expf(-fabsf(u)), small = e / (1 + e), large = 1 / (1 + e);
    const float s = u < 0 ? small : large, rest = u < 0 ? large : small;

    *slope = s + x * s * rest * (1.5957691216F + 0.2140644489F * x * x);
    return x * s;
}

/* Run `call` with T = float or bf16. */
#define SPOT_BY_REAL(real, call)   \
    do {                           \
        if ((real) == SPOT_BF16) { \
            using T = bf16;        \
            call;                  \
        } else {                   \
            using T = float;       \
            call;                  \
        }                          \
    } while (0)

#endif /* SPOT_ENGINE_CUDA_LAUNCH_CUH */
