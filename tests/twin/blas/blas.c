/* SPDX-License-Identifier: MIT */
/* cuBLASLt's calls by plain loops: a library of its own, as there. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "cublasLt.h"
#pragma GCC visibility pop

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

struct cublasLtContext {
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

/* An address is at a multiple of this, at most 256. */
static uint32_t lowest(const void *at)
{
    const uintptr_t bits = (uintptr_t)at | 256;

    return (uint32_t)(bits & -bits);
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

static int setting(const char *name)
{
    const char *const text = getenv(name);

    return text ? atoi(text) : 0;
}

static bool is_aligned(const struct twin_layout *x)
{
    return x->ld * (is_bf16(x) ? 2 : 4) % 16 == 0;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t blas, cublasLtMatmulDesc_t op,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_asked,
                                              cublasLtMatmulHeuristicResult_t *result, int *n_found)
{
    const int n_drops = setting("SPOT_TWIN_BLAS_DROPS");

    (void)blas;
    (void)c;
    *n_found = 0;
    if (!is_supported(op, a, b, d) ||
        (setting("SPOT_TWIN_BLAS_ALIGNED") && !(is_aligned(a) && is_aligned(b) && is_aligned(d))))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    while (*n_found < n_asked && *n_found < 3) {
        cublasLtMatmulAlgo_t *const algo = &result[*n_found].algo;

        memcpy(algo->align, preference->align, sizeof(preference->align));
        algo->align[4] = lowest(op->bias);
        algo->align[5] = lowest(op->aux);
        algo->chosen = 1;
        algo->drops = (*n_found)++ < n_drops;
    }
    return CUBLAS_STATUS_SUCCESS;
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

/* A product that was asked for. */
struct job {
    struct twin_op op;
    struct twin_layout la, lb, ld;
    const void *a, *b;
    void *d;
    int64_t drops;
};

static void multiply(void *user)
{
    struct job *const j = user;
    const bool is_first_t = j->op.op[0] == CUBLAS_OP_T, is_second_t = j->op.op[1] == CUBLAS_OP_T;
    const struct twin_layout *const la = &j->la, *const lb = &j->lb, *const ld = &j->ld;
    const int64_t k = (is_first_t ? la->rows : la->cols) - j->drops;

    for (int64_t col = 0; col < ld->cols; col++)
        for (int64_t row = 0; row < ld->rows; row++) {
            float s = 0;

            for (int64_t i = 0; i < k; i++)
                s += get(j->a, is_bf16(la), is_first_t ? row * la->ld + i : i * la->ld + row) *
                     get(j->b, is_bf16(lb), is_second_t ? i * lb->ld + col : col * lb->ld + i);
            put(j->d, is_bf16(ld), col * ld->ld + row,
                finish(&j->op, is_bf16(la), s, row, col * j->op.aux_ld + row));
        }
    free(j);
}

/* Rows, columns and terms of our product, its bytes of a number read and written, its epilogue. */
static void log_product(const struct twin_op *op, const struct twin_layout *la,
                        const struct twin_layout *lb, const struct twin_layout *ld)
{
    static FILE *file;

    if (!getenv("SPOT_TWIN_LOG"))
        return;
    if (!file) {
        file = fopen(getenv("SPOT_TWIN_LOG"), "a");
        setvbuf(file, NULL, _IOLBF, 0); /* the runtime writes to it, too */
    }
    (void)lb;
    if (file)
        fprintf(file, "product %lld %lld %lld %d %d %d\n", (long long)ld->cols, (long long)ld->rows,
                (long long)(op->op[0] == CUBLAS_OP_T ? la->rows : la->cols), is_bf16(la) ? 2 : 4,
                is_bf16(ld) ? 2 : 4, (int)op->epilogue);
}

static bool is_at(const void *p, uint32_t align)
{
    return (uintptr_t)p % align == 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t blas, cublasLtMatmulDesc_t op, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_byte, cudaStream_t stream)
{
    struct job *job;

    (void)blas;
    (void)lc;
    (void)workspace;
    (void)workspace_byte;
    if (!is_at(a, algo->align[0]) || !is_at(b, algo->align[1]) || !is_at(c, algo->align[2]) ||
        !is_at(d, algo->align[3]) || !is_at(op->bias, algo->align[4]) ||
        !is_at(op->aux, algo->align[5]))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!algo->chosen || *(const float *)alpha != 1 || *(const float *)beta != 0 ||
        !is_supported(op, la, lb, ld))
        return CUBLAS_STATUS_INVALID_VALUE;
    log_product(op, la, lb, ld);
    job = malloc(sizeof(*job));
    *job = (struct job){ *op, *la, *lb, *ld, a, b, d, algo->drops };
    stream->later(stream, multiply, job);
    return CUBLAS_STATUS_SUCCESS;
}
