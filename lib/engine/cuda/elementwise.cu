/* SPDX-License-Identifier: MIT */
/* Element by element: one thread per element, grid ceil(n / BLOCK); bound by memory. SwiGLU: one
 * block per row. */
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

/* One array of fp32 read, one of T written. */
template <typename T>
__global__ void finish_kernel(T *y, const float *x, const T *bias, int64_t n, int64_t c)
{
    const int64_t i = static_cast<int64_t>(index_of());

    if (i < n)
        y[i] = from_float<T>(bias ? x[i] + to_float(bias[i % c]) : x[i]);
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

/* x sigma(x); the logistic function and what it lacks to 1, without cancellation. */
__device__ static float silu_of(float x, float *sigma, float *rest)
{
    const float e = expf(-fabsf(x)), small = e / (1 + e), large = 1 / (1 + e);

    *sigma = x < 0 ? small : large;
    *rest = x < 0 ? large : small;
    return x * *sigma;
}

/* Where gate of column i of a row of act lies in the row of pre; up lies F / S further. */
__device__ static int gate_of(int i, int per_shard)
{
    return i + i / per_shard * per_shard;
}

/* Two arrays of N * F read, one written. */
template <typename T, int W>
__global__ void swiglu_kernel(T *act, const T *pre, int ffn, int per_shard)
{
    act += static_cast<int64_t>(blockIdx.x) * ffn;
    pre += static_cast<int64_t>(blockIdx.x) * 2 * ffn;
    for (int i = static_cast<int>(threadIdx.x) * W; i < ffn; i += BLOCK * W) {
        const T *const at = pre + gate_of(i, per_shard);
        const pack<T, W> gate = load<T, W>(at), up = load<T, W>(at + per_shard);
        pack<T, W> y;
        float sigma, rest;

        for (int j = 0; j < W; j++)
            y.x[j] = from_float<T>(silu_of(to_float(gate.x[j]), &sigma, &rest) * to_float(up.x[j]));
        store<T, W>(act + i, y);
    }
}

/* Three arrays of N * F read, three written. */
template <typename T, int W>
__global__ void swiglu_back_kernel(T *dpre, T *act, const T *pre, const T *dact, int ffn,
                                   int per_shard)
{
    const int64_t r = blockIdx.x;

    for (int i = static_cast<int>(threadIdx.x) * W; i < ffn; i += BLOCK * W) {
        const int64_t at = 2 * r * ffn + gate_of(i, per_shard);
        const pack<T, W> gate = load<T, W>(pre + at), up = load<T, W>(pre + at + per_shard),
                         d = load<T, W>(dact + r * ffn + i);
        pack<T, W> y, dgate, dup;

        for (int j = 0; j < W; j++) {
            const float u = to_float(up.x[j]), by = to_float(d.x[j]);
            float sigma, rest;
            const float silu = silu_of(to_float(gate.x[j]), &sigma, &rest);

            y.x[j] = from_float<T>(silu * u);
            dgate.x[j] = from_float<T>(by * u * (sigma + silu * rest));
            dup.x[j] = from_float<T>(by * silu);
        }
        store<T, W>(act + r * ffn + i, y);
        store<T, W>(dpre + at, dgate);
        store<T, W>(dpre + at + per_shard, dup);
    }
}

int spot_cuda_compiler(void)
{
    return 100 * __CUDACC_VER_MAJOR__ + __CUDACC_VER_MINOR__;
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

void spot_cuda_finish(enum spot_real real, void *y, const float *x, const void *bias, int64_t n_row,
                      int64_t c, spot_stream s)
{
    SPOT_BY_REAL(real,
                 SPOT_LAUNCH((finish_kernel<T>), blocks_of(n_row * c, BLOCK), BLOCK, 0, s,
                             static_cast<T *>(y), x, static_cast<const T *>(bias), n_row * c, c));
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

/* Accesses of 16 bytes where the width of a shard allows. */
#define BY_SHARD(real, per_shard, n_row, kernel, ...)                                \
    SPOT_BY_REAL(                                                                    \
        real, constexpr int W = 16 / sizeof(T); if ((per_shard) % W == 0) {          \
            SPOT_LAUNCH((kernel<T, W>), blocks_of(n_row, 1), BLOCK, 0, __VA_ARGS__); \
        } else { SPOT_LAUNCH((kernel<T, 1>), blocks_of(n_row, 1), BLOCK, 0, __VA_ARGS__); })

void spot_cuda_swiglu(enum spot_real real, void *act, const void *pre, int64_t n_row, int64_t ffn,
                      int64_t n_shard, spot_stream s)
{
    const int per_shard = static_cast<int>(ffn / n_shard);

    BY_SHARD(real, per_shard, n_row, swiglu_kernel, s, static_cast<T *>(act),
             static_cast<const T *>(pre), static_cast<int>(ffn), per_shard);
}

void spot_cuda_swiglu_back(enum spot_real real, void *dpre, void *act, const void *pre,
                           const void *dact, int64_t n_row, int64_t ffn, int64_t n_shard,
                           spot_stream s)
{
    const int per_shard = static_cast<int>(ffn / n_shard);

    BY_SHARD(real, per_shard, n_row, swiglu_back_kernel, s, static_cast<T *>(dpre),
             static_cast<T *>(act), static_cast<const T *>(pre), static_cast<const T *>(dact),
             static_cast<int>(ffn), per_shard);
}
