/* SPDX-License-Identifier: MIT */
/* infer_kernels.h - kernels of serving. All pointers are device memory; activations are fp32, rows
 * contiguous. The order of each sum depends only on the shape and a token's position: results do
 * not depend on the other tokens of a launch.
 *
 * Symbols: N tokens of a run, C width, S own shards, H and Hk heads and heads of keys of a shard, d
 * head dimension, Q = (H + 2 Hk) d.
 */
#ifndef SPOT_ENGINE_CUDA_INFER_KERNELS_H
#define SPOT_ENGINE_CUDA_INFER_KERNELS_H

#include "engine/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_CUDA_PANEL = 64,           /* adjacent outputs, as infer.h packs them */
    SPOT_CUDA_SPLIT = 256,          /* inputs of a partial sum */
    SPOT_CUDA_KEYS = 128,           /* keys of a partial attention, whole pages */
    SPOT_CUDA_PAGE = 16,            /* tokens of a page */
    SPOT_CUDA_ATTEND_MAX = 256,     /* tokens of one launch of attention */
    SPOT_CUDA_CANDIDATES = 1024,    /* most tokens that filters may keep */
    SPOT_CUDA_CHOOSE_MAX = 1 << 18, /* logits of a row from which a token is chosen */
};

/* y [t * y_stride + o] = bias[o] + sum over inputs of x [t * x_stride + k] w; w in panels of
 * [n_in][64] elements of `real`, n_out of them padded to whole panels. A partial sum is in fp32
 * eight chains over 32 inputs, added in ascending order; in bf16 one chain over 16 inputs at a
 * time, as mma adds them, with each factor split into three bf16 numbers. The partial sums are
 * added in ascending order. */
struct spot_cuda_skinny {
    enum spot_real real;
    const void *w;
    const float *x, *bias; /* bias NULL: none */
    float *y, *partial;    /* spot_cuda_skinny_elem */
    int64_t n_token, n_in, n_out, x_stride, y_stride;
};
size_t spot_cuda_skinny_elem(int64_t n_token, int64_t n_in, int64_t n_out);
void spot_cuda_skinny(const struct spot_cuda_skinny *p, spot_stream s);
/* Computes the partial sums of a product in bf16. With many tokens it computes the complete product
 * and returns true. */
bool spot_cuda_panel(const struct spot_cuda_skinny *p, spot_stream s);

/* x [N][C] = row token[t] of a table in panels, cut into shards of `rows` rows, + wpe (NULL: none)
 * of its position; shard[] points to the shards. */
void spot_cuda_infer_embed(enum spot_real real, float *x, const void *const *shard, int64_t rows,
                           const float *wpe, const uint32_t *token, const int32_t *position,
                           int64_t n_token, int64_t c, spot_stream s);
/* x [N][C] += sum + bias (NULL: 0); sum and bias are added first */
void spot_cuda_infer_settle(float *x, const float *sum, const float *bias, int64_t n_token,
                            int64_t c, spot_stream s);
/* to [n][C] = rows row[i] of x */
void spot_cuda_infer_pick(float *to, const float *x, const int32_t *row, int64_t n, int64_t c,
                          spot_stream s);

/* A page of a layer and own shard: keys [Hk][d][16], values [Hk][16][d]. */
struct spot_cuda_paged {
    int64_t dim, n_head, n_kv_head, n_shard; /* d, H, Hk, S */
    int64_t n_layer, layer;
    float *qkv;              /* [N][S][Q] */
    float *att;              /* [N][S][H d] */
    float *pool;             /* [page][n_layer][S][2 Hk d 16] */
    const int32_t *page;     /* [item][page_stride], pages of its sequence */
    const int32_t *item;     /* [N] */
    const int32_t *position; /* [N] */
    const float *turn;       /* [T][d] as spot_rope_table; NULL: no rotation */
    float *partial;          /* spot_cuda_paged_elem */
    int64_t page_stride, n_token, seq;
    const int32_t *tile,
        *tile_host; /* [n_tile + 1] first tokens of tiles, on the device and on the host */
    int64_t n_tile;
};
/* Tokens whose queries are multiplied together: consecutive tokens of an item, and their `group` =
 * H / Hk heads that share keys, 64 rows or one token. Returns n_tile; tile [n_token + 1].
 */
int64_t spot_cuda_paged_tiles(int32_t *tile, const int32_t *item, int64_t n_token, int64_t group);
size_t spot_cuda_paged_elem(int64_t n_token, int64_t n_head, int64_t dim, int64_t seq);
/* Rotate queries and keys; write keys and values to their pages. */
void spot_cuda_paged_place(const struct spot_cuda_paged *p, spot_stream s);
/* The keys up to a token's position in parts of 128, with a softmax of each; the parts in ascending
 * order. Factors are split into three bf16 numbers each. `most` is at least the largest position of
 * the run. */
void spot_cuda_paged_attend(const struct spot_cuda_paged *p, int64_t most, spot_stream s);

/* How the token of a row is to be chosen: engine/sample.h without penalties. top_k is at most
 * SPOT_CUDA_CANDIDATES, min_p at most 1. */
struct spot_cuda_choice {
    double scale; /* 1 / temperature; 0: the first of the largest logits */
    double top_p, min_p, noise;
    int32_t top_k;
    int32_t is_wanted; /* 0: nothing is written */
};
/* is_sure 0: rounding could make another token the right one, or filters keep more candidates than
 * were looked at; spot_sample_choose must be asked. */
struct spot_cuda_chosen {
    uint32_t token;
    int32_t is_sure;
};
/* For each of n_row rows of n logits, SPOT_CUDA_CHOOSE_MAX at most, `stride` apart. */
void spot_cuda_infer_choose(struct spot_cuda_chosen *chosen, const struct spot_cuda_choice *choice,
                            const float *logit, int64_t n_row, int64_t n, int64_t stride,
                            spot_stream s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_INFER_KERNELS_H */
