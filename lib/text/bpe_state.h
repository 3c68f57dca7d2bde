/* SPDX-License-Identifier: MIT */
/* bpe_state.h - what a tokenizer holds; private to bpe*.c. */
#ifndef SPOT_TEXT_BPE_STATE_H
#define SPOT_TEXT_BPE_STATE_H

#include "common/buf.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_bpe_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: empty */
    uint32_t rank, id;
};

struct spot_bpe_token {
    size_t begin; /* in bpe->text */
    uint32_t n_byte;
    bool is_there;
};

enum { SPOT_BPE_CACHED_BYTE = 22, SPOT_BPE_CACHED_ID = 6, SPOT_BPE_CACHE = 1 << 14 };

/* The encoding of a short piece met before. */
struct spot_bpe_cached {
    uint8_t n_byte, n_id;
    char text[SPOT_BPE_CACHED_BYTE];
    uint32_t id[SPOT_BPE_CACHED_ID];
};

struct spot_bpe {
    struct spot_bpe_token *token; /* [vocab] */
    size_t vocab, vocab_cap;
    struct spot_buf text;         /* of all tokens */
    uint32_t byte_id[256];        /* the token of each single byte */
    struct spot_bpe_merge *merge; /* [merge_mask + 1], a hash table with linear probing */
    size_t n_merge, merge_mask;
    struct spot_bpe_cached *cache; /* [SPOT_BPE_CACHE], by hash */
    /* scratch of one piece */
    struct spot_bpe_symbol *symbol;
    struct spot_bpe_pair *heap;
    size_t symbol_cap, heap_cap, n_heap;
};

/* The slot of a pair's merge in the table, or the empty slot where it would be. */
struct spot_bpe_merge *spot_bpe_place(const struct spot_bpe *bpe, uint32_t left, uint32_t right);

static inline uint64_t spot_bpe_pair_key(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_BPE_STATE_H */
