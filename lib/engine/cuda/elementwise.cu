/* SPDX-License-Identifier: MIT */
/* Element by element: one thread per element, grid ceil(n / BLOCK); bound by memory. */
#include "engine/cuda/launch.cuh"

__device__ static size_t index_of()
{
    return static_cast<size_t>(blockIdx.x) * BLOCK + threadIdx.x;
}

/* 4 B read, 2 or 4 B written. */
template <typename T> __global__ void narrow_kernel(T *to, const float *from, size_t n)
{
    const size_t i = index_of();

    if (i < n)
        to[i] = from_float<T>(from[i]);
}

template <typename T> __global__ void widen_kernel(float *to, const T *from, size_t n)
{
    const size_t i = index_of();

    if (i < n)
        to[i] = to_float(from[i]);
}

/* Three arrays of T. */
template <typename T> __global__ void add_kernel(T *y, const T *a, const T *b, size_t n)
{
    const size_t i = index_of();

    if (i < n)
        y[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
}

/* Two arrays of T. */
template <typename T> __global__ void gelu_kernel(T *act, const T *pre, size_t n)
{
    const size_t i = index_of();
    float slope;

    if (i < n)
        act[i] = from_float<T>(gelu_of(to_float(pre[i]), &slope));
}

/* Three arrays of T. */
template <typename T> __global__ void gelu_back_kernel(T *d, const T *pre, size_t n)
{
    const size_t i = index_of();
    float slope;

    if (i < n) {
        gelu_of(to_float(pre[i]), &slope);
        d[i] = from_float<T>(to_float(d[i]) * slope);
    }
}

void spot_cuda_narrow(enum spot_real real, void *to, const float *from, size_t n, spot_stream s)
{
    SPOT_BY_REAL(real, SPOT_LAUNCH((narrow_kernel<T>), blocks_of(static_cast<int64_t>(n), BLOCK),
                                   BLOCK, 0, s, static_cast<T *>(to), from, n));
}

void spot_cuda_widen(enum spot_real real, float *to, const void *from, size_t n, spot_stream s)
{
    SPOT_BY_REAL(real, SPOT_LAUNCH((widen_kernel<T>), blocks_of(static_cast<int64_t>(n), BLOCK),
                                   BLOCK, 0, s, to, static_cast<const T *>(from), n));
}

void spot_cuda_add(enum spot_real real, void *y, const void *a, const void *b, size_t n,
                   spot_stream s)
{
    SPOT_BY_REAL(real, SPOT_LAUNCH((add_kernel<T>), blocks_of(static_cast<int64_t>(n), BLOCK),
                                   BLOCK, 0, s, static_cast<T *>(y), static_cast<const T *>(a),
                                   static_cast<const T *>(b), n));
}

void spot_cuda_gelu(enum spot_real real, void *act, const void *pre, size_t n, spot_stream s)
{
    SPOT_BY_REAL(real,
                 SPOT_LAUNCH((gelu_kernel<T>), blocks_of(static_cast<int64_t>(n), BLOCK), BLOCK, 0,
                             s, static_cast<T *>(act), static_cast<const T *>(pre), n));
}

void spot_cuda_gelu_back(enum spot_real real, void *d, const void *pre, size_t n, spot_stream s)
{
    SPOT_BY_REAL(real,
                 SPOT_LAUNCH((gelu_back_kernel<T>), blocks_of(static_cast<int64_t>(n), BLOCK),
                             BLOCK, 0, s, static_cast<T *>(d), static_cast<const T *>(pre), n));
}
