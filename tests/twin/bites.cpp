// SPDX-License-Identifier: MIT
// Programs that are wrong, each in one way that a device would punish some day:
// tests/unit/test_twin.c asks whether the twin does at once. They are compiled as the kernels are.
#include <cmath>
#include <cstring>
#include <set>

#include "cuda_runtime.h"
#include "engine/cuda/device.h"

namespace
{
struct room {
    cudaStream_t stream;
    float *device, *pinned;
    enum { N = 64 };

    room()
    {
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaMalloc(reinterpret_cast<void **>(&device), N * sizeof(float));
        cudaMallocHost(reinterpret_cast<void **>(&pinned), N * sizeof(float));
        cudaMemsetAsync(device, 0, N * sizeof(float), stream);
    }
    float first()
    {
        float x = 0;

        cudaMemcpyAsync(&x, device, sizeof(x), cudaMemcpyDeviceToHost, stream);
        return x;
    }
    ~room()
    {
        cudaFree(device);
        cudaFreeHost(pinned);
        cudaStreamDestroy(stream);
    }
};

// Warp 0 writes what warp 1 reads, and no barrier lies between.
__global__ void no_barrier(float *out)
{
    __shared__ float x;

    if (threadIdx.x == 0)
        x = 1;
    if (threadIdx.x == 32)
        *out = std::isnan(x) ? 2 : x;
}

__global__ void last_block(float *out)
{
    *out = static_cast<float>(blockIdx.x);
}

__global__ void unwritten(float *out)
{
    __shared__ float x;

    *out = x;
    x = 5; // for a block that follows
}

__global__ void nothing(float *) {}

// How many results a launch has in so many runs.
int outcomes(void (*kernel)(float *), unsigned grid, unsigned block)
{
    std::set<float> seen;
    room r;

    for (int i = 0; i < 60; i++) {
        SPOT_LAUNCH(kernel, grid, block, 0, r.stream, r.device);
        seen.insert(r.first());
    }
    return static_cast<int>(seen.size());
}

int warps()
{
    return outcomes(no_barrier, 1, 64);
}

int blocks()
{
    return outcomes(last_block, 5, 1);
}

int shared()
{
    room r;

    SPOT_LAUNCH(unwritten, 3, 1, 0, r.stream, r.device);
    return std::isnan(r.first());
}

// The source is changed while the copy may still be on its way.
int copy_of(bool is_pinned)
{
    int n_late = 0;

    for (int i = 0; i < 30; i++) {
        room r;
        float own = 1;
        float *const from = is_pinned ? r.pinned : &own;

        *from = 1;
        cudaMemcpyAsync(r.device, from, sizeof(*from), cudaMemcpyHostToDevice, r.stream);
        *from = 2;
        n_late += r.first() > 1;
    }
    return n_late;
}

int pinned_copy()
{
    return copy_of(true);
}

int pageable_copy()
{
    return copy_of(false);
}

// What is read before anybody waited.
int late_download()
{
    int n_late = 0;

    for (int i = 0; i < 30; i++) {
        room r;

        *r.pinned = 7;
        cudaMemcpyAsync(r.pinned, r.device, sizeof(float), cudaMemcpyDeviceToHost, r.stream);
        n_late += *r.pinned > 1;
        cudaStreamSynchronize(r.stream);
    }
    return n_late;
}

int free_waits()
{
    room r;
    void *other;

    cudaMalloc(&other, 1);
    *r.pinned = 7;
    cudaMemcpyAsync(r.pinned, r.device, sizeof(float), cudaMemcpyDeviceToHost, r.stream);
    cudaFree(other);
    return *r.pinned < 1;
}

int host_reads()
{
    room r;

    return *static_cast<volatile float *>(r.device) > 0;
}

int host_writes()
{
    room r;

    *static_cast<volatile float *>(r.device) = 1;
    return 0;
}

int wrong_kind()
{
    room r;
    float x = 0;

    cudaMemcpyAsync(&x, r.device, sizeof(x), cudaMemcpyDeviceToDevice, r.stream);
    return 0;
}

int beyond()
{
    room r;

    twin_guard(r.device + 32, 32 * sizeof(float));
    cudaMemsetAsync(r.device, 0, 33 * sizeof(float), r.stream);
    cudaStreamSynchronize(r.stream);
    return 0;
}

int large_shared()
{
    room r;

    SPOT_LAUNCH(nothing, 1, 32, 49 << 10, r.stream, r.device);
    return 0;
}

int last_error()
{
    room r;
    int n = 0;

    for (int i = 0; i < 30; i++) {
        cudaMemsetAsync(r.device, 0, sizeof(float), r.stream);
        while (cudaStreamQuery(r.stream) == cudaErrorNotReady)
            n += cudaGetLastError() == cudaErrorNotReady;
    }
    return n;
}

// Products of so many shapes; of one shape, whose bias is aligned as it may be. 1: all is well.
int products(int n_shape, bool is_part)
{
    struct spot_err err;
    void *memory;
    struct spot_device *const dev = spot_device_open(1 << 20, &memory, &err);
    char *const at = static_cast<char *>(memory);
    int rc;

    for (int i = 0; i < n_shape; i++) {
        struct spot_product p = {};

        p.real = SPOT_BF16;
        p.m = 1;
        p.n = 8;
        p.k = is_part ? 8 : i + 1;
        p.a = at;
        p.b = at + 65536;
        p.c = at + (512 << 10);
        p.is_b_transposed = true;
        p.epilogue = SPOT_BIAS;
        p.bias = at + (768 << 10) + (is_part && i ? 16 : 0);
        p.is_part = is_part;
        spot_device_product(dev, &p);
    }
    rc = spot_device_status(dev, &err);
    spot_device_close(dev);
    return rc ? 0 : 1;
}

int many_shapes()
{
    return products(300, false);
}

int bias_of_a_part()
{
    return products(2, true);
}

const struct {
    const char *name;
    int (*run)();
} bites[] = {
    { "warps", warps },
    { "blocks", blocks },
    { "shared", shared },
    { "pinned copy", pinned_copy },
    { "pageable copy", pageable_copy },
    { "late download", late_download },
    { "free waits", free_waits },
    { "host reads", host_reads },
    { "host writes", host_writes },
    { "wrong kind", wrong_kind },
    { "beyond", beyond },
    { "large shared", large_shared },
    { "last error", last_error },
    { "many shapes", many_shapes },
    { "bias of a part", bias_of_a_part },
};
} // namespace

// How often the twin bit, or a number that the test knows; -1: no such name.
extern "C" __attribute__((visibility("default"))) int twin_bite(const char *name)
{
    for (const auto &b : bites)
        if (!strcmp(b.name, name))
            return b.run();
    return -1;
}
