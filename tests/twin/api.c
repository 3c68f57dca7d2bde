/* SPDX-License-Identifier: MIT */
/* The runtime's and cuBLASLt's calls over host memory; the environment plays the machine. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cublasLt.h"

static long setting(const char *name, long otherwise)
{
    const char *const text = getenv(name);

    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

/* --- the runtime ------------------------------------------------------------- */

static bool has_failed; /* as on a device, for good */

/* What a call of this thread answered last that was no success, until somebody takes it. */
static _Thread_local cudaError_t last_error;

static cudaError_t told(cudaError_t status)
{
    if (status != cudaSuccess)
        last_error = status;
    return status;
}

static cudaError_t now(void)
{
    return told(has_failed ? cudaErrorLaunchFailure : cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = (int)setting("SPOT_TWIN_DRIVER", CUDART_VERSION);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    if (setting("SPOT_TWIN_DRIVER", CUDART_VERSION) < CUDART_VERSION)
        return told(cudaErrorInsufficientDriver);
    *n = (int)setting("SPOT_TWIN_DEVICES", 1);
    return told(*n ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    const int sm = (int)setting("SPOT_TWIN_SM", 90);

    (void)device;
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? sm / 10 : sm % 10;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_byte, size_t *total_byte)
{
    *free_byte = *total_byte = (size_t)setting("SPOT_TWIN_MEMORY", 1L << 32);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof(**stream));
    return *stream ? now() : told(cudaErrorMemoryAllocation);
}

static bool is_busy(cudaStream_t stream)
{
    return stream && stream->is_busy && stream->is_busy(stream->user);
}

/* As on a device: behind a collective whose peer is gone this waits for ever. */
static void settle(cudaStream_t stream)
{
    while (is_busy(stream))
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return is_busy(stream) ? told(cudaErrorNotReady) : now();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    settle(stream);
    return now();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return now();
}

struct CUevent_st {
    cudaStream_t stream; /* it was recorded behind its work */
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return *event ? now() : told(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->stream = stream;
    return now();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (stream != event->stream)
        settle(event->stream);
    return now();
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return now();
}

/* What a device would hold by chance: NaN in every type. */
cudaError_t cudaMalloc(void **memory, size_t n_byte)
{
    *memory = aligned_alloc(256, (n_byte + 255) / 256 * 256);
    if (!*memory)
        return told(cudaErrorMemoryAllocation);
    memset(*memory, 0xff, n_byte);
    return now();
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t n_byte)
{
    return cudaMalloc(memory, n_byte);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_byte, int kind,
                            cudaStream_t stream)
{
    static long n_download;

    settle(stream);
    if (kind == cudaMemcpyDeviceToHost && ++n_download == setting("SPOT_TWIN_FAIL_AT", 0))
        has_failed = true;
    if (!has_failed)
        memcpy(to, from, n_byte);
    return now();
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t n_byte, cudaStream_t stream)
{
    settle(stream);
    memset(to, value, n_byte);
    return now();
}

cudaError_t cudaPeekAtLastError(void)
{
    return has_failed ? cudaErrorLaunchFailure : last_error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t status = cudaPeekAtLastError();

    last_error = cudaSuccess;
    return status;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaErrorLaunchFailure ? "unspecified launch failure" : "no such thing";
}

const char *cudaGetErrorName(cudaError_t status)
{
    return status == cudaErrorLaunchFailure ? "cudaErrorLaunchFailure" : "cudaErrorUnknown";
}

/* --- cuBLASLt: matrices by columns -------------------------------------------- */

struct twin_op {
    cublasOperation_t op[2];
    cublasLtEpilogue_t epilogue;
    const void *bias;
    void *aux;
    int64_t aux_ld;
};

struct twin_layout {
    cudaDataType type;
    int64_t rows, cols, ld;
};

struct twin_blas {
    int nothing;
};

struct twin_preference {
    uint32_t align[4];
};

size_t cublasLtGetVersion(void)
{
    return 130100;
}

static cublasStatus_t made(const void *object)
{
    return object ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *blas)
{
    *blas = calloc(1, sizeof(**blas));
    return made(*blas);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t blas)
{
    free(blas);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *layout = calloc(1, sizeof(**layout));
    if (*layout)
        **layout = (struct twin_layout){ type, (int64_t)rows, (int64_t)cols, ld };
    return ld < (int64_t)rows ? CUBLAS_STATUS_INVALID_VALUE : made(*layout);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *op, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *op = calloc(1, sizeof(**op));
    if (*op)
        (*op)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? made(*op)
                                                                : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t op)
{
    free(op);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t op,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    static const struct {
        size_t offset, size;
    } of[] = {
        [CUBLASLT_MATMUL_DESC_TRANSA] = { offsetof(struct twin_op, op[0]), sizeof(int) },
        [CUBLASLT_MATMUL_DESC_TRANSB] = { offsetof(struct twin_op, op[1]), sizeof(int) },
        [CUBLASLT_MATMUL_DESC_EPILOGUE] = { offsetof(struct twin_op, epilogue), sizeof(int) },
        [CUBLASLT_MATMUL_DESC_BIAS_POINTER] = { offsetof(struct twin_op, bias), sizeof(void *) },
        [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER] = { offsetof(struct twin_op, aux),
                                                        sizeof(void *) },
        [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD] = { offsetof(struct twin_op, aux_ld),
                                                   sizeof(int64_t) },
    };

    if (size != of[attribute].size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((char *)op + of[attribute].offset, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = calloc(1, sizeof(**preference));
    for (int i = 0; *preference && i < 4; i++)
        (*preference)->align[i] = 256;
    return made(*preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && size == sizeof(uint32_t))
        memcpy(&preference->align[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
               size);
    return size == (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(size_t)
                                                                          : sizeof(uint32_t))
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

static bool is_bf16(const struct twin_layout *layout)
{
    return layout->type == CUDA_R_16BF;
}

/* What the library asks of shapes and types, as far as this project came to know. */
static bool is_supported(const struct twin_op *op, const struct twin_layout *a,
                         const struct twin_layout *b, const struct twin_layout *d)
{
    const int64_t k = op->op[0] == CUBLAS_OP_T ? a->rows : a->cols;
    const bool has_aux =
        op->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || op->epilogue == CUBLASLT_EPILOGUE_DGELU;

    if ((op->op[0] == CUBLAS_OP_T ? a->cols : a->rows) != d->rows ||
        (op->op[1] == CUBLAS_OP_T ? b->rows : b->cols) != d->cols ||
        (op->op[1] == CUBLAS_OP_T ? b->cols : b->rows) != k || a->type != b->type ||
        (is_bf16(d) && !is_bf16(a)))
        return false;
    if (has_aux && (!is_bf16(d) || op->aux_ld % 8 || op->aux_ld < d->rows || !op->aux))
        return false;
    return !(op->epilogue == CUBLASLT_EPILOGUE_BIAS && !op->bias) &&
           !(op->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS && !op->bias);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t blas, cublasLtMatmulDesc_t op,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_asked,
                                              cublasLtMatmulHeuristicResult_t *result, int *n_found)
{
    (void)blas;
    (void)c;
    memcpy(result->algo.align, preference->align, sizeof(result->algo.align));
    *n_found = n_asked > 0 && is_supported(op, a, b, d);
    result->algo.chosen = 1;
    return *n_found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static float get(const void *x, bool is_half, int64_t i)
{
    uint32_t bits;
    float y;

    if (!is_half)
        return ((const float *)x)[i];
    bits = (uint32_t)((const uint16_t *)x)[i] << 16;
    memcpy(&y, &bits, sizeof(y));
    return y;
}

static void put(void *x, bool is_half, int64_t i, float y)
{
    uint32_t bits;

    if (!is_half) {
        ((float *)x)[i] = y;
        return;
    }
    memcpy(&bits, &y, sizeof(bits));
    ((uint16_t *)x)[i] = isnan(y) ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float gelu(float x, float *slope)
{
    const float a = 0.7978845608F, t = tanhf(a * (x + 0.044715F * x * x * x));

    *slope = 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * a * (1 + 3 * 0.044715F * x * x);
    return 0.5F * x * (1 + t);
}

/* Element `i` of d, in row `row`; its aux element at `aux_at`. */
static float finish(const struct twin_op *op, bool is_half, float x, int64_t row, int64_t aux_at)
{
    float slope;

    if (op->epilogue == CUBLASLT_EPILOGUE_BIAS || op->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
        x += get(op->bias, is_half, row);
    if (op->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        put(op->aux, is_half, aux_at, x);
        x = gelu(x, &slope);
    } else if (op->epilogue == CUBLASLT_EPILOGUE_DGELU) {
        gelu(get(op->aux, is_half, aux_at), &slope);
        x *= slope;
    }
    return x;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t blas, cublasLtMatmulDesc_t op, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_byte, cudaStream_t stream)
{
    const bool is_first_t = op->op[0] == CUBLAS_OP_T, is_second_t = op->op[1] == CUBLAS_OP_T;
    const int64_t k = is_first_t ? la->rows : la->cols;

    (void)blas;
    (void)lc;
    (void)workspace;
    (void)workspace_byte;
    (void)stream;
    if ((uintptr_t)a % algo->align[0] || (uintptr_t)b % algo->align[1] ||
        (uintptr_t)c % algo->align[2] || (uintptr_t)d % algo->align[3])
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!algo->chosen || *(const float *)alpha != 1 || *(const float *)beta != 0 ||
        !is_supported(op, la, lb, ld))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int64_t col = 0; col < ld->cols; col++)
        for (int64_t row = 0; row < ld->rows; row++) {
            float s = 0;

            for (int64_t i = 0; i < k; i++)
                s += get(a, is_bf16(la), is_first_t ? row * la->ld + i : i * la->ld + row) *
                     get(b, is_bf16(lb), is_second_t ? i * lb->ld + col : col * lb->ld + i);
            put(d, is_bf16(ld), col * ld->ld + row,
                finish(op, is_bf16(la), s, row, col * op->aux_ld + row));
        }
    return CUBLAS_STATUS_SUCCESS;
}
