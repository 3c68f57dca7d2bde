/* SPDX-License-Identifier: MIT */
/* cuda_runtime.h - the part of CUDA that spot's kernels use, on the CPU.
 *
 * The twin: the .cu files of lib/engine/cuda are compiled with a C++ compiler against the headers
 * of this folder. A launch is queued; it runs the blocks of its grid in random order, the threads
 * of a block as fibers that change at barriers and warp exchanges, warps in random order, so shared
 * memory, shuffles and matrix fragments mean what they mean on a device. Shared memory is NaN when
 * a block begins. Launches of several threads take turns.
 */
#ifndef SPOT_TWIN_CUDA_RUNTIME_H
#define SPOT_TWIN_CUDA_RUNTIME_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "cuda_runtime_api.h"

#define SPOT_TWIN 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
/* one block of thread-local memory, which can be found as a whole */
#define __shared__   static thread_local
#define __align__(n) alignas(n)
#define __restrict__

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct twin_fiber;

/* What a kernel reads of itself; set before each fiber runs. */
extern dim3 twin_thread, twin_block, twin_grid, twin_block_dim;
extern unsigned char *twin_dynamic;
#define threadIdx twin_thread
#define blockIdx  twin_block
#define gridDim   twin_grid
#define blockDim  twin_block_dim

/* Arguments are taken when it is called. */
void twin_launch(dim3 grid, dim3 block, size_t shared_byte, cudaStream_t stream,
                 std::function<void()> kernel);
void twin_barrier();
/* 16 bytes into shared memory, zeros if `from` is NULL: what lies there is poison until the wait
 * that asks for it. */
void twin_copy_async(void *to, const void *from);
void twin_copies_commit();
void twin_copies_wait(unsigned n_left);
/* Every lane of the warp gives 64 bytes at most and gets a look at what all gave. */
const unsigned char (*twin_exchange(const void *mine, size_t n_byte))[64];

/* Past 48 KB of dynamic shared memory a kernel has to ask; what it asked for is checked at its
 * launch. */
void twin_allow_shared(const void *kernel, size_t n_byte);
void twin_check_shared(const void *kernel, size_t n_byte);
#define SPOT_ALLOW_SHARED(kernel, n_byte) \
    twin_allow_shared(reinterpret_cast<const void *>(kernel), n_byte)

#ifdef SPOT_PTX
#include "ptx/launch.hpp"
#else
/* The log of launches has numbers as they are, pointers as 0 or 1, and no structures. */
void twin_log_launch(const char *kernel, dim3 grid, dim3 block, const char *arguments);
template <typename T> static inline void twin_note(char *&at, T x)
{
    if constexpr (std::is_integral<T>::value || std::is_pointer<T>::value)
        at += std::snprintf(at, 24, " %lld",
                            std::is_pointer<T>::value ? static_cast<long long>(!!x) : (long long)x);
}

template <typename... P, typename... A>
static inline void twin_launch_of(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                  size_t shared, cudaStream_t stream, A... a)
{
    const std::tuple<P...> values(static_cast<P>(a)...);

    char text[24 * sizeof...(P) + 1] = "", *at = text;

    std::apply([&](auto... x) { (twin_note(at, x), ...); }, values);
    twin_log_launch(name, grid, block, text);
    twin_check_shared(reinterpret_cast<const void *>(kernel), shared);
    twin_launch(grid, block, shared, stream, [=]() { std::apply(kernel, values); });
}
#define SPOT_LAUNCH(kernel, grid, block, shared, stream, ...) \
    twin_launch_of(#kernel, (kernel), grid, block, shared, stream, __VA_ARGS__)
#endif
#define SPOT_DYNAMIC_SHARED(name) unsigned char *const name = twin_dynamic

static inline void __syncthreads()
{
    twin_barrier();
}

static inline void __syncwarp(unsigned = 0)
{
    const char nothing = 0;

    twin_exchange(&nothing, 1);
}

template <typename T> static inline T __shfl_sync(unsigned, T x, int lane)
{
    T y;

    std::memcpy(&y, twin_exchange(&x, sizeof(x))[lane], sizeof(y));
    return y;
}

template <typename T> static inline T __shfl_xor_sync(unsigned mask, T x, int by)
{
    return __shfl_sync(mask, x, static_cast<int>(twin_thread.x % 32) ^ by);
}

static inline int __float_as_int(float x)
{
    int y;

    std::memcpy(&y, &x, sizeof(y));
    return y;
}

static inline float __int_as_float(int x)
{
    float y;

    std::memcpy(&y, &x, sizeof(y));
    return y;
}

static inline long long __double_as_longlong(double x)
{
    long long y;

    std::memcpy(&y, &x, sizeof(y));
    return y;
}

static inline double __longlong_as_double(long long x)
{
    double y;

    std::memcpy(&y, &x, sizeof(y));
    return y;
}

static inline double __dadd_rn(double x, double y)
{
    volatile double a = x;

    return a + y;
}

static inline double __dmul_rn(double x, double y)
{
    volatile double p = x * y;

    return p;
}

template <typename T> static inline T atomicMax(T *at, T x)
{
    const T old = *at;

    *at = x > old ? x : old;
    return old;
}

#endif /* SPOT_TWIN_CUDA_RUNTIME_H */
