/* SPDX-License-Identifier: MIT */
/* bpe_state.h - the contents of a tokenizer; private to bpe*.c. */
#ifndef SPOT_TEXT_BPE_STATE_H
#define SPOT_TEXT_BPE_STATE_H

#include "common/buf.h"
#include "common/json.h"
#include "text/bpe.h"
#include "text/token_names.h"

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
    bool is_there, is_added, is_special;
};

enum { SPOT_BPE_CACHED_BYTE = 22, SPOT_BPE_CACHED_ID = 6, SPOT_BPE_CACHE = 1 << 14 };

/* The encoding of a short piece seen before. */
struct spot_bpe_cached {
    uint8_t n_byte, n_id;
    char text[SPOT_BPE_CACHED_BYTE];
    uint32_t id[SPOT_BPE_CACHED_ID];
};

/* How text is split into the symbols to be merged. */
enum spot_bpe_kind {
    SPOT_BPE_GPT2,   /* bytes of pieces as GPT-2 cuts them */
    SPOT_BPE_LLAMA3, /* bytes of pieces as Llama 3 cuts them */
    SPOT_BPE_LLAMA2, /* characters, in one piece; a space is U+2581 */
};

/* Where U+2581 is inserted: nowhere; before the first part, or before each part, unless it already
 * begins with one; before every part. Parts are the texts between added tokens. */
enum spot_bpe_prefix { SPOT_BPE_BARE, SPOT_BPE_FIRST, SPOT_BPE_ALWAYS, SPOT_BPE_EACH };

/* A token that may appear in text by its name. */
struct spot_bpe_added {
    uint32_t id;
    bool is_special;
    char *name;
};

struct spot_bpe {
    enum spot_bpe_kind kind;
    enum spot_bpe_prefix prefix; /* of LLAMA2 */
    bool ignores_merges;         /* a piece that is a token is encoded as that token */
    bool fuses_unknown,
        strips; /* LLAMA2: adjacent unknown characters become one; decoding drops a leading space */
    bool is_inside;     /* within a text whose start has been encoded */
    bool is_exact;      /* within spot_bpe_stream */
    bool has_lost;      /* LLAMA2: a character became nothing */
    bool is_shared;     /* all but the scratch and the cache is another's */
    uint32_t unknown;   /* UINT32_MAX: none */
    uint32_t *by_bytes; /* [by_bytes_mask + 1] ids of the vocabulary by hash */
    size_t by_bytes_mask;
    struct spot_bpe_added *added; /* [n_added] */
    size_t n_added, added_cap;
    struct spot_names *names;     /* of those with a name: their places in `added` */
    size_t n_byte_max;            /* of a token */
    bool has_all_bytes;           /* no text is dropped, or becomes the unknown token */
    struct spot_buf spaced;       /* scratch: text with its spaces written as U+2581 */
    struct spot_bpe_token *token; /* [vocab] */
    size_t vocab, vocab_cap;
    struct spot_buf text;         /* of all tokens */
    uint32_t byte_id[256];        /* the token of each single byte */
    struct spot_bpe_merge *merge; /* [merge_mask + 1], a hash table with linear probing */
    size_t n_merge, merge_mask;
    struct spot_bpe_cached *cache; /* [SPOT_BPE_CACHE], by hash */
    /* scratch of one piece */
    struct spot_bpe_symbol *symbol;
    uint64_t *heap;
    size_t symbol_cap, heap_cap, n_heap;
};

/* A tokenizer being read. */
struct spot_bpe_loader {
    struct spot_bpe *bpe;
    const struct spot_json_doc *doc; /* that is being read, for messages */
    struct spot_json_value *vocab;   /* borrowed from the tokenizer's document */
    int16_t byte_of[0x144];          /* character to byte, -1 for none */
    bool has_normalizer;
    bool is_old; /* vocab.json and merges.txt */
};

/* Add a token that text may name, of the vocabulary or beside it. Returns 0, or -1 with *err if the
 * id or the name is another token's. */
int spot_bpe_add_named(struct spot_bpe_loader *l, const char *pointer, int64_t id, const char *name,
                       bool is_special, struct spot_err *err);

/* bpe_beside.c: add what the documents beside a tokenizer say of its tokens. Returns 0, or -1 with
 * *err: SPOT_EDATA also where they contradict it or need what is not supported. */
int spot_bpe_add_beside(struct spot_bpe_loader *l, const char *dir, struct spot_err *err);

/* The slot of a pair's merge in the table, or the empty slot where it would be. */
struct spot_bpe_merge *spot_bpe_place(const struct spot_bpe *bpe, uint32_t left, uint32_t right);

/* Fill what says the kind, or refuse a tokenizer.json with the name of what is not supported. */
int spot_bpe_check_kind(struct spot_bpe_loader *l, const struct spot_json_value *model,
                        struct spot_err *err);
/* The same for the flags of an added token. */
int spot_bpe_check_added(const struct spot_bpe_loader *l, const struct spot_json_value *added,
                         const char *pointer, struct spot_err *err);

/* Call when the vocabulary is complete, and when everything is. */
void spot_bpe_index(struct spot_bpe *bpe);
void spot_bpe_index_added(struct spot_bpe *bpe);

static inline uint64_t spot_bpe_pair_key(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_BPE_STATE_H */
