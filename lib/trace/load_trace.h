/* SPDX-License-Identifier: MIT */
/* load_trace.h - request traces: arrival times and lengths of requests.
 *
 * A load is CSV with a header, columns in any order, possibly with others:
 *   time_s,prompt_tokens,output_tokens[,id][,blocks]
 * one row per request, in order of time; several may arrive at one time. `blocks` is like
 * "512:46-57 2000": the prompt in blocks of 512 tokens, of which the last may be cut. Prompts that
 * have the same number at one place are equal up to the end of that block.
 */
#ifndef SPOT_TRACE_LOAD_TRACE_H
#define SPOT_TRACE_LOAD_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_LOAD_ROWS_MAX = 1 << 25,
    SPOT_LOAD_TOKENS_MAX = 1 << 30, /* of a prompt, and of an answer */
    SPOT_LOAD_ID_MAX = 255,         /* bytes */
    SPOT_LOAD_BLOCKS_MAX = 1 << 27, /* blocks of all prompts together */
};

struct spot_load {
    size_t n, cap;
    double *time_s;        /* [n], never backwards, 0..SPOT_TRACE_TIME_MAX_S */
    int32_t *prompt_token; /* [n], >= 1 */
    int32_t *output_token; /* [n], >= 1 */
    char **id;             /* [n], "" if a row has none; NULL: no request has one */
    int32_t block_token;   /* tokens of a block; 0: no request has any */
    uint32_t *block;       /* of request i: block[block_end[i - 1]] to block[block_end[i]] */
    size_t *block_end, n_block, block_cap; /* [n] */
    uint64_t xxh3;                         /* of the bytes read, for provenance */
};

/* Append a request; the caller keeps the order, see spot_load_sort. `id` may be NULL. Start from a
 * zeroed load; a load is also zeroed after a failure to read. */
void spot_load_add(struct spot_load *load, double time_s, int32_t prompt_token,
                   int32_t output_token, const char *id);
void spot_load_release(struct spot_load *load);

/* Add the blocks of the request appended last. Returns 0, or -1 with *err (SPOT_EDATA): a different
 * block size than before, more blocks than the prompt has, too many blocks. */
int spot_load_add_blocks(struct spot_load *load, int64_t block_token, const uint32_t *block,
                         size_t n, struct spot_err *err);

/* The blocks of request i; *n of them. */
const uint32_t *spot_load_blocks(const struct spot_load *load, size_t i, size_t *n);

/* Read a load. `context` > 0: maximum length of prompt and answer of a request together. Returns 0,
 * or -1 with *err: SPOT_EDATA with source:line:column for a time that goes backwards, a length of
 * zero or beyond the context, a load without requests; SPOT_ESYS. */
int spot_load_read(struct spot_load *load, FILE *in, const char *source, int64_t context,
                   struct spot_err *err);

/* The same for a path; "-" or NULL is stdin. */
int spot_load_read_path(struct spot_load *load, const char *path, int64_t context,
                        struct spot_err *err);

/* The same, and every request must have these lengths, for which a job's profile was made. */
int spot_load_read_alike(struct spot_load *load, const char *path, int64_t prompt_token,
                         int64_t output_token, struct spot_err *err);

/* Sort by time; requests of equal time keep their order. */
void spot_load_sort(struct spot_load *load);

/* Subtract origin_s from every time, and round to microseconds, the resolution of logs. */
void spot_load_shift(struct spot_load *load, double origin_s);

/* Keep from_s <= time_s <= to_s; times are unchanged. Returns 0, or -1 with SPOT_EINFEASIBLE if
 * nothing is left. */
int spot_load_cut(struct spot_load *load, double from_s, double to_s, struct spot_err *err);

/* Write errors of `out` are left for the caller to detect. */
void spot_load_write(const struct spot_load *load, FILE *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LOAD_TRACE_H */
