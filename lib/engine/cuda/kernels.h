/* SPDX-License-Identifier: MIT */
/* kernels.h - C entry points of the kernels. All pointers except `stream` are device memory; rows
 * are contiguous. The order of floating-point sums never depends on the grid of a launch.
 *
 * Symbols: N rows = b * T, C width, H heads, Hk heads of keys and values, d = C / H, Q = (H + 2Hk)
 * d outputs of qkv, F width inside the MLP, V vocabulary, Vr its rows with padding. T-typed arrays
 * hold elements of `real`.
 */
#ifndef SPOT_ENGINE_CUDA_KERNELS_H
#define SPOT_ENGINE_CUDA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/exact.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t is a pointer to it */
typedef struct CUstream_st *spot_stream;

enum spot_real { SPOT_F32, SPOT_BF16 }; /* type of weights in products, and of activations */

/* Version of the compiler that built the kernels, 1300 for 13.0: their bits may change with it. */
int spot_cuda_compiler(void);

/* --- element by element ------------------------------------------------------ */

void spot_cuda_narrow(enum spot_real real, void *to, const float *from, size_t n, spot_stream s);
void spot_cuda_widen(enum spot_real real, float *to, const void *from, size_t n, spot_stream s);
/* y = a + b, rounded once */
void spot_cuda_add(enum spot_real real, void *y, const void *a, const void *b, size_t n,
                   spot_stream s);
/* y [N][c] = x + bias (NULL: none), rounded once; x fp32, bias of T [c] */
void spot_cuda_finish(enum spot_real real, void *y, const float *x, const void *bias, int64_t n_row,
                      int64_t c, spot_stream s);
/* act = gelu(pre), tanh form */
void spot_cuda_gelu(enum spot_real real, void *act, const void *pre, size_t n, spot_stream s);
/* d *= gelu'(pre) */
void spot_cuda_gelu_back(enum spot_real real, void *d, const void *pre, size_t n, spot_stream s);

/* Rows of pre are [shard][gate|up][F / S]: act [N][F] = gate sigma(gate) up. */
void spot_cuda_swiglu(enum spot_real real, void *act, const void *pre, int64_t n_row, int64_t ffn,
                      int64_t n_shard, spot_stream s);
/* dpre [N][2F] from dact [N][F]; recomputes act */
void spot_cuda_swiglu_back(enum spot_real real, void *dpre, void *act, const void *pre,
                           const void *dact, int64_t n_row, int64_t ffn, int64_t n_shard,
                           spot_stream s);

/* --- norms --------------------------------------------------------------------- */

/* sum = a + b (b NULL: sum is not written, a is the row); y = (sum - mean) * rstd * w + bias.
 * stat [N][2] gets mean and rstd = 1 / sqrt(variance + eps); w and bias are fp32 [C]. bias NULL,
 * here and below: an RMS norm, whose mean counts as 0. */
void spot_cuda_norm(enum spot_real real, void *sum, void *y, float *stat, const void *a,
                    const void *b, const float *w, const float *bias, float eps, int64_t n_row,
                    int64_t c, spot_stream s);
/* The same y from the stored stat. */
void spot_cuda_norm_again(enum spot_real real, void *y, const float *stat, const void *x,
                          const float *w, const float *bias, int64_t n_row, int64_t c,
                          spot_stream s);
/* dx = base (NULL: 0) + the gradient through the norm; dx may be base. */
void spot_cuda_norm_back(enum spot_real real, void *dx, const void *base, const void *dy,
                         const float *stat, const void *x, const float *w, bool is_rms,
                         int64_t n_row, int64_t c, spot_stream s);

/* Elements of `partial` for column sums over N rows of c. */
size_t spot_cuda_partial_elem(int64_t n_row, int64_t c);
/* dw = column sums of dy * xhat, db (unless NULL) of dy; fp32 [C]. */
void spot_cuda_norm_grad(enum spot_real real, float *dw, float *db, float *partial, const void *dy,
                         const float *stat, const void *x, int64_t n_row, int64_t c, spot_stream s);
void spot_cuda_column_sum(enum spot_real real, float *sum, float *partial, const void *x,
                          int64_t n_row, int64_t c, spot_stream s);

/* --- embedding and loss -------------------------------------------------------- */

/* out[r] = wte[token] + wpe[r % T] (wpe NULL: none); token [b][T + 1] */
void spot_cuda_embed(enum spot_real real, void *out, const void *wte, const void *wpe,
                     const uint32_t *token, int64_t n_row, int64_t seq, int64_t c, spot_stream s);

/* Destination of a gradient of [n] fp32, shards in order, in the fixed-point sums. */
struct spot_cuda_target {
    int64_t *sum;  /* sums of the tensor, from shard 0 on */
    uint32_t *top; /* largest |gradient| as its bits */
    int64_t per_shard, shard_stride;
    double scale; /* 2^exponent */
};

/* Adds the rows of dout that belong to the same token: group g is token[g], rows order[start[g]..
 * start[g + 1]), ascending. wpe NULL: no positions. */
struct spot_cuda_groups {
    const uint32_t *token, *start, *order;
    int n_group;
};
void spot_cuda_embed_back(enum spot_real real, const struct spot_cuda_target *wte,
                          const struct spot_cuda_target *wpe, const struct spot_cuda_groups *groups,
                          const void *dout, int64_t n_row, int64_t seq, int64_t c, spot_stream s);

/* logit [N][Vr] becomes (softmax - onehot(target)) / N, 0 in the padding; loss [N] fp64. */
void spot_cuda_classify(enum spot_real real, void *logit, double *loss, const uint32_t *token,
                        int64_t n_row, int64_t seq, int64_t vocab, int64_t vocab_rows,
                        spot_stream s);

/* The same divided by shards, for a tensor group: logits of the own shards [shard, shard + n_shard)
 * of S, per_shard each. The members of the group exchange maxima, and sums over all shards.
 */
struct spot_cuda_logits {
    enum spot_real real;
    void *logit;           /* [N][n_shard * per_shard] */
    const uint32_t *token; /* [b][T + 1] */
    int64_t n_row, seq, vocab, per_shard;
    int shard, n_shard;
};
/* top [2][N]: the largest own logit of the row (-inf if there is none); the target's logit, if
 * own */
void spot_cuda_logit_tops(const struct spot_cuda_logits *l, float *top, spot_stream s);
/* sum [n_shard][N] of exp(logit - largest) over each own shard; top [M][2][N] */
void spot_cuda_logit_sums(const struct spot_cuda_logits *l, float *sum, const float *top,
                          int n_member, spot_stream s);
/* loss [N], and logits are replaced by gradients; sum [N] over all shards */
void spot_cuda_logit_losses(const struct spot_cuda_logits *l, double *loss, const float *sum,
                            const float *top, int n_member, spot_stream s);

/* --- attention ------------------------------------------------------------------ */

enum { SPOT_CUDA_HEAD_DIM_MAX = 256 };

struct spot_cuda_attention {
    enum spot_real real;
    int64_t n_seq, seq, dim, n_head, n_kv_head, n_shard; /* n_seq = b */
    const void *qkv; /* [N][Q], columns [shard][q|k|v][their heads of the shard][d] */
    void *out;       /* [N][H d] */
    float *lse;      /* [b][H][T] log of the sum of exponentials, for the backward pass */
    /* backward only */
    const void *dout; /* [N][H d] */
    void *dqkv;       /* [N][Q] */
    float *dot;       /* [b][H][T] scratch: out . dout of each row and head */
    float *dq; /* [b][H][T][d] scratch for the variant with five products; NULL: seven products.
                  Equal bits. */
};
/* Rotate queries and keys of qkv (way 1) or dqkv (way -1) in place; turn [T][d] as
 * spot_rope_table. */
void spot_cuda_rotate(const struct spot_cuda_attention *at, void *qkv, const float *turn, float way,
                      spot_stream s);
void spot_cuda_attention_forward(const struct spot_cuda_attention *at, spot_stream s);
void spot_cuda_attention_backward(const struct spot_cuda_attention *at, spot_stream s);

/* --- fixed point and update ------------------------------------------------------- */

/* sum += round(grad * scale) to nearest even, |grad * scale| <= 2^51; top = max(top, |grad|). n
 * gradients of whole shards, at least one. */
void spot_cuda_quantise(const struct spot_cuda_target *target, const float *grad, int64_t n,
                        spot_stream s);

/* to = from, rounded to nearest; and the inverse, from whole numbers below 2^63 */
void spot_cuda_sums_to_floats(float *to, const int64_t *from, size_t n, spot_stream s);
void spot_cuda_sums_of_floats(int64_t *to, const float *from, size_t n, spot_stream s);

/* both = a + b */
void spot_cuda_join_sums(int64_t *a, int64_t *b, size_t n, spot_stream s);

/* An interval of one tensor of one shard, at most SPOT_EXACT_CHUNK elements. */
struct spot_cuda_chunk {
    int64_t arena, weight; /* element offsets in planes and sums; in the compute copy */
    int32_t n, tensor;
};
struct spot_cuda_planes {
    float *plane[SPOT_PLANES];
    int64_t *sum;
    void *weight; /* compute copy, elements of real, shards of a tensor in order */
    const struct spot_cuda_chunk *chunk;
    int n_chunk;
};
struct spot_cuda_units {
    double unit[SPOT_TENSORS_MAX];
};
struct spot_cuda_steps {
    struct spot_adamw_step step[SPOT_TENSORS_MAX];
};

/* weight = the master plane */
void spot_cuda_gather(enum spot_real real, const struct spot_cuda_planes *planes, spot_stream s);
/* partial [n_chunk] = sum of (sum * unit)^2 */
void spot_cuda_norm2(const struct spot_cuda_planes *planes, double *partial,
                     const struct spot_cuda_units *units, spot_stream s);
/* AdamW and the compute copy in one pass; top [SPOT_TENSORS_MAX] becomes max(top, |sum|). */
void spot_cuda_adamw(enum spot_real real, const struct spot_cuda_planes *planes,
                     unsigned long long *top, const struct spot_cuda_steps *steps, spot_stream s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_KERNELS_H */
