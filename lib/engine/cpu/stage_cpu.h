/* SPDX-License-Identifier: MIT */
/* stage_cpu.h - the inside of a stage on the CPU: data kept per microbatch, and scratch space.
 *
 * Symbols: N = b * T rows, C width, H heads, F width inside the MLP, Q outputs of qkv, A inputs of
 * the activation (spot_shape_qkv, spot_shape_pre; GPT-2: 3C, F), V rows of the vocabulary with its
 * padding (spot_shape_vocab_rows). M members share a stage (1: alone); sharded arrays hold the own
 * shards only.
 */
#ifndef SPOT_ENGINE_CPU_STAGE_CPU_H
#define SPOT_ENGINE_CPU_STAGE_CPU_H

#include "engine/cpu/attention.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/team.h"
#include "engine/stage.h"
#include "engine/tensor_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the backward pass of one bundle needs from the forward pass of a microbatch. What is
 * recomputed is in the stage's scratch space, shared by all layers. */
struct spot_save {
    float *x;     /* [N * C] input of the bundle; not for the embedding */
    float *norm1; /* [N * 2] mean and 1 / deviation; layers: ln1, head: lnf */
    float *qkv;   /* [N * Q / M] layers; queries and keys normed and rotated */
    /* [N * Q / M] layers with norms of queries and keys: the values before these norms */
    float *raw;
    float *qk_stat;   /* statistics of these norms: [(H + Hk) / M][N * 2], or of all heads together
                         [2][N * 2] */
    float *attention; /* [N * H d / M] layers */
    float *softmax;   /* [N * H / M * 2] layers */
    float *mid;       /* [N * C] layers: x + attention branch */
    float *norm2;     /* [N * 2] layers: ln2 */
    float *pre;       /* [N * A / M] layers: before the activation */
    float *post_x[2]; /* [N * C] for halves of layers with a norm after them: the values before that
                         norm */
    float *post[2];   /* [N * 2] */
    float *dlogit;    /* [N * V / M] head */
};

struct spot_slot {
    uint32_t *token; /* [b * n_word] */
    struct spot_save *save;
};

struct spot_stage {
    const struct spot_backend *backend; /* must be first */
    struct spot_stage_config config;
    const struct spot_cpu_kernel *kernel;
    int n_bundle;
    int64_t n_row;  /* N */
    int64_t n_word; /* of a sequence, see spot_stage_words */
    int limit_bits; /* |gradient * 2^exponent| of one microbatch is below 2^limit_bits */
    struct spot_team *team;
    struct spot_bundle **bundle;
    int64_t **sum;                        /* per bundle [arena.n_elem] */
    bool *is_summed;                      /* per bundle: if false, the sums count as zero */
    struct spot_stage_fault *fault;       /* per bundle */
    struct spot_stage_times *times;       /* seconds per bundle since the step began */
    void (*done)(void *user, int bundle); /* NULL, or see spot_stage_watch */
    void *done_user;
    struct spot_slot *slot;
    void *memory; /* all memory above and below, except the team's */
    /* scratch, free between calls */
    struct spot_save again; /* recomputed part of a layer */
    float *norm;            /* [N * C] */
    float *act, *dact;      /* [N * F / M] */
    float *slope;           /* [N * F / M] without a gate */
    float *dpre;            /* [N * A / M] with a gate */
    float *turn[2];         /* spot_rope_table, kept; of local layers if they differ */
    float *dqkv;            /* [N * Q / M] */
    float *d[5];            /* [N * C]; d[1] also [N * H d / M]; d[3], d[4] only if not plain */
    float *logit_slope;     /* [N * V / M] capped logits: the slope of the cap */
    float *grad;            /* one weight gradient: max(Q / M, A / M, T + V / M) * C */
    float *vector[2];       /* one bias gradient: [max(C, Q / M, A / M)] */
    double *partial;        /* one value per chunk of a bundle, or per row */
    uint32_t *top;          /* [n_thread * SPOT_TENSORS_MAX] largest gradient, as bits */
    struct spot_gemm_work *work; /* per thread */
    float **score;               /* per thread: attention */
    float *row_top;              /* [M][2][N]: largest logit, logit of the target */
    float *row_sum;              /* [n_node][N]: sums of exponentials, then [N] their sum */
    float *row_pair;             /* the same with two numbers per row, for norms over all heads */
    /* of the tensor group */
    int shard, n_shard;             /* own: [shard, shard + n_shard) */
    int n_node;                     /* nodes of the tree of sums that cover the own shards */
    float *group_out;               /* [n_node][N * C] partial sums of the own shards */
    struct spot_tensor_group group; /* used by one thread at a time */
};

/* Number of elements in the own shards, of n elements that are divided evenly among all shards. */
int64_t spot_stage_own(const struct spot_stage *stage, int64_t n);

/* Whether this member adds the gradients of replicated tensors. */
bool spot_stage_is_lead(const struct spot_stage *stage);

/* One tensor of a bundle in the master plane. */
struct spot_param {
    const float *w;     /* the first own shard, or the whole tensor */
    int64_t shard_elem; /* distance from shard to shard */
    int64_t rows, cols; /* size of one shard, or of the whole tensor */
};
struct spot_param spot_stage_param(const struct spot_stage *stage, int i, const char *name);

/* --- the work of one thread in a pass -----------------------------------------
 *
 * A pass is one call of the team. In it, each thread may use what earlier passes left, but of this
 * pass only what it wrote itself: a product and the element-wise operations after it, on the same
 * block. */

struct spot_part {
    struct spot_stage *stage;
    int thread, n_thread;
};

/* One bundle and one microbatch: the subject of a pass. */
struct spot_pass {
    struct spot_stage *stage;
    int i;    /* stage-local index of the bundle */
    int half; /* of a layer: 0, attention, or 1, the MLP */
    const struct spot_save *save;
    const uint32_t *token;
    const float *dout, *dy; /* dy: the gradient of the half's second product */
    const float *pair;      /* two numbers of each row over all shards, [2][N] */
    float *out, *din;
};
typedef void (*spot_pass_fn)(const struct spot_part *part, const struct spot_pass *pass);
void spot_pass_run(const struct spot_pass *pass, spot_pass_fn fn);

/* A vector of the bundle; NULL if the architecture has none. */
const float *spot_pass_vector(const struct spot_pass *pass, const char *name);

/* The thread's rows of N. */
void spot_part_rows(const struct spot_part *part, int64_t *begin, int64_t *end);

/* Layer norm, or RMS norm if b is NULL. */
void spot_part_norm(const struct spot_part *part, float *y, float *stat, const float *x,
                    const float *w, const float *b);
void spot_part_norm_again(const struct spot_part *part, float *y, const float *stat, const float *x,
                          const float *w, const float *b);
/* dx = base + the gradient through the norm; adds the gradients of weight and bias to the sums. A
 * norm whose bias the bundle lacks is an RMS norm. */
struct spot_norm_back {
    const char *weight, *bias;
    float *dx;
    const float *base, *dy, *stat, *x;
};
void spot_part_norm_back(const struct spot_part *part, int i, const struct spot_norm_back *n);

/* y[N][.] = x W for a sharded weight: if is_out_first, rows of W are outputs, and y has those of
 * the own shards; else rows of W are inputs, and y is the sum over all shards of all members. */
struct spot_block spot_part_linear(const struct spot_part *part, int i, const char *weight,
                                   bool is_out_first, const float *x, float *y);
/* y = x W + b: adds the gradients of W, and of b if the bundle has it, to the sums and returns the
 * gradient of x. dx may be neither x nor dy. */
struct spot_block spot_part_linear_back(const struct spot_part *part, int i, const char *weight,
                                        const char *bias, bool is_out_first, const float *x,
                                        const float *dy, float *dx);

/* Add the bias to a block of rows of c: x += bias. The parts of the bias for the block's columns
 * are shard_elem apart. Unless act is NULL, also act = gelu(x), in the form that the shape
 * requires. */
void spot_part_bias(const struct spot_part *part, const struct spot_block *block, int64_t c,
                    const struct spot_param *bias, float *x, float *act);
/* y += bias + x; bias may be NULL */
void spot_part_add2(const struct spot_part *part, const struct spot_block *block, int64_t c,
                    const float *bias, const float *x, float *y);
void spot_part_mul(const struct spot_part *part, const struct spot_block *block, int64_t c,
                   const float *x, float *y);

/* --- bundles: stage-local index i, x and dx are [N * C] --------------------- */

void spot_embed_forward(struct spot_stage *stage, int i, const uint32_t *token, float *out);
void spot_embed_backward(struct spot_stage *stage, int i, const uint32_t *token, const float *dout);
void spot_layer_forward(struct spot_stage *stage, int i, const struct spot_save *save, float *out);
/* din may be dout */
void spot_layer_backward(struct spot_stage *stage, int i, const struct spot_save *save,
                         const float *dout, float *din);
double spot_head_forward(struct spot_stage *stage, int i, const struct spot_save *save,
                         const uint32_t *token);
void spot_head_backward(struct spot_stage *stage, int i, const struct spot_save *save, float *din);

/* A half of a layer, from after its first norm to its second product; backward from w->dy to
 * stage->d[1], the gradient after the norm. The functions named `again` recompute values that
 * `save` does not keep. */
void spot_heads_forward(const struct spot_pass *w);
void spot_heads_again(const struct spot_pass *w);
void spot_heads_backward(const struct spot_pass *w);
void spot_mlp_forward(const struct spot_pass *w);
void spot_mlp_again(const struct spot_pass *w);
void spot_mlp_backward(const struct spot_pass *w);

/* Input of a half's first product: its norm, which is in scratch space, or the input of the
 * half. */
const float *spot_half_in(const struct spot_pass *w);
void spot_part_half_norm_again(const struct spot_part *part, const struct spot_pass *w);
/* The second product; if no norm follows, also the sum with the input of the half. */
void spot_part_half_out(const struct spot_part *part, const struct spot_pass *w, const char *weight,
                        const char *bias, const float *in);

/* --- sums --------------------------------------------------------------------- */

/* Add elements [begin, end) of a tensor's gradient, shards in order, to the sums. In one pass no
 * two threads may add to the same elements. */
void spot_sum_add(const struct spot_part *part, int i, int tensor, const float *grad, int64_t begin,
                  int64_t end);

/* The same for grad[n] at element `at` of a replicated tensor of which each shard adds a part;
 * is_more: in this pass another part was already added there. */
void spot_sum_add_shared(const struct spot_part *part, int i, int tensor, const float *grad,
                         int64_t at, int64_t n, bool is_more);

/* Check the values that the team added to a bundle, and record faults. Once per backward pass. */
void spot_sum_close(struct spot_stage *stage, int i);

/* Write zeros if the bundle got no gradient in this step. */
void spot_sum_settle(const struct spot_stage *stage, int i);

/* Chunks of a bundle for norm and update. */
int64_t spot_sum_chunks(const struct spot_arena *arena);

/* The backend's part of stage.h that works on sums. */
double spot_cpu_stage_norm2(struct spot_stage *stage, int bundle);
void spot_cpu_stage_update(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                           double scale);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_STAGE_CPU_H */
