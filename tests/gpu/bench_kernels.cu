/* SPDX-License-Identifier: MIT */
/* bench_kernels - single kernels against what the device can do: copy, AdamW, attention.
 *
 * Best of ten, in the same run. Attention counts 4 T^2 d / 2 flop per head forward and 2.5 times
 * that backward, as FlashAttention's papers do, although ours computes more.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <vector>

#include "engine/cuda/kernels.h"

static void check(cudaError_t status)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "bench_kernels: %s\n", cudaGetErrorString(status));
    exit(status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ? 77 : 1);
}

template <typename T> static T *zeros(size_t n)
{
    void *p;

    check(cudaMalloc(&p, n * sizeof(T)));
    check(cudaMemset(p, 0, n * sizeof(T)));
    return static_cast<T *>(p);
}

/* Halves of a word of either sign between 0.5 and 2 as bf16, and so is the word as fp32. */
static __global__ void scatter_kernel(uint32_t *word, size_t n)
{
    for (size_t i = blockIdx.x * size_t{ blockDim.x } + threadIdx.x; i < n;
         i += size_t{ gridDim.x } * blockDim.x) {
        uint32_t r = static_cast<uint32_t>(i) * 2654435761U;

        r = (r ^ r >> 16) * 2246822519U;
        word[i] = 0x3f003f00U | (r & 0x80ff80ffU);
    }
}

/* Numbers of no pattern: zeros take less power, and so are computed with faster. */
template <typename T> static T *device(size_t n)
{
    T *const p = zeros<T>(n);

    scatter_kernel<<<1024, 256>>>(reinterpret_cast<uint32_t *>(p), n * sizeof(T) / 4);
    check(cudaDeviceSynchronize());
    return p;
}

static double best_s(cudaStream_t stream, const std::function<void()> &run)
{
    cudaEvent_t begin, end;
    float best = 1e30F, ms;

    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    for (int i = 0; i < 11; i++) {
        check(cudaEventRecord(begin, stream));
        run();
        check(cudaEventRecord(end, stream));
        check(cudaEventSynchronize(end));
        check(cudaEventElapsedTime(&ms, begin, end));
        best = i ? std::min(best, ms) : best;
    }
    check(cudaGetLastError());
    return 1e-3 * best;
}

static void memory(cudaStream_t stream)
{
    const size_t n = size_t{ 1 } << 27, n_chunk = n / SPOT_EXACT_CHUNK;
    std::vector<struct spot_cuda_chunk> chunk(n_chunk);
    struct spot_cuda_planes planes = {};
    struct spot_cuda_steps steps = {};
    struct spot_cuda_chunk *const on_device = zeros<struct spot_cuda_chunk>(n_chunk);
    unsigned long long *const top = zeros<unsigned long long>(SPOT_TENSORS_MAX);

    for (size_t i = 0; i < n_chunk; i++) {
        const int64_t at = static_cast<int64_t>(i) * SPOT_EXACT_CHUNK;

        chunk[i] = { at, at, SPOT_EXACT_CHUNK, 0 };
    }
    check(cudaMemcpy(on_device, chunk.data(), n_chunk * sizeof(chunk[0]), cudaMemcpyHostToDevice));
    for (float *&plane : planes.plane)
        plane = device<float>(n);
    planes.sum = device<int64_t>(n);
    planes.weight = device<uint16_t>(n);
    planes.chunk = on_device;
    planes.n_chunk = static_cast<int>(n_chunk);
    const double copy_s = best_s(stream, [&]() {
        check(cudaMemcpyAsync(planes.plane[1], planes.plane[0], n * 4, cudaMemcpyDeviceToDevice,
                              stream));
    });
    const double adamw_s =
        best_s(stream, [&]() { spot_cuda_adamw(SPOT_BF16, &planes, top, &steps, stream); });
    const double copy = 8.0 * n / copy_s * 1e-9, adamw = 34.0 * n / adamw_s * 1e-9;

    printf("| kernel | GB/s | of copy |\n| --- | --- | --- |\n| copy | %.0f | 100 %% |\n", copy);
    printf("| AdamW | %.0f | %.0f %% |\n", adamw, adamw / copy * 100);
}

static void attention(cudaStream_t stream, int64_t b, int64_t seq, int64_t n_head,
                      int64_t n_kv_head, int64_t dim)
{
    const size_t n = static_cast<size_t>(b * seq), c = static_cast<size_t>(n_head * dim),
                 qkv = static_cast<size_t>((n_head + 2 * n_kv_head) * dim);
    struct spot_cuda_attention at = {};

    at.real = SPOT_BF16;
    at.n_seq = b;
    at.seq = seq;
    at.dim = dim;
    at.n_head = n_head;
    at.n_kv_head = n_kv_head;
    at.n_shard = 1;
    at.qkv = device<uint16_t>(n * qkv);
    at.out = device<uint16_t>(n * c);
    at.lse = device<float>(n * static_cast<size_t>(n_head));
    at.dout = device<uint16_t>(n * c);
    at.dqkv = device<uint16_t>(n * qkv);
    at.dot = device<float>(n * static_cast<size_t>(n_head));
    const double flop =
        2.0 * static_cast<double>(b * n_head) * static_cast<double>(seq * seq * dim);
    const double forward_s = best_s(stream, [&]() { spot_cuda_attention_forward(&at, stream); });
    const double backward_s = best_s(stream, [&]() { spot_cuda_attention_backward(&at, stream); });

    printf("| %ld | %ld | %ld | %.0f | %.0f |\n", static_cast<long>(dim),
           static_cast<long>(n_head / n_kv_head), static_cast<long>(seq), flop / forward_s * 1e-12,
           2.5 * flop / backward_s * 1e-12);
    for (const void *p :
         { at.qkv, static_cast<const void *>(at.out), static_cast<const void *>(at.lse), at.dout,
           static_cast<const void *>(at.dqkv), static_cast<const void *>(at.dot) })
        check(cudaFree(const_cast<void *>(p)));
}

static double now_s()
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/* What copies between host and device and a launch cost: bounds of a migration, of small steps. */
static void host(cudaStream_t stream)
{
    const size_t n_byte = size_t{ 1 } << 30;
    uint32_t *const there = device<uint32_t>(n_byte / 4);
    void *const here = malloc(n_byte);
    const auto copy = [&](void *to, const void *from, cudaMemcpyKind kind) {
        return n_byte /
               best_s(stream, [&]() { check(cudaMemcpyAsync(to, from, n_byte, kind, stream)); }) *
               1e-9;
    };

    memset(here, 1, n_byte);
    printf("| host, pageable: from the device | %.1f GB/s |\n",
           copy(here, there, cudaMemcpyDeviceToHost));
    const double at = now_s();
    check(cudaHostRegister(here, n_byte, cudaHostRegisterDefault));
    printf("| host, to page-lock | %.1f GB/s |\n", n_byte / (now_s() - at) * 1e-9);
    printf("| host, page-locked: from the device | %.1f GB/s |\n",
           copy(here, there, cudaMemcpyDeviceToHost));
    printf("| host, page-locked: to the device | %.1f GB/s |\n",
           copy(there, here, cudaMemcpyHostToDevice));
    check(cudaHostUnregister(here));
    free(here);
    const double launch_s = best_s(stream, [&]() {
        for (int i = 0; i < 1000; i++)
            scatter_kernel<<<1, 32, 0, stream>>>(there, 0);
    });
    printf("| launch | %.2f us |\n", launch_s * 1e3);
    check(cudaFree(there));
}

int main()
{
    cudaStream_t stream;

    check(cudaStreamCreate(&stream));
    host(stream);
    memory(stream);
    printf("\n| head dim | heads per key head | T | forward TFLOP/s | backward TFLOP/s |\n"
           "| --- | --- | --- | --- | --- |\n");
    for (const int64_t dim : { 64, 128 })
        for (const int64_t group : { 1, 4 })
            for (const int64_t seq : { 1024, 4096 })
                attention(stream, 16384 / seq, seq, 2048 / dim, 2048 / dim / group, dim);
    return 0;
}
