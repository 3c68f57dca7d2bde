/* SPDX-License-Identifier: MIT */
/* cuda_runtime_api.h - the runtime's calls that lib/engine/cuda makes, over host memory. */
#ifndef SPOT_TWIN_CUDA_RUNTIME_API_H
#define SPOT_TWIN_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION  13000
#define SPOT_TWIN_GUARD 256 /* bytes between buffers that lie in one piece of memory */

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoDevice = 100,
    cudaErrorIllegalState = 401,
    cudaErrorNotReady = 600,
    cudaErrorHostMemoryAlreadyRegistered = 712,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureIsolation = 905,
    cudaErrorStreamCaptureWrongThread = 908,
} cudaError_t;
/* What is queued runs late: when somebody waits for the stream, or by chance before. */
struct CUstream_st {
    int (*is_busy)(void *user); /* of another library that queued something; NULL: none did */
    void *user;
    /* Queue work of a library. */
    void (*later)(struct CUstream_st *stream, void (*work)(void *user), void *user);
    /* Where a library that is a device of its own, as NCCL's is, finds memory of the device. */
    void *(*reach)(const void *memory);
    struct twin_queue *queue;
    int device;
};
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
enum {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaStreamNonBlocking = 1,
    cudaHostRegisterDefault = 0,
    cudaEventDisableTiming = 2,
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed,
};
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
};

/* The environment plays the machine: SPOT_TWIN_DRIVER (CUDA version, 0 for none),
 * SPOT_TWIN_DEVICES, SPOT_TWIN_SM, SPOT_TWIN_MEMORY (bytes), SPOT_TWIN_FAIL_AT (the n-th copy to
 * the host fails, and all after it), SPOT_TWIN_SEED (of orders and delays), SPOT_TWIN_LOG (a file
 * for a line per launch, copy and product, and for the context of a process), SPOT_TWIN_DRY (1:
 * they are listed, and not done: for models that no CPU would come to the end of).
 *
 * Memory of the device has addresses that the host cannot read or write: they are open while the
 * device works alone. A copy whose ends are not where its kind says ends the program. So does
 * work between whose buffers a guard was written over: see twin_guard. */
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int n, int device);
cudaError_t cudaMemGetInfo(size_t *free_byte, size_t *total_byte);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
/* A stream that records: launches with their arguments, copies with their addresses. Calls that
 * wait, take or free memory, or copy from and to memory of the host that is not page-locked are
 * refused and void the recording; work of another library ends the program. SPOT_TWIN_GRAPHS: 0, a
 * driver that refuses to record; 1, one that says so at the end. Only the number of nodes can be
 * asked. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaMalloc(void **memory, size_t n_byte);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **memory, size_t n_byte);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostRegister(void *memory, size_t n_byte, unsigned flags);
cudaError_t cudaHostUnregister(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_byte, int kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int value, size_t n_byte, cudaStream_t stream);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
/* Nothing may ever be written there; it is looked at when the host waits. */
void twin_guard(void *memory, size_t n_byte);
/* Bytes that copies of a kind moved so far; for tests. */
__attribute__((visibility("default"))) size_t twin_copied(int kind);
__attribute__((visibility("default"))) int twin_is_locked(const void *host);
/* The calling thread's device; each thread begins on 0. */
__attribute__((visibility("default"))) int twin_device(void);
const char *cudaGetErrorString(cudaError_t status);
const char *cudaGetErrorName(cudaError_t status);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TWIN_CUDA_RUNTIME_API_H */
