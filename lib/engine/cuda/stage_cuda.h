/* SPDX-License-Identifier: MIT */
/* stage_cuda.h - the inside of a stage on a device: what lies there, and what the host knows.
 *
 * Symbols as in kernels.h. `void *` to T-typed arrays of the kind's `real`.
 */
#ifndef SPOT_ENGINE_CUDA_STAGE_CUDA_H
#define SPOT_ENGINE_CUDA_STAGE_CUDA_H

#include "engine/backend.h"
#include "engine/cuda/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_cuda_kernel {
    struct spot_kernel base;
    enum spot_real real;
};

/* One bundle. */
struct spot_cuda_part {
    struct spot_bundle *bundle; /* host planes are as of the last sync */
    struct spot_cuda_planes on;
    uint32_t *top;                           /* [SPOT_TENSORS_MAX] on the device, of this step */
    int64_t weight_at[SPOT_TENSORS_MAX];     /* elements in the compute copy */
    int32_t exponent_used[SPOT_TENSORS_MAX]; /* by the last backward call */
    int64_t *sum_host;                       /* once spot_stage_sum was asked */
    bool is_sum_on_host;                     /* the host's sums count */
    bool is_ahead;                           /* the device has updates that the host lacks */
};

/* What the backward pass of one bundle needs of a microbatch; as on the CPU. A: inputs of the
 * activation, 2F of Llama's, else F. */
struct spot_cuda_save {
    void *x;         /* [N * C] input of the bundle; not for the embedding */
    float *norm1;    /* [N * 2] */
    void *qkv;       /* [N * Q] layers; Llama: queries and keys turned */
    void *attention; /* [N * C] layers */
    float *lse;      /* [N * H] layers */
    void *mid;       /* [N * C] layers: x + attention branch */
    float *norm2;    /* [N * 2] layers */
    void *pre;       /* [N * A] layers: before the activation */
    void *dlogit;    /* [N * Vr] head */
};

struct spot_cuda_slot {
    uint32_t *token;      /* [b * (T + 1)] on the device */
    uint32_t *token_host; /* the same */
    struct spot_cuda_save *save;
};

struct spot_stage {
    const struct spot_backend *backend;
    struct spot_stage_config config;
    enum spot_real real;
    int n_bundle, limit_bits;
    int64_t n_row; /* N */
    struct spot_device *dev;
    spot_stream stream;
    struct spot_cuda_part *part; /* [n_bundle] */
    struct spot_cuda_slot *slot; /* [n_slot] */
    struct spot_cuda_save *save; /* of all slots */
    uint32_t *top_host;          /* [n_bundle][SPOT_TENSORS_MAX] */
    bool is_top_here;
    double *partial_host;  /* chunks of a bundle, or rows */
    uint32_t *groups_host; /* [3 * N + 1 + Vr] */
    float *boundary_host;  /* [N * C] page-locked */
    /* on the device, scratch */
    uint32_t *top;               /* of all parts */
    unsigned long long *top_sum; /* [SPOT_TENSORS_MAX] of an update */
    double *partial;             /* chunks of a bundle, or rows */
    float *boundary;             /* [N * C] */
    float *grad;                 /* one weight gradient */
    float *vector;               /* [2 * C], or one bias: gradients of vectors */
    float *column;               /* partial column sums */
    float *dot;                  /* [N * H] */
    uint32_t *groups;            /* [3 * N + 1] */
    void *norm, *delta, *edge;   /* [N * C] */
    float *turn;                 /* [T * d] Llama: spot_rope_table, kept */
    void *act, *dact;            /* [N * F]; dact: Llama */
    void *dpre;                  /* [N * A] */
    void *dqkv;                  /* [N * Q] */
    void *d[3];                  /* [N * C] */
    void *out;                   /* [N * C] what the last forward call left */
};

/* A running value that is the sum of two arrays, or of one. */
struct spot_cuda_flow {
    void *x, *delta; /* delta may be NULL */
};

/* --- bundles: stage-local index i --------------------------------------------- */

void spot_cuda_embed_forward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                             struct spot_cuda_flow *flow);
void spot_cuda_layer_forward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                             struct spot_cuda_flow *flow);
/* Mean loss; waits for it. */
double spot_cuda_head_forward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                              struct spot_cuda_flow *flow);
void spot_cuda_embed_backward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                              const void *dout);
/* din may be dout */
void spot_cuda_layer_backward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                              const void *dout, void *din);
void spot_cuda_head_backward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                             void *din);

/* --- sums: spot_stage_* behind the vtable ---------------------------------------- */

struct spot_cuda_target spot_cuda_target_of(struct spot_stage *st, int i, const char *name);

size_t spot_cuda_stage_rough_elem(const struct spot_stage *st);
float *spot_cuda_stage_rough(struct spot_stage *st, int bundle, size_t begin, size_t n);
void spot_cuda_stage_unrough(struct spot_stage *st, int bundle, size_t begin, size_t n);
void spot_cuda_stage_join_sums(struct spot_stage *st, int bundle, size_t begin, int64_t *other,
                               size_t n);

int64_t *spot_cuda_stage_sum(struct spot_stage *st, int bundle);
struct spot_stage_fault spot_cuda_stage_fault(struct spot_stage *st, int bundle);
double spot_cuda_stage_norm2(struct spot_stage *st, int bundle);
void spot_cuda_stage_update(struct spot_stage *st, int bundle, const struct spot_adamw *adamw,
                            double scale);
void spot_cuda_stage_back_off(struct spot_stage *st, int bundle, uint32_t overflow);

/* module.c */
const struct spot_kernel *spot_cuda_kernel_kind(size_t i, bool *runs_here);

extern const struct spot_backend spot_backend_cuda;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_STAGE_CUDA_H */
