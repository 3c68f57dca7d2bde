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

/* One tensor of a shard in the image: a vector or replicated tensor, stored unchanged, or a matrix
 * of n_out outputs, packed in panels of 64 and padded with zeros; a mixture has one matrix for each
 * expert. */
struct spot_infer_place {
    size_t offset, n_byte;
    bool is_matrix, is_out_first;
    int64_t n_out, n_in;
    int64_t n_copy; /* of a matrix: the number of experts, or 1; 0: not a matrix */
    size_t copy_byte;
};

/* Bytes of a panel of n_in inputs, a multiple of 64. */
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
    /* maximum number of tokens that use a part of a panel while it is in L1 */
    SPOT_INFER_GROUP = 96,
    SPOT_INFER_SUMS = 1 << 17 /* floats of sums over experts that stay in L2 */
};

struct spot_infer_sequence {
    bool is_open;
    int adapter; /* 0: none */
    int64_t length;
    int64_t n_summed; /* number of first tokens added to sum */
    float *sum;       /* [C] of SPOT_POOL_MEAN; NULL: not needed yet */
    int64_t n_told;   /* number of first tokens recorded with their pages */
    int n_known;      /* number of first pages that are in the index */
    int n_page;
    int *page;
};

/* Contents of a page. In the index the preceding page is part of its identity, so that a page
 * identifies all tokens up to its end. */
struct spot_infer_note {
    uint32_t token[SPOT_INFER_PAGE];
    int before; /* preceding page; -1 - adapter: none */
    bool is_known;
    int next;         /* next page of its bucket; -1: none */
    int older, newer; /* in the list of kept pages; -1: none */
};

/* Functions of an engine whose weights, pages and sums are not in host memory, see backend.h. */
struct spot_infer_backend {
    const char *name;
    int (*open)(struct spot_infer *f, struct spot_err *err); /* close is called even if it fails */
    void (*close)(struct spot_infer *f);
    int (*pass)(struct spot_infer *f, struct spot_err *err);
    void (*read_page)(const struct spot_infer *f, int page, int layer, int shard, void *byte);
    void (*write_page)(const struct spot_infer *f, int page, int layer, int shard,
                       const void *byte); /* must stay unchanged until `wait` returns */
    void (*wait)(const struct spot_infer *f);
    void (*copy_page)(const struct spot_infer *f, int to, int from); /* all layers and shards */
    struct spot_infer_counts (*counts)(const struct spot_infer *f);
};

/* A run of a mixture of experts: rows of choices, sorted by expert (infer_experts.c). The shared
 * expert comes after the last routed one, and every token chooses it. */
struct spot_infer_mixture {
    float *choice, *share, *gathered; /* [token][expert], [token][chosen], [row][C] */
    int *chosen, *row_choice;         /* [token][chosen]; [row] token * chosen + k */
    int64_t *expert_row;              /* [expert + 1] */
    float **expert_sum; /* [thread] sums of experts: max(SPOT_INFER_SUMS, [own shard][token][64]),
                           then a part of [token][64] */
};

/* Number of experts of a mixture, and of experts per token, the shared one included; 0: no
 * mixture. */
static inline int64_t spot_infer_experts_of(const struct spot_shape *s)
{
    return s->kind.n_expert + (s->kind.shared_ffn > 0);
}

static inline int64_t spot_infer_chosen_of(const struct spot_shape *s)
{
    return s->kind.n_chosen + (s->kind.shared_ffn > 0);
}

/* Floats of a row of n outputs, rounded up to whole panels. */
static inline int64_t spot_infer_stride(int64_t n)
{
    return (n + SPOT_PANEL - 1) / SPOT_PANEL * SPOT_PANEL;
}

/* Buffers hold a row per token: [own shard][stride], strides multiples of 64 elements. */
struct spot_infer {
    struct spot_infer_config config;
    struct spot_shape shape;
    enum spot_infer_type type;
    const struct spot_infer_backend *on; /* NULL: the CPU */
    void *device;                        /* the device's own state */
    const struct spot_infer_kernel *kernel;
    const struct spot_vec *vec;
    struct spot_team *team;
    int n_shard;                         /* own */
    int64_t head_dim, n_head, n_kv_head; /* of a shard */
    struct spot_arena *arena;            /* of the bundles of the image */
    int image_begin, image_end;
    const void **tensor; /* [bundle][tensor][shard] in the image; NULL: not there */
    /* rotation speeds of pairs, in other and in local layers; NULL: no rotation */
    double *speed[2];
    /* cache */
    float *pool;
    void *pool_block; /* the allocation that contains it */
    size_t page_elem; /* of a layer and shard */
    int n_layer, n_free, *free_page;
    int *n_holder;                /* [n_page] sequences that use a page */
    struct spot_infer_note *note; /* [n_page] */
    int *bucket, n_bucket;        /* a page + 1; 0: none; a power of two */
    int n_kept, oldest, newest;   /* indexed pages without a sequence, oldest first; a page comes
                                     after those that continue it */
    struct spot_infer_sequence *sequence;
    /* one run */
    int n_token, n_item;
    const struct spot_infer_item *item;
    const float *in;
    float *out, *logit;
    struct spot_infer_pick *pick; /* [n_item]; NULL: logits of all */
    int n_row, *row_token;        /* rows of logits, and the token of each */
    bool has_pool, has_lora;
    int *token_item;
    int64_t *token_position;
    int64_t qkv_stride, att_stride, q8_blocks;
    float *x, *norm, *sum, *qkv, *att, *pre, *act;
    int *adapted, *adapted_begin; /* tokens by adapter, in order; [n_lora + 1] where each begins */
    float *low; /* [token][own shard][low_row] inputs times an adapter's A; NULL: no adapters */
    int64_t low_row;
    float *turn[2]; /* [token][spot_shape_rotary] as spot_rope_row, by kind of layer */
    struct spot_infer_mixture mixture;
    float *packed; /* inputs of a product of many tokens: [tile][input][tokens of the tile] */
    int64_t packed_row, score_row;
    float **score, **part, *vocab; /* per thread; vocab: logits of padded shards */
    struct spot_q8 q8;
    struct spot_err err;
    bool has_failed;
};

/* A page of a layer (of this stage) and own shard: keys [head][d][16], values [head][16][d]. */
float *spot_infer_page(const struct spot_infer *f, int page, int layer, int shard);

/* --- infer_cache.c --- */

void spot_infer_hold_page(struct spot_infer *f, int page); /* the page is in the index */
void spot_infer_drop_page(struct spot_infer *f, int page);
/* Free pages that a run from `first` to `end` uses; negative if it frees more than it takes. */
int64_t spot_infer_pages_taken(const struct spot_infer *f, int sequence, int64_t first,
                               int64_t end);
/* Set the length of a sequence to n_token tokens, and add the pages for them. */
void spot_infer_grow(struct spot_infer *f, int sequence, int64_t n_token);
/* Drop the tokens from `first` on. A page that other sequences may read is copied before it is
 * written. */
void spot_infer_rewind(struct spot_infer *f, int sequence, int64_t first);

/* --- infer_prefix.c --- */

void spot_infer_begin_index(struct spot_infer *f);
void spot_infer_keep(struct spot_infer *f,
                     int page); /* called when no sequence holds the page any more */
void spot_infer_unkeep(struct spot_infer *f, int page); /* a sequence is about to hold it */
void spot_infer_evict(struct spot_infer *f);            /* free the least recently used kept page */
/* Record tokens of a sequence, and add its complete pages to the index. */
void spot_infer_note(struct spot_infer *f, int sequence, int64_t first, const uint32_t *token,
                     int64_t n_token);
void spot_infer_know(struct spot_infer *f, int sequence);

/* The job of a team: a whole run. */
void spot_infer_pass(void *infer, int thread, int n_thread);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_INFER_STATE_H */
