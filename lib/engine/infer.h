/* SPDX-License-Identifier: MIT */
/* infer.h - forward passes for serving: batches of chunks of sequences over a paged cache.
 *
 * Every logit is one chain of operations whatever shares the batch, however a prompt is cut into
 * chunks, wherever pages lie, and for every number of threads, stages and members of a tensor
 * group, and with every instruction set: docs/design/17-inference.md says what fixes the bits. A
 * device has other bits than a CPU, and keeps the same promise.
 *
 * One engine is used by one thread at a time. It is told its limits when it is made, and takes all
 * memory there.
 */
#ifndef SPOT_ENGINE_INFER_H
#define SPOT_ENGINE_INFER_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- weights: an image without pointers, the same at every address --- */

/* What matrices are held in; norms, biases and learnt positions are always fp32. */
enum spot_infer_type {
    SPOT_INFER_FP32,
    SPOT_INFER_BF16, /* rounded to nearest even, below 2^-56 to 0; inputs of products too */
    SPOT_INFER_Q8,   /* blocks of 32 inputs of an output: 8 bits each, and one bf16 scale */
    SPOT_INFER_TYPES
};

/* "fp32", "bf16", "q8"; -1 when there is none of that name. */
const char *spot_infer_type_name(int type);
int spot_infer_type_find(const char *name);

/* Bytes of an image of bundles [begin, end). */
size_t spot_infer_image_byte(const struct spot_shape *shape, enum spot_infer_type type, int begin,
                             int end);

/* Pack master weights; bundle[i] is bundle begin + i. `image` is aligned to 64 bytes. */
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
    int token_max;                /* of one run */
    int logit_max;                /* rows of logits of one run; 0: n_sequence */
    const char *kernel;  /* "avx512bf16", "avx512", "avx2", "portable": the same bits; NULL:
                            the fastest */
    const char *backend; /* "cuda": on a device, of bf16 or fp32; NULL, "cpu": here */
    /* Of a member that has not all shards: sum[n] of its node becomes the sum of the whole tree.
     * Returns 0, or -1 with *err, which the run returns. */
    int (*exchange)(void *user, float *sum, size_t n, struct spot_err *err);
    /* In its place where members' devices reach each other: sum[n] goes to the member whose number
     * differs in this bit, and its sum comes to other[n]. Both lie on the device, behind what
     * `stream` has queued; comes back when all is done. */
    int (*swap)(void *user, uint32_t bit, float *sum, float *other, size_t n, void *stream,
                struct spot_err *err);
    void *user;
};

struct spot_infer;

/* NULL with *err: SPOT_EDATA for an image that is not one or a part it has not, SPOT_ESYS,
 * SPOT_EGPU for what a device lacks. */
struct spot_infer *spot_infer_new(const struct spot_infer_config *config, struct spot_err *err);
void spot_infer_free(struct spot_infer *f);
const struct spot_shape *spot_infer_shape(const struct spot_infer *f);
const char *spot_infer_kernel(const struct spot_infer *f);

/* A sequence without tokens, 0..n_sequence-1; -1 with *err (SPOT_EINFEASIBLE) when all are used. */
int spot_infer_open(struct spot_infer *f, struct spot_err *err);
void spot_infer_close(struct spot_infer *f, int sequence);           /* its pages are free again */
int64_t spot_infer_length(const struct spot_infer *f, int sequence); /* tokens in the cache */
int spot_infer_free_pages(const struct spot_infer *f);

/* A sequence without tokens gets the first n_token of another one: their full pages are the same
 * ones from then on, the last one is copied if it is not full. What either does is unseen by the
 * other. Returns 0, or -1 with *err: SPOT_EDATA, SPOT_EINFEASIBLE where a page lacks. */
int spot_infer_share(struct spot_infer *f, int from, int to, int64_t n_token, struct spot_err *err);

/* Tokens first.. of a sequence; `first` is at most its length: what lay behind is forgotten. A
 * sequence has one item in a run. */
struct spot_infer_item {
    int sequence;
    int64_t first, n_token;
    const uint32_t *token; /* [n_token], read by the first stage only */
};

/* All items as one batch, in the order given: N tokens in all.
 *   in     [N * C], NULL on the first stage
 *   out    [N * C], NULL on the last stage
 *   logit  [n_item * V] of the last token of each item, by the last stage; NULL elsewhere. A member
 *          writes the rows of its own shards and leaves the others.
 * Returns 0, or -1 with *err: SPOT_EDATA for an item that cannot be, SPOT_EINFEASIBLE when pages do
 * not suffice (both before anything has changed), SPOT_EGPU from a device that failed, after which
 * every run does, or what the exchange said. */
int spot_infer_run(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                   const float *in, float *out, float *logit, struct spot_err *err);

/* The same with logits of any position, as the log probabilities of a prompt want them: of the last
 * n_row[i] tokens (1..n_token) of item i, logit[sum of n_row][V] in the order of the items. */
int spot_infer_run_rows(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                        const int64_t *n_row, const float *in, float *out, float *logit,
                        struct spot_err *err);

/* --- pages as bytes, for migration: one page of a layer and a canonical shard --- */

size_t spot_infer_page_byte(const struct spot_infer *f);

/* Make room for n_token tokens that come as pages; replaces what the sequence has. Returns 0, or -1
 * with *err (SPOT_EINFEASIBLE, SPOT_EDATA). */
int spot_infer_reserve(struct spot_infer *f, int sequence, int64_t n_token, struct spot_err *err);

/* Page `page` (tokens 16 page ..) of a layer, from 0 in the model, and shard that this engine has;
 * positions beyond the length are any bytes. */
void spot_infer_export(const struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       void *byte);
void spot_infer_import(struct spot_infer *f, int sequence, int64_t page, int layer, int shard,
                       const void *byte);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_INFER_H */
