/* SPDX-License-Identifier: MIT */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_nccl.h"
#include "common/xalloc.h"
#include "engine/cuda/device_state.h"

/* From SM_JIT on the driver compiles the module's PTX: see CUDA_ARCH in the Makefile. */
enum { SM_MIN = 80, SM_JIT = 100 };

/* Device memory that the runtime and the libraries need in addition: cuBLASLt loads its kernels
 * when they are chosen, NCCL has buffers for each peer. A guess, to be measured. */
static const size_t reserve_byte = (size_t)384 << 20;

/* --- errors ---------------------------------------------------------------- */

static int cuda_error(struct spot_err *err, const char *what, cudaError_t status)
{
    (void)cudaGetLastError(); /* clears the error of this call; a broken context stays broken */
    return spot_err_set(err, SPOT_EGPU, "CUDA: %s: %s (%s)", what, cudaGetErrorString(status),
                        cudaGetErrorName(status));
}

static void note(struct spot_device *dev, const char *what, cudaError_t status)
{
    if (status != cudaSuccess && spot_device_is_ok(dev))
        cuda_error(&dev->err, what, status);
}

void spot_device_note(struct spot_device *dev, const char *what, int status)
{
    note(dev, what, (cudaError_t)status);
}

int spot_device_status(struct spot_device *dev, struct spot_err *err)
{
    if (spot_device_is_ok(dev))
        note(dev, "a kernel", cudaGetLastError());
    if (spot_device_is_ok(dev))
        return 0;
    *err = dev->err;
    return -1;
}

/* --- properties of the device ------------------------------------------------------------ */

static cudaError_t describe(struct spot_device_kind *kind, int device)
{
    int major = 0, minor = 0;
    cudaError_t status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);

    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&kind->n_sm, cudaDevAttrMultiProcessorCount, device);
    kind->sm = 10 * major + minor;
    return status;
}

int spot_device_probe(struct spot_device_kind *kind, struct spot_err *err)
{
    int driver = 0, n = 0, device = 0;
    cudaError_t status = cudaDriverGetVersion(&driver);

    if (status != cudaSuccess || !driver)
        return spot_err_set(err, SPOT_EGPU, "no NVIDIA driver on this host; try --device cpu");
    status = cudaGetDeviceCount(&n);
    if (status == cudaErrorInsufficientDriver)
        return spot_err_set(err, SPOT_EGPU,
                            "the NVIDIA driver is for CUDA %d.%d, the module needs %d.%d; try "
                            "--device cpu",
                            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                            CUDART_VERSION % 1000 / 10);
    if (status == cudaErrorNoDevice || (status == cudaSuccess && !n))
        return spot_err_set(err, SPOT_EGPU, "no CUDA device; try --device cpu");
    if (status == cudaSuccess)
        status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = describe(kind, device);
    if (status != cudaSuccess)
        return cuda_error(err, "device", status);
    kind->driver = kind->sm < SM_JIT ? 0 : driver;
    if (kind->sm < SM_MIN)
        return spot_err_set(err, SPOT_EGPU,
                            "the CUDA device has compute capability %d.%d, 8.0 is needed; try "
                            "--device cpu",
                            kind->sm / 10, kind->sm % 10);
    return 0;
}

size_t spot_device_available(void)
{
    size_t free_byte, total_byte;

    if (cudaMemGetInfo(&free_byte, &total_byte) != cudaSuccess)
        return SIZE_MAX;
    return free_byte > reserve_byte ? free_byte - reserve_byte : 1; /* 0: no limit */
}

size_t spot_device_overhead(void)
{
    return SPOT_DEVICE_WORKSPACE_BYTE;
}

size_t spot_device_guard_byte(void)
{
#ifdef SPOT_TWIN_GUARD
    return SPOT_TWIN_GUARD;
#else
    return 0;
#endif
}

void spot_device_guard(void *at, size_t n_byte)
{
#ifdef SPOT_TWIN_GUARD
    twin_guard(at, n_byte);
#else
    (void)at;
    (void)n_byte;
#endif
}

/* --- open and close -------------------------------------------------------------------- */

static void open_device(struct spot_device *dev, size_t memory_byte)
{
    note(dev, "stream", cudaStreamCreateWithFlags(&dev->stream, cudaStreamNonBlocking));
    if (spot_device_is_ok(dev))
        note(dev, "memory of a stage", cudaMalloc(&dev->memory, memory_byte ? memory_byte : 1));
    if (spot_device_is_ok(dev))
        note(dev, "workspace", cudaMalloc(&dev->workspace, SPOT_DEVICE_WORKSPACE_BYTE));
    if (spot_device_is_ok(dev))
        spot_device_open_products(dev);
    if (spot_device_is_ok(dev))
        spot_device_zero(dev, dev->memory, memory_byte);
}

struct spot_device *spot_device_open(size_t memory_byte, void **memory, struct spot_err *err)
{
    struct spot_device *const dev = spot_xcalloc(1, sizeof(*dev));

    open_device(dev, memory_byte);
    *memory = dev->memory;
    if (!spot_device_status(dev, err))
        return dev;
    spot_device_close(dev);
    return NULL;
}

void spot_device_close(struct spot_device *dev)
{
    if (!dev || spot_nccl.is_held())
        return; /* each of these calls would wait for kernels that never end */
    if (dev->stream)
        cudaStreamSynchronize(dev->stream);
    spot_device_close_products(dev);
    cudaFree(dev->workspace);
    cudaFree(dev->memory);
    if (dev->stream)
        cudaStreamDestroy(dev->stream);
    (void)cudaGetLastError();
    free(dev);
}

spot_stream spot_device_stream(const struct spot_device *dev)
{
    return dev->stream;
}

/* --- copies -------------------------------------------------------------------- */

void *spot_device_host_new(struct spot_device *dev, size_t n_byte)
{
    void *memory = NULL;

    if (spot_device_is_ok(dev))
        note(dev, "page-locked memory", cudaMallocHost(&memory, n_byte ? n_byte : 1));
    return spot_device_is_ok(dev) ? memory : NULL;
}

void spot_device_host_free(void *memory)
{
    if (memory && !spot_nccl.is_held())
        cudaFreeHost(memory);
}

bool spot_device_host_lock(void *memory, size_t n_byte)
{
    if (cudaHostRegister(memory, n_byte, cudaHostRegisterDefault) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

void spot_device_host_unlock(void *memory)
{
    if (!spot_nccl.is_held() && cudaHostUnregister(memory) != cudaSuccess)
        (void)cudaGetLastError();
}

void spot_device_upload(struct spot_device *dev, void *to, const void *from, size_t n_byte)
{
    if (spot_device_is_ok(dev))
        note(dev, "copy to the device",
             cudaMemcpyAsync(to, from, n_byte, cudaMemcpyHostToDevice, dev->stream));
}

void spot_device_zero(struct spot_device *dev, void *to, size_t n_byte)
{
    if (spot_device_is_ok(dev) && n_byte)
        note(dev, "clear", cudaMemsetAsync(to, 0, n_byte, dev->stream));
}

void spot_device_copy(struct spot_device *dev, void *to, const void *from, size_t n_byte)
{
    if (spot_device_is_ok(dev) && n_byte)
        note(dev, "copy on the device",
             cudaMemcpyAsync(to, from, n_byte, cudaMemcpyDeviceToDevice, dev->stream));
}

void spot_device_fetch(struct spot_device *dev, void *to, const void *from, size_t n_byte)
{
    dev->fetched_byte += n_byte;
    if (spot_device_is_ok(dev))
        note(dev, "copy from the device",
             cudaMemcpyAsync(to, from, n_byte, cudaMemcpyDeviceToHost, dev->stream));
}

uint64_t spot_device_fetched(const struct spot_device *dev)
{
    return dev->fetched_byte;
}

void spot_device_download(struct spot_device *dev, void *to, const void *from, size_t n_byte)
{
    spot_device_fetch(dev, to, from, n_byte);
    spot_device_wait(dev);
}

void spot_device_wait(struct spot_device *dev)
{
    if (spot_device_is_ok(dev))
        note(dev, "wait", cudaStreamSynchronize(dev->stream));
}
