/* SPDX-License-Identifier: MIT */
#include "engine/cuda/device.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { SM_MIN = 80, PLANS_MAX = 96, WORKSPACE_BYTE = 32 << 20 };

/* The algorithm of one shape, chosen once. */
struct plan {
    struct spot_product key; /* pointers NULL */
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
};

struct spot_device {
    cudaStream_t stream;
    cublasLtHandle_t blas;
    void *memory, *workspace;
    struct plan plan[PLANS_MAX];
    int n_plan;
    struct spot_err err; /* code SPOT_OK: none */
};

/* --- errors ---------------------------------------------------------------- */

static int cuda_error(struct spot_err *err, const char *what, cudaError_t status)
{
    (void)cudaGetLastError(); /* of this call only; a broken context stays broken */
    return spot_err_set(err, SPOT_EGPU, "CUDA: %s: %s (%s)", what, cudaGetErrorString(status),
                        cudaGetErrorName(status));
}

static bool is_ok(const struct spot_device *dev)
{
    return dev->err.code == SPOT_OK;
}

static void note(struct spot_device *dev, const char *what, cudaError_t status)
{
    if (status != cudaSuccess && is_ok(dev))
        cuda_error(&dev->err, what, status);
}

static bool note_blas(struct spot_device *dev, const char *what, cublasStatus_t status)
{
    if (status != CUBLAS_STATUS_SUCCESS && is_ok(dev))
        spot_err_set(&dev->err, SPOT_EGPU, "cuBLASLt: %s: status %d", what, (int)status);
    return status == CUBLAS_STATUS_SUCCESS;
}

int spot_device_status(struct spot_device *dev, struct spot_err *err)
{
    if (is_ok(dev))
        note(dev, "a kernel", cudaGetLastError());
    if (is_ok(dev))
        return 0;
    *err = dev->err;
    return -1;
}

/* --- what is here ------------------------------------------------------------ */

int spot_device_probe(int *sm, struct spot_err *err)
{
    int driver = 0, n = 0, device = 0, major = 0, minor = 0;
    cudaError_t status = cudaDriverGetVersion(&driver);

    if (status != cudaSuccess || !driver)
        return spot_err_set(err, SPOT_EGPU, "no NVIDIA driver on this host; try --backend cpu");
    status = cudaGetDeviceCount(&n);
    if (status == cudaErrorInsufficientDriver)
        return spot_err_set(err, SPOT_EGPU,
                            "the NVIDIA driver is for CUDA %d.%d, the module needs %d.%d; try "
                            "--backend cpu",
                            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                            CUDART_VERSION % 1000 / 10);
    if (status == cudaErrorNoDevice || (status == cudaSuccess && !n))
        return spot_err_set(err, SPOT_EGPU, "no CUDA device; try --backend cpu");
    if (status == cudaSuccess)
        status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (status != cudaSuccess)
        return cuda_error(err, "device", status);
    *sm = 10 * major + minor;
    if (*sm < SM_MIN)
        return spot_err_set(err, SPOT_EGPU,
                            "the CUDA device has compute capability %d.%d, 8.0 is needed; try "
                            "--backend cpu",
                            major, minor);
    return 0;
}

size_t spot_device_blas_version(void)
{
    return cublasLtGetVersion();
}

size_t spot_device_available(void)
{
    size_t free_byte, total_byte;

    return cudaMemGetInfo(&free_byte, &total_byte) == cudaSuccess ? free_byte : SIZE_MAX;
}

size_t spot_device_overhead(void)
{
    return WORKSPACE_BYTE;
}

/* --- life -------------------------------------------------------------------- */

static void open_device(struct spot_device *dev, size_t memory_byte)
{
    note(dev, "stream", cudaStreamCreateWithFlags(&dev->stream, cudaStreamNonBlocking));
    if (is_ok(dev))
        note(dev, "memory of a stage", cudaMalloc(&dev->memory, memory_byte ? memory_byte : 1));
    if (is_ok(dev))
        note(dev, "workspace", cudaMalloc(&dev->workspace, WORKSPACE_BYTE));
    if (is_ok(dev))
        note_blas(dev, "start", cublasLtCreate(&dev->blas));
    if (is_ok(dev))
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

static void drop_plan(struct plan *plan)
{
    if (plan->op)
        cublasLtMatmulDescDestroy(plan->op);
    if (plan->a)
        cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b)
        cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->c)
        cublasLtMatrixLayoutDestroy(plan->c);
}

void spot_device_close(struct spot_device *dev)
{
    if (!dev)
        return;
    if (dev->stream)
        cudaStreamSynchronize(dev->stream);
    for (int i = 0; i < dev->n_plan; i++)
        drop_plan(&dev->plan[i]);
    if (dev->blas)
        cublasLtDestroy(dev->blas);
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

    if (is_ok(dev))
        note(dev, "page-locked memory", cudaMallocHost(&memory, n_byte ? n_byte : 1));
    return is_ok(dev) ? memory : NULL;
}

void spot_device_host_free(void *memory)
{
    if (memory)
        cudaFreeHost(memory);
}

void spot_device_upload(struct spot_device *dev, void *to, const void *from, size_t n_byte)
{
    if (is_ok(dev))
        note(dev, "copy to the device",
             cudaMemcpyAsync(to, from, n_byte, cudaMemcpyHostToDevice, dev->stream));
}

void spot_device_zero(struct spot_device *dev, void *to, size_t n_byte)
{
    if (is_ok(dev) && n_byte)
        note(dev, "clear", cudaMemsetAsync(to, 0, n_byte, dev->stream));
}

void spot_device_copy(struct spot_device *dev, void *to, const void *from, size_t n_byte)
{
    if (is_ok(dev) && n_byte)
        note(dev, "copy on the device",
             cudaMemcpyAsync(to, from, n_byte, cudaMemcpyDeviceToDevice, dev->stream));
}

void spot_device_download(struct spot_device *dev, void *to, const void *from, size_t n_byte)
{
    if (is_ok(dev))
        note(dev, "copy from the device",
             cudaMemcpyAsync(to, from, n_byte, cudaMemcpyDeviceToHost, dev->stream));
    spot_device_wait(dev);
}

void spot_device_wait(struct spot_device *dev)
{
    if (is_ok(dev))
        note(dev, "wait", cudaStreamSynchronize(dev->stream));
}

/* --- products ------------------------------------------------------------------- */

/* cuBLASLt counts by columns: c transposed [n][m] = b transposed times a transposed, so that b is
 * its first factor, each row-major array its own transpose, and rows of its result are columns of
 * ours, along which the bias runs. */
static cublasLtMatrixLayout_t layout_of(struct spot_device *dev, cudaDataType_t type, int64_t rows,
                                        int64_t cols, int64_t stride)
{
    cublasLtMatrixLayout_t layout = NULL;

    note_blas(dev, "layout",
              cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)cols, (uint64_t)rows,
                                         stride ? stride : cols));
    return layout;
}

static void set_op(struct spot_device *dev, cublasLtMatmulDesc_t op,
                   cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size)
{
    note_blas(dev, "attribute", cublasLtMatmulDescSetAttribute(op, attribute, value, size));
}

static cublasLtEpilogue_t epilogue_of(enum spot_epilogue epilogue)
{
    switch (epilogue) {
    case SPOT_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case SPOT_BIAS_GELU:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case SPOT_GELU_BACK:
        return CUBLASLT_EPILOGUE_DGELU;
    case SPOT_PLAIN:
        break;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

static void describe(struct spot_device *dev, struct plan *plan, const struct spot_product *p)
{
    const cudaDataType_t type = p->real == SPOT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasOperation_t first = p->is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p->is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(p->epilogue);
    const int64_t aux_stride = p->c_stride ? p->c_stride : p->n;

    note_blas(dev, "operation",
              cublasLtMatmulDescCreate(&plan->op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    plan->a = p->is_b_transposed ? layout_of(dev, type, p->n, p->k, 0)
                                 : layout_of(dev, type, p->k, p->n, 0);
    plan->b = p->is_a_transposed ? layout_of(dev, type, p->k, p->m, p->a_stride)
                                 : layout_of(dev, type, p->m, p->k, p->a_stride);
    plan->c = layout_of(dev, p->is_c_float ? CUDA_R_32F : type, p->m, p->n, p->c_stride);
    if (!is_ok(dev))
        return;
    set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first));
    set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second));
    set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    if (p->epilogue == SPOT_BIAS_GELU || p->epilogue == SPOT_GELU_BACK)
        set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_stride,
               sizeof(aux_stride));
}

/* The pointers of this call; the choice of an algorithm looks at them for their presence. */
static void point(struct spot_device *dev, const struct plan *plan, const struct spot_product *p)
{
    if (p->epilogue == SPOT_BIAS || p->epilogue == SPOT_BIAS_GELU)
        set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof(p->bias));
    if (p->epilogue == SPOT_BIAS_GELU || p->epilogue == SPOT_GELU_BACK)
        set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &p->aux, sizeof(p->aux));
}

/* A part begins at a multiple of what it takes of a row: the algorithm must not count on more. */
static void limit_alignment(struct spot_device *dev, cublasLtMatmulPreference_t preference,
                            const struct spot_product *p)
{
    static const cublasLtMatmulPreferenceAttributes_t attribute[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
    };
    const int64_t rows[] = { p->is_a_transposed ? p->m : p->k, p->is_b_transposed ? p->k : p->n,
                             p->n };
    const int64_t bits = (rows[0] | rows[1] | rows[2]) * (p->real == SPOT_BF16 ? 2 : 4);
    const uint32_t align = bits % 256 ? (uint32_t)(bits & -bits) : 256;

    for (int i = 0; p->is_part && i < 4; i++)
        note_blas(
            dev, "preference",
            cublasLtMatmulPreferenceSetAttribute(preference, attribute[i], &align, sizeof(align)));
}

/* The heuristic's first proposal for the shape: the same on every device of a kind, since neither
 * addresses (all are aligned alike) nor the grid enter. Splits of k are added in a fixed order. */
static void choose(struct spot_device *dev, struct plan *plan, const struct spot_product *p)
{
    const size_t workspace = WORKSPACE_BYTE;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result;
    int n = 0;

    memset(&result, 0, sizeof(result));
    note_blas(dev, "preference", cublasLtMatmulPreferenceCreate(&preference));
    if (!is_ok(dev))
        return;
    note_blas(dev, "preference",
              cublasLtMatmulPreferenceSetAttribute(preference,
                                                   CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &workspace, sizeof(workspace)));
    note_blas(dev, "preference",
              cublasLtMatmulPreferenceSetAttribute(preference,
                                                   CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                   &schemes, sizeof(schemes)));
    limit_alignment(dev, preference, p);
    if (is_ok(dev))
        note_blas(dev, "choice of an algorithm",
                  cublasLtMatmulAlgoGetHeuristic(dev->blas, plan->op, plan->a, plan->b, plan->c,
                                                 plan->c, preference, 1, &result, &n));
    if (is_ok(dev) && n < 1)
        note_blas(dev, "no algorithm for a product", CUBLAS_STATUS_NOT_SUPPORTED);
    plan->algo = result.algo;
    cublasLtMatmulPreferenceDestroy(preference);
}

static bool is_same_shape(const struct spot_product *x, const struct spot_product *y)
{
    return x->real == y->real && x->m == y->m && x->n == y->n && x->k == y->k &&
           x->is_a_transposed == y->is_a_transposed && x->is_b_transposed == y->is_b_transposed &&
           x->is_c_float == y->is_c_float && x->epilogue == y->epilogue &&
           x->a_stride == y->a_stride && x->c_stride == y->c_stride && x->is_part == y->is_part;
}

static struct plan *plan_of(struct spot_device *dev, const struct spot_product *p);

/* What is chosen for full rows is taken for any stride, which is a multiple of theirs: else the
 * bits could tell how many parts lie side by side. */
static void choose_for_rows(struct spot_device *dev, struct plan *plan,
                            const struct spot_product *p)
{
    struct spot_product full = *p;
    const struct plan *other;

    full.a_stride = full.c_stride = 0;
    if (is_same_shape(&full, p)) {
        choose(dev, plan, p);
        return;
    }
    other = plan_of(dev, &full);
    if (other)
        plan->algo = other->algo;
}

static struct plan *plan_of(struct spot_device *dev, const struct spot_product *p)
{
    struct plan *plan;

    for (int i = 0; i < dev->n_plan; i++)
        if (is_same_shape(&dev->plan[i].key, p)) {
            point(dev, &dev->plan[i], p);
            return &dev->plan[i];
        }
    if (dev->n_plan == PLANS_MAX) { /* a stage has fewer shapes */
        note_blas(dev, "too many shapes", CUBLAS_STATUS_INTERNAL_ERROR);
        return NULL;
    }
    plan = &dev->plan[dev->n_plan++];
    plan->key = *p;
    describe(dev, plan, p);
    if (is_ok(dev))
        point(dev, plan, p);
    if (is_ok(dev))
        choose_for_rows(dev, plan, p);
    return is_ok(dev) ? plan : NULL;
}

void spot_device_product(struct spot_device *dev, const struct spot_product *p)
{
    const float one = 1, zero = 0;
    const struct plan *plan;

    if (!is_ok(dev) || !(plan = plan_of(dev, p)) || !is_ok(dev))
        return;
    note_blas(dev, "product",
              cublasLtMatmul(dev->blas, plan->op, &one, p->b, plan->a, p->a, plan->b, &zero, p->c,
                             plan->c, p->c, plan->c, &plan->algo, dev->workspace, WORKSPACE_BYTE,
                             dev->stream));
}
