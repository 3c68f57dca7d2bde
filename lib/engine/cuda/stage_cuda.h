/* SPDX-License-Identifier: MIT */
/* stage_cuda.h - the state of a stage on a device, and the host's copy of it.
 *
 * Symbols as in kernels.h. `void *` to T-typed arrays of the kind's `real`. Sharded arrays hold
 * only the shards of this member of a tensor group: H, F, Q, A and Vr count its own.
 */
#ifndef SPOT_ENGINE_CUDA_STAGE_CUDA_H
#define SPOT_ENGINE_CUDA_STAGE_CUDA_H

#include "engine/backend.h"
#include "engine/cuda/device.h"
#include "engine/memory_plan.h"
#include "engine/tensor_group.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_cuda_kernel {
    struct spot_kernel base;
    enum spot_real real;
    /* For tensor groups: products over a sharded weight are computed shard by shard, and sums over
     * shards in the tree of engine/tree.h. Otherwise each is one product, and M is 1. */
    bool is_split;
};

/* One bundle. */
struct spot_cuda_part {
    struct spot_bundle *bundle; /* its planes are those of the last sync; NULL: forgotten */
    struct spot_arena arena;    /* the bundle's */
    int64_t step;               /* step of the device's copy */
    bool is_locked;             /* the host's planes are page-locked by this stage */
    struct spot_cuda_planes on;
    uint32_t *top; /* [SPOT_TENSORS_MAX] largest gradients of this step, on the device */
    int64_t weight_at[SPOT_TENSORS_MAX];     /* offset of each tensor in the compute copy */
    int32_t exponent_used[SPOT_TENSORS_MAX]; /* the exponents that the last backward call used */
    int64_t *sum_host;                       /* allocated by the first spot_stage_sum */
    bool is_sum_locked;                      /* page-locked, to be copied at the bus' speed */
    bool is_sum_on_host;                     /* the host's sums are valid */
    bool is_sum_changed;                     /* the device's sums may be older */
    bool is_ahead;                           /* the device has updates that the host lacks */
};

/* What the backward pass of one bundle needs from a microbatch; as on the CPU, what is recomputed
 * is in the stage's scratch space, shared by all layers. A: inputs of the activation, 2F of
 * Llama's, else F. */
struct spot_cuda_save {
    void *x;         /* [N * C] input of the bundle; not for the embedding */
    float *norm1;    /* [N * 2] */
    void *qkv;       /* [N * Q] layers; Llama: queries and keys rotated */
    void *attention; /* [N * H d] layers */
    float *lse;      /* [N * H] layers */
    void *mid;       /* [N * C] layers: x + attention branch */
    float *norm2;    /* [N * 2] layers */
    void *pre;       /* [N * A] layers: before the activation */
    void *dlogit;    /* [N * Vr] head */
};

struct spot_cuda_slot {
    uint32_t *token;      /* [b * (T + 1)] on the device */
    uint32_t *token_host; /* the same on the host */
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
    struct spot_cuda_save *save; /* the data of all slots */
    uint32_t *top_host;          /* [n_bundle][SPOT_TENSORS_MAX] */
    bool is_top_here;
    double *partial_host;  /* partial sums: per chunk of a bundle, or per row */
    uint32_t *groups_host; /* [3 * N + 1 + Vr] */
    float *boundary_host;  /* [N * C] page-locked */
    /* on the device, scratch */
    struct spot_cuda_save again; /* recomputed part of a layer */
    uint32_t *top;               /* [n_bundle][SPOT_TENSORS_MAX] largest gradients */
    unsigned long long *top_sum; /* [SPOT_TENSORS_MAX] largest sums, in an update */
    double *partial;             /* partial sums: per chunk of a bundle, or per row */
    float *boundary;             /* [N * C]; also the partial dq of attention, see is_five */
    bool is_five;                /* whether attention's backward pass uses five products */
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
    void *out;                   /* [N * C] result of the last forward call */
    /* for kinds that are split by shards */
    bool is_split;
    int shard, n_shard;       /* own: [shard, shard + n_shard) */
    int n_node;               /* nodes of the tree of sums that cover the own shards */
    float *node;              /* [n_node + its depth][N * C] sums over own shards */
    float *row_top, *row_sum; /* [M][2][N]; [n_shard + n_node + 1][N] of the classifier */
    struct spot_tensor_group group;
    float *exchange_host; /* data that a group exchanges through the host */
};

/* Number of elements in the own shards, of n elements that are divided evenly among all shards. */
int64_t spot_cuda_own(const struct spot_stage *st, int64_t n);

/* Whether this member adds the gradients of replicated tensors. */
bool spot_cuda_is_lead(const struct spot_stage *st);

/* A running value that is the sum of two arrays, or a single one. */
struct spot_cuda_flow {
    void *x, *delta; /* delta may be NULL */
};

/* --- bundles on the device: stage_bundle.c ------------------------------------- */

/* Upload each part's bundle, unless its step is already on the device. */
void spot_cuda_part_renew(struct spot_stage *st, int i, struct spot_bundle *bundle);
/* Sets the chunks of tensors, once. */
void spot_cuda_part_chunks(struct spot_stage *st, const struct spot_cuda_part *part);
void spot_cuda_part_forget(struct spot_stage *st, struct spot_cuda_part *part);

/* --- memory: stage_memory.c ---------------------------------------------------- */

enum { SPOT_CUDA_ALIGN = 256 };

/* Plans all device memory; sets the pointers of `stage` if the plan has a base. */
void spot_cuda_plan(struct spot_memory_plan *plan, struct spot_stage *stage);
/* Partial sums that the host adds up: chunks of a bundle, or rows. */
int64_t spot_cuda_partials(const struct spot_stage *stage);
/* Maximum number of floats that pass through the host in one exchange of a tensor group. */
size_t spot_cuda_exchange_elem(const struct spot_stage *stage);
/* Shards of a tensor, 1 if it is replicated. */
int spot_cuda_shards_of(const struct spot_arena *arena, int tensor);

/* --- products and norms: stage_linear.c -------------------------------------- */

/* Stage, stage-local bundle, and the widths that every pass needs. */
struct spot_cuda_at {
    struct spot_stage *st;
    int i;
    int64_t n, c, f; /* N, C, own F */
};
struct spot_cuda_at spot_cuda_at(struct spot_stage *st, int i);

bool spot_cuda_has(const struct spot_cuda_at *at, const char *tensor);
/* A tensor of the compute copy, all shards. */
const void *spot_cuda_weight(const struct spot_cuda_at *at, const char *tensor);

/* y [N][out] = x [N][in] W + b; of `in` and `out`, the sharded one is the size of the own
 * shards. */
struct spot_cuda_linear {
    const char *weight, *bias; /* a bias that the bundle lacks is skipped */
    int64_t in, out;
    bool is_out_first; /* W is [out][in], in shards of outputs; else [in][out], of inputs */
};
void spot_cuda_linear_forward(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                              void *y, const void *x);
/* y = gelu(pre), pre = x W + b, for shards of outputs. */
void spot_cuda_linear_gelu(const struct spot_cuda_at *at, const struct spot_cuda_linear *l, void *y,
                           void *pre, const void *x);
/* Adds the gradients of W and b to the sums. */
void spot_cuda_linear_gradients(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                                const void *x, const void *dy);
void spot_cuda_linear_backward(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                               void *dx, const void *dy);
/* The same through x = gelu(pre): dpre is the gradient of pre; for shards of inputs. */
void spot_cuda_linear_gelu_back(const struct spot_cuda_at *at, const struct spot_cuda_linear *l,
                                void *dpre, void *pre, const void *dy);

/* An RMS norm if the bundle has no bias for it. */
struct spot_cuda_norm_of {
    const char *weight, *bias;
};
/* st->norm = norm(x), x being the flow's value, which is written to `x` if it is a sum. */
void spot_cuda_norm_forward(const struct spot_cuda_at *at, const struct spot_cuda_norm_of *norm,
                            void *x, float *stat, const struct spot_cuda_flow *flow);
void spot_cuda_norm_once_more(const struct spot_cuda_at *at, const struct spot_cuda_norm_of *norm,
                              const float *stat, const void *x);
/* dx = base + gradient by x; adds those of weight and bias. */
void spot_cuda_norm_backward(const struct spot_cuda_at *at, const struct spot_cuda_norm_of *norm,
                             void *dx, const void *base, const void *dy, const float *stat,
                             const void *x);

/* The exchange of st->group: on the device, or through st->exchange_host. */
int spot_cuda_exchange(void *user, const struct spot_stage_piece *piece, size_t n,
                       struct spot_err *err);

/* --- bundles: stage-local index i --------------------------------------------- */

void spot_cuda_embed_forward(struct spot_stage *st, int i, const struct spot_cuda_slot *slot,
                             struct spot_cuda_flow *flow);
void spot_cuda_layer_forward(struct spot_stage *st, int i, const struct spot_cuda_save *save,
                             struct spot_cuda_flow *flow);
/* Returns the mean loss; waits for the device. */
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
