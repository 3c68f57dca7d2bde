/* SPDX-License-Identifier: MIT */
/* infer_state.h - shared by the parts of the inference engine. */
#ifndef SPOT_ENGINE_INFER_STATE_H
#define SPOT_ENGINE_INFER_STATE_H

#include <stdbool.h>

#include "engine/cpu/infer_kernel.h"
#include "engine/cpu/kernel_cpu.h"
#include "engine/cpu/team.h"
#include "engine/infer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- image --- */

/* One tensor of a shard in the image: a vector or replicated tensor unchanged, or a matrix of n_out
 * outputs, packed in panels of 64, padded with zeros; of a mixture one for each expert. */
struct spot_infer_place {
    size_t offset, n_byte;
    bool is_matrix, is_out_first;
    int64_t n_out, n_in;
    int64_t n_copy; /* matrices: the number of experts, else 1; 0: not a matrix */
    size_t copy_byte;
};

/* Bytes that a panel takes for n_in inputs, a multiple of 64. */
size_t spot_infer_panel_byte(enum spot_infer_type type, int64_t n_in);

/* Call fn for all tensors in order; returns the bytes of the image. */
typedef void (*spot_infer_place_fn)(void *user, int bundle, const struct spot_arena *arena,
                                    int tensor, int shard, const struct spot_infer_place *place);
size_t spot_infer_walk(const struct spot_shape *shape, enum spot_infer_type type, int begin,
                       int end, spot_infer_place_fn fn, void *user);

#define SPOT_INFER_MAGIC "spotinf3"

struct spot_infer_head {
    char magic[8];
    uint64_t n_byte;
    int32_t type, begin, end, zero;
    struct spot_shape shape;
};

/* Row `out` of a packed matrix as floats. */
void spot_infer_unpack(float *to, const void *matrix, enum spot_infer_type type, int64_t out,
                       int64_t n_in);

/* --- engine --- */

enum {
    SPOT_INFER_GROUP = 96
}; /* maximum number of tokens that use a part of a panel while it is in L1 */

struct spot_infer_sequence {
    bool is_open;
    int64_t length;
    int n_page;
    int *page;
};

/* An engine whose weights, pages and sums are not in host memory; backend.h finds it. */
struct spot_infer_backend {
    const char *name;
    int (*open)(struct spot_infer *f, struct spot_err *err); /* close is called even if it fails */
    void (*close)(struct spot_infer *f);
    int (*pass)(struct spot_infer *f, struct spot_err *err);
    void (*read_page)(const struct spot_infer *f, int page, int layer, int shard, void *byte);
    void (*write_page)(const struct spot_infer *f, int page, int layer, int shard,
                       const void *byte); /* which is read until `wait` returns */
    void (*wait)(const struct spot_infer *f);
    void (*copy_page)(const struct spot_infer *f, int to, int from); /* all layers and shards */
};

/* Buffers hold a row per token: [own shard][stride], strides multiples of 64 elements. */
struct spot_infer {
    struct spot_infer_config config;
    struct spot_shape shape;
    enum spot_infer_type type;
    const struct spot_infer_backend *on; /* NULL: the CPU */
    void *device;                        /* its own */
    const struct spot_infer_kernel *kernel;
    const struct spot_vec *vec;
    struct spot_team *team;
    int n_shard;                         /* own */
    int64_t head_dim, n_head, n_kv_head; /* of a shard */
    struct spot_arena *arena;            /* of the bundles of the image */
    int image_begin, image_end;
    const void **tensor; /* [bundle][tensor][shard] in the image; NULL: not there */
    double *speed[2];    /* of pairs in layers that are not local, and in those; NULL: none turn */
    /* cache */
    float *pool;
    void *pool_block; /* the allocation that contains it */
    size_t page_elem; /* of a layer and shard */
    int n_layer, n_free, *free_page;
    int *n_holder; /* [n_page] sequences that use a page */
    struct spot_infer_sequence *sequence;
    /* one run */
    int n_token, n_item;
    const struct spot_infer_item *item;
    const float *in;
    float *out, *logit;
    int n_row, *row_token; /* rows of logits, and the token of each */
    int *token_item;
    int64_t *token_position;
    int64_t qkv_stride, att_stride, pre_stride, act_stride, q8_blocks;
    float *x, *norm, *sum, *qkv, *att, *pre, *act;
    float *turn[2]; /* [token][spot_shape_rotary] as spot_rope_row, by kind of layer */
    /* of a mixture: rows of choices, sorted by expert (infer_experts.c) */
    float *choice, *share, *gathered; /* [token][expert], [token][chosen], [row][C] */
    int *chosen, *row_choice;         /* [token][chosen]; [row] token * chosen + k */
    int64_t *expert_row;              /* [expert + 1] */
    float **expert_sum;               /* per thread: [own shard + 1][token][64] */
    float *packed; /* inputs of a product of many tokens: [tile][input][tokens of the tile] */
    int64_t packed_row, score_row;
    float **score, **part, *vocab; /* per thread; vocab: logits of padded shards */
    struct spot_q8 q8;
    struct spot_err err;
    bool has_failed;
};

/* A page of a layer (of this stage) and own shard: keys [head][d][16], values [head][16][d]. */
float *spot_infer_page(const struct spot_infer *f, int page, int layer, int shard);

/* Number of pages of a sequence from this one on that others share; and make them its own
 * copies. */
int spot_infer_shared(const struct spot_infer *f, int sequence, int64_t page);
void spot_infer_unshare(struct spot_infer *f, int sequence, int64_t page);

/* A team's job: the whole run. */
void spot_infer_pass(void *infer, int thread, int n_thread);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_INFER_STATE_H */
