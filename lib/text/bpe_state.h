/* SPDX-License-Identifier: MIT */
/* bpe_state.h - the contents of a tokenizer; private to bpe*.c. */
#ifndef SPOT_TEXT_BPE_STATE_H
#define SPOT_TEXT_BPE_STATE_H

#include "common/buf.h"
#include "common/json.h"
#include "text/bpe.h"
#include "text/pretoken.h"
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

/* Where U+2581 is inserted, in tokenizers that write spaces as U+2581. BARE: nowhere; FIRST: before
 * the first part, unless that begins with one; ALWAYS: before each part, unless that begins with
 * one; EACH: before every part. Parts are the texts between added tokens. */
enum spot_bpe_prefix { SPOT_BPE_BARE, SPOT_BPE_FIRST, SPOT_BPE_ALWAYS, SPOT_BPE_EACH };

/* What decoding drops at the start of a text: nothing; a space; or all U+2581 of the first
 * token. */
enum spot_bpe_drop { SPOT_BPE_DROPS_NONE, SPOT_BPE_DROPS_SPACE, SPOT_BPE_DROPS_MARKS };

/* A token that may appear in text by its name. */
struct spot_bpe_added {
    uint32_t id;
    bool is_special;
    bool is_beside;               /* not in the vocabulary */
    bool is_normalized;           /* its name is searched for in the normalized text */
    bool is_word;                 /* only at word boundaries on both sides */
    bool takes_left, takes_right; /* spaces beside it are part of it */
    char *name;
};

struct spot_bpe {
    bool is_bytes;               /* symbols are bytes, or else characters */
    bool is_marked;              /* `steps` only write spaces as U+2581, with a `prefix` */
    bool has_scores;             /* Unigram: chooses the pieces with the largest sum of scores */
    enum spot_bpe_prefix prefix; /* if is_marked */
    struct spot_text_steps steps;
    size_t n_normal; /* number of steps of the normalizer */
    double *score;   /* [vocab] of Unigram */
    double least_score;
    bool ignores_merges;        /* a piece that is a token is encoded as that token */
    bool fuses_unknown;         /* adjacent unknown characters become one */
    bool falls_back, has_marks; /* decoding: "<0x0A>" is a byte, U+2581 is a space */
    enum spot_bpe_drop drops;
    bool is_inside;     /* state of encoding: the start of the text has been encoded */
    bool in_part;       /* within a part between added tokens */
    bool ends_word;     /* the encoded text ends within a word */
    bool is_behind;     /* the encoded text ends with a name that is not normalized */
    bool is_exact;      /* within spot_bpe_stream */
    bool has_lost;      /* a character was dropped */
    bool is_shared;     /* everything except scratch and cache is borrowed */
    uint32_t unknown;   /* UINT32_MAX: none */
    uint32_t *by_bytes; /* [by_bytes_mask + 1] ids of the vocabulary by hash */
    size_t by_bytes_mask;
    struct spot_bpe_added *added; /* [n_added] */
    size_t n_added, added_cap;
    struct spot_names *names, *normal_names; /* indices in `added` */
    struct spot_names *plain_names[2];       /* the same for names that are not special */
    size_t n_plain_byte_max; /* length of the longest plain name; 0: there is none */
    size_t n_byte_max;       /* length of the longest token */
    bool has_all_bytes;      /* every byte has a token, so no text is lost */
    struct spot_buf spaced;  /* scratch: text with its spaces written as U+2581 */
    struct spot_buf changed[SPOT_TEXT_STEPS_MAX + 1]; /* scratch: the text after each step */
    struct spot_bpe_token *token;                     /* [vocab] */
    size_t vocab, vocab_cap;
    struct spot_buf text;         /* the bytes of all tokens, concatenated */
    uint32_t byte_id[256];        /* the token of each single byte */
    struct spot_bpe_merge *merge; /* [merge_mask + 1], a hash table with linear probing */
    size_t n_merge, merge_mask;
    struct spot_bpe_cached *cache; /* [SPOT_BPE_CACHE], by hash */
    /* scratch of one piece */
    struct spot_bpe_symbol *symbol;
    uint64_t *heap;
    struct spot_bpe_best *best;
    size_t symbol_cap, heap_cap, n_heap, best_cap;
};

/* A tokenizer being read. */
struct spot_bpe_loader {
    struct spot_bpe *bpe;
    const struct spot_json_doc *doc; /* document being read, for messages */
    struct spot_json_value *vocab;   /* borrowed from the tokenizer's document; NULL: Unigram's */
    int16_t byte_of[0x144];          /* character to byte, -1 for none */
    bool is_old;                     /* read from vocab.json and merges.txt */
    bool falls_back; /* a character without a token becomes the tokens of its bytes */
    size_t space_at; /* index of the step by which ByteLevel puts a space before a text */
};

/* The id of a token of the vocabulary by its name in the file; -1: none. */
int64_t spot_bpe_id_of(const struct spot_bpe_loader *l, const char *name);

/* Add a token that text may name, of the vocabulary or beside it. flags: its object, or NULL.
 * Returns 0, or -1 with *err if the id or the name is another token's. */
int spot_bpe_add_named(struct spot_bpe_loader *l, const char *pointer, int64_t id, const char *name,
                       bool is_special, const struct spot_json_value *flags, struct spot_err *err);

/* bpe_beside.c: apply the documents beside a tokenizer to its tokens. Returns 0, or -1 with *err:
 * SPOT_EDATA also if they contradict it or need an unsupported feature. */
int spot_bpe_add_beside(struct spot_bpe_loader *l, const char *dir, struct spot_err *err);

/* bpe_kind.c: read how text is changed, cut and decoded, or refuse a tokenizer.json, naming the
 * unsupported feature. */
int spot_bpe_read_kind(struct spot_bpe_loader *l, const struct spot_json_value *model,
                       struct spot_err *err);
/* Set the steps of GPT-2, for its vocab.json and merges.txt. */
void spot_bpe_set_gpt2(struct spot_bpe *bpe);
/* Set whether ByteLevel puts a space before a text. Returns 0, or -1 if there are too many
 * steps. */
int spot_bpe_set_space(struct spot_bpe_loader *l, bool has);

/* bpe_merge.c, bpe_unigram.c: append the tokens of a piece. */
void spot_bpe_merge_piece(struct spot_bpe *bpe, const char *text, size_t n,
                          struct spot_tokens *out);
void spot_bpe_best_piece(struct spot_bpe *bpe, const char *text, size_t n, struct spot_tokens *out);
/* The slot of a pair's merge in the table, or the empty slot where it would be. */
struct spot_bpe_merge *spot_bpe_place(const struct spot_bpe *bpe, uint32_t left, uint32_t right);

/* bpe.c */
/* The token of the vocabulary with these bytes; UINT32_MAX: there is none. */
uint32_t spot_bpe_by_bytes(const struct spot_bpe *bpe, const void *bytes, size_t n);
/* Encode a part of a text, from a step on; `begins`: at the start of the text or after a token. */
void spot_bpe_encode_part(struct spot_bpe *bpe, size_t step, const char *text, size_t n,
                          struct spot_tokens *out);
void spot_bpe_append(struct spot_tokens *out, uint32_t id);

/* spot_bpe_encode without searching for names of tokens. */
size_t spot_bpe_encode_nameless(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                                struct spot_tokens *out);

/* bpe_named.c: add the name of an added token, in the form in which it occurs in the searched
 * text. */
void spot_bpe_add_name(struct spot_bpe *bpe, uint32_t place);

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
