/* SPDX-License-Identifier: MIT */
/* nccl.h - the part of NCCL that lib/comm/comm_nccl.c uses, over sockets between processes.
 *
 * Strict where NCCL may be lenient: a send is done only when its receiver has posted the matching
 * receive and has the bytes, so a circle of waits never ends; sizes must match; communicators must
 * be non-blocking, and work on them is queued some time after the group has ended. A thread does it
 * and cudaStreamQuery tells when. Who died is not noticed: what waits for it waits until the abort.
 *
 * The environment plays the library: SPOT_TWIN_NCCL_VERSION (22809), SPOT_TWIN_NCCL_INIT_MS (how
 * long connecting takes), SPOT_TWIN_NCCL_SEES (1: a lost connection is ncclRemoteError, as over a
 * network), SPOT_TWIN_NCCL_FAIL_AT (the n-th group fails), SPOT_TWIN_NCCL_STUCK (1: an abort never
 * comes back, 2: nor does a start).
 */
#ifndef SPOT_TWIN_NCCL_H
#define SPOT_TWIN_NCCL_H

#include <limits.h>
#include <stddef.h>

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
} ncclResult_t;
typedef enum { ncclUint8 = 1, ncclInt64 = 4, ncclFloat32 = 7 } ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                          \
    {                                                    \
        sizeof(ncclConfig_t), 0xcafebeef, 22809, INT_MIN \
    }

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *data, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void *data, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TWIN_NCCL_H */
