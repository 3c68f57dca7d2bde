/* SPDX-License-Identifier: MIT */
/* cuda_runtime_api.h - the runtime's calls that lib/engine/cuda makes, over host memory. */
#ifndef SPOT_TWIN_CUDA_RUNTIME_API_H
#define SPOT_TWIN_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION 13000

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600,
    cudaErrorLaunchFailure = 719,
} cudaError_t;
/* Kernels and copies are done when their call comes back; what another library queues may not be.
 */
struct CUstream_st {
    int (*is_busy)(void *user); /* NULL: nothing was queued */
    void *user;
};
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaStreamNonBlocking = 1,
    cudaEventDisableTiming = 2,
};
enum cudaDeviceAttr {
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
};

/* The environment plays the machine: SPOT_TWIN_DRIVER (CUDA version, 0 for none),
 * SPOT_TWIN_DEVICES, SPOT_TWIN_SM, SPOT_TWIN_MEMORY (bytes), SPOT_TWIN_FAIL_AT (the n-th copy to
 * the host fails, and all after it). */
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaMemGetInfo(size_t *free_byte, size_t *total_byte);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaMalloc(void **memory, size_t n_byte);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **memory, size_t n_byte);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_byte, int kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int value, size_t n_byte, cudaStream_t stream);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t status);
const char *cudaGetErrorName(cudaError_t status);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TWIN_CUDA_RUNTIME_API_H */
