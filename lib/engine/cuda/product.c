/* SPDX-License-Identifier: MIT */
/* Products by cuBLASLt, which is loaded on first use, so that other functions work without it. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/late_library.h"
#include "common/xalloc.h"
#include "engine/cuda/device_state.h"

/* The algorithm of one shape, chosen once. */
struct spot_product_plan {
    struct spot_product key; /* pointers NULL */
    bool is_plain;           /* computed by our own kernel, since the library has none */
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
};

static bool note_blas(struct spot_device *dev, const char *what, cublasStatus_t status)
{
    if (status != CUBLAS_STATUS_SUCCESS && spot_device_is_ok(dev))
        spot_err_set(&dev->err, SPOT_EGPU, "cuBLASLt: %s: status %d", what, (int)status);
    return status == CUBLAS_STATUS_SUCCESS;
}

/* --- the library ---------------------------------------------------------------- */

#define EACH_FUNCTION(x)                                                                        \
    x(cublasLtGetVersion) x(cublasLtCreate) x(cublasLtDestroy) x(cublasLtMatrixLayoutCreate)    \
        x(cublasLtMatrixLayoutDestroy) x(cublasLtMatmulDescCreate) x(cublasLtMatmulDescDestroy) \
            x(cublasLtMatmulDescSetAttribute) x(cublasLtMatmulPreferenceCreate)                 \
                x(cublasLtMatmulPreferenceDestroy) x(cublasLtMatmulPreferenceSetAttribute)      \
                    x(cublasLtMatmulAlgoGetHeuristic) x(cublasLtMatmul)

SPOT_LATE_TABLE(EACH_FUNCTION)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct spot_err why; /* why it is missing; code SPOT_OK: it is loaded */

static void load(void)
{
    struct spot_err err = { 0 };
    char name[32], path[SPOT_LATE_PATH];

    snprintf(name, sizeof(name), "libcublasLt.so.%d", CUDART_VERSION / 1000);
    if (spot_late_library(spot_late_find_cuda("SPOT_CUBLASLT_LIBRARY", name, path), api_name,
                          sizeof(api_name) / sizeof(*api_name), &api, &err))
        spot_err_set(&why, SPOT_EGPU,
                     "no cuBLASLt of CUDA %d: %.130s; looked in %s; try --device cpu or "
                     "SPOT_CUBLASLT_LIBRARY",
                     CUDART_VERSION / 1000, err.msg, spot_late_cuda_places());
}

int spot_device_blas(size_t *version, struct spot_err *err)
{
    pthread_once(&once, load);
    if (why.code != SPOT_OK) {
        *err = why;
        return -1;
    }
    *version = api.cublasLtGetVersion();
    return 0;
}

void spot_device_open_products(struct spot_device *dev)
{
    size_t version;

    if (!spot_device_blas(&version, &dev->err))
        note_blas(dev, "start", api.cublasLtCreate(&dev->blas));
}

static void release_plan(struct spot_product_plan *plan)
{
    if (plan->op)
        api.cublasLtMatmulDescDestroy(plan->op);
    if (plan->a)
        api.cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b)
        api.cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->c)
        api.cublasLtMatrixLayoutDestroy(plan->c);
}

void spot_device_close_products(struct spot_device *dev)
{
    for (size_t i = 0; i < dev->n_plan; i++) {
        release_plan(dev->plan[i]);
        free(dev->plan[i]);
    }
    free(dev->plan);
    if (dev->blas)
        api.cublasLtDestroy(dev->blas);
}

/* --- products ------------------------------------------------------------------- */

/* cuBLASLt is column-major: it computes c transposed [n][m] = b transposed times a transposed. So b
 * is its first factor, each row-major array is passed as its own transpose, and rows of its result
 * are columns of ours, along which the bias runs. */
static cublasLtMatrixLayout_t layout_of(struct spot_device *dev, cudaDataType_t type, int64_t rows,
                                        int64_t cols, int64_t stride)
{
    cublasLtMatrixLayout_t layout = NULL;

    note_blas(dev, "layout",
              api.cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)cols, (uint64_t)rows,
                                             stride ? stride : cols));
    return layout;
}

static void set_op(struct spot_device *dev, cublasLtMatmulDesc_t op,
                   cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size)
{
    note_blas(dev, "attribute", api.cublasLtMatmulDescSetAttribute(op, attribute, value, size));
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

static void describe(struct spot_device *dev, struct spot_product_plan *plan,
                     const struct spot_product *p)
{
    const cudaDataType_t type = p->real == SPOT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasOperation_t first = p->is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p->is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(p->epilogue);
    const int64_t aux_stride = p->c_stride ? p->c_stride : p->n;

    note_blas(dev, "operation",
              api.cublasLtMatmulDescCreate(&plan->op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    plan->a = p->is_b_transposed ? layout_of(dev, type, p->n, p->k, 0)
                                 : layout_of(dev, type, p->k, p->n, 0);
    plan->b = p->is_a_transposed ? layout_of(dev, type, p->k, p->m, p->a_stride)
                                 : layout_of(dev, type, p->m, p->k, p->a_stride);
    plan->c = layout_of(dev, p->is_c_float ? CUDA_R_32F : type, p->m, p->n, p->c_stride);
    if (!spot_device_is_ok(dev))
        return;
    set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first));
    set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second));
    set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    if (p->epilogue == SPOT_BIAS_GELU || p->epilogue == SPOT_GELU_BACK)
        set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_stride,
               sizeof(aux_stride));
}

static void point_at(struct spot_device *dev, const struct spot_product_plan *plan,
                     enum spot_epilogue epilogue, const void *bias, const void *aux)
{
    if (epilogue == SPOT_BIAS || epilogue == SPOT_BIAS_GELU)
        set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
    if (epilogue == SPOT_BIAS_GELU || epilogue == SPOT_GELU_BACK)
        set_op(dev, plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof(aux));
}

/* The alignment of all operands, in bytes: a part begins at a multiple of its width in a row, and
 * the algorithm must not assume more. */
static uint32_t alignment_of(const struct spot_product *p)
{
    const int64_t rows[] = { p->is_a_transposed ? p->m : p->k, p->is_b_transposed ? p->k : p->n,
                             p->n };
    const int64_t bits = (rows[0] | rows[1] | rows[2]) * (p->real == SPOT_BF16 ? 2 : 4);

    return p->is_part && bits % 256 ? (uint32_t)(bits & -bits) : 256;
}

/* While an algorithm is chosen, bias and aux are given only the alignment that all calls have;
 * those of the first product may happen to be better aligned. */
static void align(struct spot_device *dev, const struct spot_product_plan *plan,
                  cublasLtMatmulPreference_t preference, const struct spot_product *p)
{
    static const cublasLtMatmulPreferenceAttributes_t attribute[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
    };
    const uint32_t n_byte = alignment_of(p);
    const char *const some = (const char *)dev->workspace + n_byte % 256;

    for (int i = 0; i < 4; i++)
        note_blas(dev, "preference",
                  api.cublasLtMatmulPreferenceSetAttribute(preference, attribute[i], &n_byte,
                                                           sizeof(n_byte)));
    point_at(dev, plan, p->epilogue, some, some);
}

/* --- the choice of an algorithm --------------------------------------------------- */

enum { PROPOSALS = 8 };

static int ask_for_proposals(struct spot_device *dev, const struct spot_product_plan *plan,
                             const struct spot_product *p,
                             cublasLtMatmulHeuristicResult_t result[PROPOSALS])
{
    const size_t workspace = SPOT_DEVICE_WORKSPACE_BYTE;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t preference = NULL;
    int n = 0;

    note_blas(dev, "preference", api.cublasLtMatmulPreferenceCreate(&preference));
    if (!spot_device_is_ok(dev))
        return 0;
    note_blas(dev, "preference",
              api.cublasLtMatmulPreferenceSetAttribute(preference,
                                                       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                       &workspace, sizeof(workspace)));
    note_blas(dev, "preference",
              api.cublasLtMatmulPreferenceSetAttribute(preference,
                                                       CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                       &schemes, sizeof(schemes)));
    align(dev, plan, preference, p);
    if (spot_device_is_ok(dev) && /* no proposal is a valid result, not a failure */
        api.cublasLtMatmulAlgoGetHeuristic(dev->blas, plan->op, plan->a, plan->b, plan->c, plan->c,
                                           preference, PROPOSALS, result,
                                           &n) != CUBLAS_STATUS_SUCCESS)
        n = 0;
    api.cublasLtMatmulPreferenceDestroy(preference);
    return n;
}

static cublasStatus_t multiply(struct spot_device *dev, const struct spot_product_plan *plan,
                               const struct spot_product *p)
{
    const float one = 1, zero = 0;

    return api.cublasLtMatmul(dev->blas, plan->op, &one, p->b, plan->a, p->a, plan->b, &zero, p->c,
                              plan->c, p->c, plan->c, &plan->algo, dev->workspace,
                              SPOT_DEVICE_WORKSPACE_BYTE, dev->stream);
}

struct proposal {
    struct spot_device *dev;
    const cublasLtMatmulAlgo_t *algo;
};

static bool run_proposal(void *user, const struct spot_product *question)
{
    const struct proposal *const proposal = user;
    struct spot_device *const dev = proposal->dev;
    struct spot_product_plan plan = { .algo = *proposal->algo };
    bool has_run = false;

    describe(dev, &plan, question);
    if (spot_device_is_ok(dev))
        point_at(dev, &plan, question->epilogue, question->bias, question->aux);
    if (spot_device_is_ok(dev))
        has_run = multiply(dev, &plan, question) == CUBLAS_STATUS_SUCCESS;
    release_plan(&plan);
    return has_run;
}

/* Chooses the first of the heuristic's proposals that adds up every term, or our own kernel. The
 * choice is the same on every device of a kind, because it depends neither on addresses (all are
 * aligned alike) nor on the grid. Splits of k are added in a fixed order. */
static void choose(struct spot_device *dev, struct spot_product_plan *plan,
                   const struct spot_product *p)
{
    cublasLtMatmulHeuristicResult_t result[PROPOSALS];
    int n, i = 0;

    memset(result, 0, sizeof(result));
    n = ask_for_proposals(dev, plan, p, result);
    while (i < n &&
           !spot_device_adds_all(dev, p, run_proposal, &(struct proposal){ dev, &result[i].algo }))
        i++;
    plan->is_plain = i == n;
    if (i < n)
        plan->algo = result[i].algo;
}

static bool is_same_shape(const struct spot_product *x, const struct spot_product *y)
{
    return x->real == y->real && x->m == y->m && x->n == y->n && x->k == y->k &&
           x->is_a_transposed == y->is_a_transposed && x->is_b_transposed == y->is_b_transposed &&
           x->is_c_float == y->is_c_float && x->epilogue == y->epilogue &&
           x->a_stride == y->a_stride && x->c_stride == y->c_stride && x->is_part == y->is_part;
}

static struct spot_product_plan *plan_of(struct spot_device *dev, const struct spot_product *p);

/* The algorithm chosen for contiguous rows is used for any stride, which must be a multiple of
 * theirs: otherwise the bits could depend on the number of adjacent parts. */
static void choose_for_rows(struct spot_device *dev, struct spot_product_plan *plan,
                            const struct spot_product *p)
{
    struct spot_product full = *p;
    const struct spot_product_plan *other;

    full.a_stride = full.c_stride = 0;
    if (is_same_shape(&full, p)) {
        choose(dev, plan, p);
        return;
    }
    other = plan_of(dev, &full);
    if (other) {
        plan->algo = other->algo;
        plan->is_plain = other->is_plain;
    }
}

static struct spot_product_plan *new_plan(struct spot_device *dev, const struct spot_product *p)
{
    struct spot_product_plan *const plan = spot_xcalloc(1, sizeof(*plan));

    if (dev->n_plan == dev->plan_room) {
        dev->plan_room = 2 * dev->plan_room + 32;
        dev->plan = spot_xrealloc(dev->plan, dev->plan_room, sizeof(struct spot_product_plan *));
    }
    dev->plan[dev->n_plan++] = plan;
    plan->key = *p;
    return plan;
}

static struct spot_product_plan *plan_of(struct spot_device *dev, const struct spot_product *p)
{
    struct spot_product_plan *plan = NULL;

    for (size_t i = 0; i < dev->n_plan && !plan; i++)
        if (is_same_shape(&dev->plan[i]->key, p))
            plan = dev->plan[i];
    if (!plan) {
        plan = new_plan(dev, p);
        describe(dev, plan, p);
        if (spot_device_is_ok(dev))
            choose_for_rows(dev, plan, p);
    }
    if (spot_device_is_ok(dev))
        point_at(dev, plan, p->epilogue, p->bias, p->aux);
    return spot_device_is_ok(dev) ? plan : NULL;
}

void spot_device_product(struct spot_device *dev, const struct spot_product *p)
{
    const struct spot_product_plan *const plan = spot_device_is_ok(dev) ? plan_of(dev, p) : NULL;

    if (plan && plan->is_plain)
        spot_device_plain_product(p, dev->stream);
    else if (plan)
        note_blas(dev, "product", multiply(dev, plan, p));
}
