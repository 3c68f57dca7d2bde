/* SPDX-License-Identifier: MIT */
/* infer.h - forward passes for serving: batches of chunks of sequences over a paged cache.
 *
 * Every logit is one chain of operations regardless of the rest of the batch, how a prompt is cut
 * into chunks, the location of pages, the number of threads, stages and members of a tensor group,
 * and the instruction set: docs/design/17-inference.md explains what determines the bits. A device
 * gives other bits than a CPU, with the same guarantee.
 *
 * One engine is used by one thread at a time. Its limits are set when it is created, and all memory
 * is allocated then.
 */
#ifndef SPOT_ENGINE_INFER_H
#define SPOT_ENGINE_INFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "shard/bundle.h"
#include "shard/lora.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- weights: an image without pointers, the same at every address --- */

/* Number format of matrices; norms, biases and learnt positions are always fp32. */
enum spot_infer_type {
    SPOT_INFER_FP32,
    SPOT_INFER_BF16, /* rounded to nearest even, below 2^-56 to 0; also the inputs of products */
    SPOT_INFER_Q8,   /* blocks of 32 inputs of an output: 8 bits each, and one bf16 scale */
    SPOT_INFER_TYPES
};

/* "fp32", "bf16", "q8"; -1 if there is no such type. */
const char *spot_infer_type_name(int type);
int spot_infer_type_find(const char *name);

/* Bytes of an image of bundles [begin, end). */
size_t spot_infer_image_byte(const struct spot_shape *shape, enum spot_infer_type type, int begin,
                             int end);

/* Begin an image of bundles [begin, end), in memory that is aligned to 64 bytes and zero. Then add
 * each bundle, in any order. */
void spot_infer_image_begin(void *image, const struct spot_shape *shape, enum spot_infer_type type,
                            int begin, int end);
/* Pack the master weights of one bundle. */
void spot_infer_image_put(void *image, const struct spot_bundle *bundle);

/* Pack a whole image; bundle[i] is bundle begin + i. */
void spot_infer_image_pack(void *image, const struct spot_shape *shape, enum spot_infer_type type,
                           int begin, int end, struct spot_bundle *const *bundle);

/* --- the engine --- */

enum { SPOT_INFER_PAGE = 16 }; /* tokens of a page */

struct spot_infer_config {
    const void *image; /* borrowed, may be shared memory; aligned to 64 bytes */
    size_t image_byte;
    int bundle_begin, bundle_end; /* this stage's, within the image's; 0, 0: all of the image */
    int shard_begin, shard_end;   /* this member's, a node of the tree of shards; 0, 0: all */
    int n_thread;                 /* 1.. */
    int n_sequence, n_page;       /* at once; a page has 16 tokens of all layers and shards here */
    int n_kept;                   /* maximum pages kept for sequences that begin alike; 0: none */
    int token_max;                /* per run */
    int logit_max;                /* rows of logits per run; 0: n_sequence */
    const struct spot_lora *const *lora; /* [n_lora] adapters of this model, borrowed; CPUs only */
    int n_lora;
    const char *kernel;  /* "avx512bf16", "avx512", "avx2", "portable": the same bits; NULL:
                            the fastest */
    const char *backend; /* "cuda": on a device, in bf16 or fp32; NULL, "cpu": on the CPU */
    /* For a member without all shards: replaces sum[n], of its node, by the sum of the whole tree.
     * Returns 0, or -1 with *err, which the run returns. */
    int (*exchange)(void *user, float *sum, size_t n, struct spot_err *err);
    /* Used instead if members' devices can reach each other: sends sum[n] to the member whose
     * number differs in this bit, and receives its sum in other[n]. Both are on the device, ordered
     * after the work queued on `stream`; returns when done. */
    int (*swap)(void *user, uint32_t bit, float *sum, float *other, size_t n, void *stream,
                struct spot_err *err);
    void *user;
};

struct spot_infer;

/* NULL with *err: SPOT_EDATA for an invalid image or a part that it lacks, SPOT_ESYS, SPOT_EGPU for
 * an inadequate device. */
struct spot_infer *spot_infer_new(const struct spot_infer_config *config, struct spot_err *err);
void spot_infer_free(struct spot_infer *f);
const struct spot_shape *spot_infer_shape(const struct spot_infer *f);
const char *spot_infer_kernel(const struct spot_infer *f);

/* Open a sequence without tokens, 0..n_sequence-1; -1 with *err (SPOT_EINFEASIBLE) when all are in
 * use. */
int spot_infer_open(struct spot_infer *f, struct spot_err *err);
/* Give an open sequence without tokens the adapter lora[adapter - 1] (0: none) until it is closed.
 * Sequences find only pages of their own adapter. */
void spot_infer_adopt(struct spot_infer *f, int sequence, int adapter);
void spot_infer_close(struct spot_infer *f, int sequence);           /* frees its pages */
int64_t spot_infer_length(const struct spot_infer *f, int sequence); /* tokens in the cache */
int spot_infer_free_pages(const struct spot_infer *f);               /* kept pages included */

/* --- pages found by their tokens: a full page is identified by its 16 tokens and the page before
 * it. Tokens are compared, not only hashed. Sequences with equal pages share one. Up to n_kept
 * pages that no sequence holds any more are kept; the least recently used is freed when a page is
 * needed. --- */

/* Number of first tokens that an open sequence has, or could take from cached pages: at most
 * n_token - 1, so that the logits of the last token are computed, and using at most n_page free
 * pages. Returns its length if cached pages cannot extend it. */
int64_t spot_infer_find(const struct spot_infer *f, int sequence, const uint32_t *token,
                        int64_t n_token, int64_t n_page);
/* Take the first n tokens, as found, from cached pages. `token` has all tokens of the last page,
 * which is copied if only part of it is needed. Returns 0, or -1 with *err (SPOT_EDATA): they are
 * not cached. */
int spot_infer_reuse(struct spot_infer *f, int sequence, const uint32_t *token, int64_t n,
                     struct spot_err *err);
int spot_infer_kept(const struct spot_infer *f); /* pages that no sequence holds */
void spot_infer_forget(struct spot_infer *f);    /* evict those pages */

/* Output of an item instead of logits: the state after the last norm, of its last token, or the
 * mean over all tokens of the sequence. For a mean, all tokens from the first on must be computed
 * in items of this kind. CPUs only. */
enum spot_pool { SPOT_POOL_NONE, SPOT_POOL_LAST, SPOT_POOL_MEAN };

/* Tokens from position `first` of a sequence; `first` is at most its length; tokens from there on
 * are dropped first. A sequence has one item in a run. */
struct spot_infer_item {
    int sequence;
    int64_t first, n_token;
    const uint32_t *token; /* [n_token]; may be NULL on later stages: then other sequences cannot
                              find its pages */
    enum spot_pool pool;
    float *state; /* [C] with a pool, filled by the last stage, by each of its members */
};

/* All items as one batch, in the order given: N tokens in all.
 *   in     [N * C], NULL on the first stage
 *   out    [N * C], NULL on the last stage
 *   logit  [n * V] of the last token of each of the n items without a pool, by the last stage; NULL
 *          elsewhere. A member writes the rows of its own shards only.
 * Returns 0, or -1 with *err: SPOT_EDATA for an invalid item, SPOT_EINFEASIBLE when there are too
 * few pages (both before anything has changed), SPOT_EGPU when the device failed, then for every
 * later run too, or the error of the exchange. */
int spot_infer_run(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                   const float *in, float *out, float *logit, struct spot_err *err);

/* The same with logits of more positions, as needed for the log probabilities of a prompt: of the
 * last n_row[i] tokens (1..n_token) of item i, logit[sum of n_row][V] in the order of the items;
 * n_row[i] is not read where there is a pool. */
int spot_infer_run_rows(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                        const int64_t *n_row, const float *in, float *out, float *logit,
                        struct spot_err *err);

/* Call fn(user, i, thread) for each i below n on the engine's threads, of which the caller is one,
 * and wait; `thread` is below n_thread. */
void spot_infer_each(struct spot_infer *f, int n, void (*fn)(void *user, int i, int thread),
                     void *user);

/* How the token after an item is to be chosen: as spot_sample_choose (engine/sample.h) does without
 * penalties, which is asked where the run does not choose. */
struct spot_infer_pick {
    bool is_wanted; /* false: logits are */
    double temperature, top_p, min_p;
    int64_t top_k;
    double noise; /* spot_sample_noise */
    /* Results: `token` was chosen, by the device, and the item's row of logits was not written. */
    bool is_chosen;
    uint32_t token;
};

/* The same as spot_infer_run where each of pick[n_item] may be chosen by the device. */
int spot_infer_run_picks(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                         struct spot_infer_pick *pick, const float *in, float *out, float *logit,
                         struct spot_err *err);

/* What a device has done since the engine was created; zeros on a CPU. */
struct spot_infer_counts {
    uint64_t n_graph;      /* runs that were one launch of a graph */
    uint64_t n_node;       /* launches and copies of the last such graph */
    uint64_t n_chosen;     /* tokens that were chosen there */
    uint64_t fetched_byte; /* copied from there */
};
struct spot_infer_counts spot_infer_counts(const struct spot_infer *f);

/* --- pages as bytes, for migration: one page of a layer and a canonical shard --- */

size_t spot_infer_page_byte(const struct spot_infer *f);

/* Make room for n_token tokens that will be imported as pages; replaces the sequence's content.
 * Other sequences can share the pages only after spot_infer_tell. Returns 0, or -1 with *err
 * (SPOT_EINFEASIBLE, SPOT_EDATA). */
int spot_infer_reserve(struct spot_infer *f, int sequence, int64_t n_token, struct spot_err *err);

/* Page `page` (tokens 16 page ..) of a layer, from 0 in the model, and a shard of this engine;
 * positions beyond the length hold arbitrary bytes. */
void spot_infer_export(const struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       void *byte);
/* `byte` is read until the next spot_infer_import_end. */
void spot_infer_import(struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       const void *byte);
void spot_infer_import_end(struct spot_infer *f);
/* Set the tokens of the imported pages, one for each position of the sequence. */
void spot_infer_tell(struct spot_infer *f, int sequence, const uint32_t *token);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_INFER_H */
