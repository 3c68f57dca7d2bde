/* SPDX-License-Identifier: MIT */
/* bpe.h - tokenizers, compatible with the files and the results of the library `tokenizers`: byte
 * pair encoding, and Unigram.
 *
 * Text is normalized and cut into pieces (pretoken.h), whose symbols are bytes or characters;
 * characters without a token become the tokens of their bytes. Symbols of a piece are merged
 * pairwise, the pair of lowest rank first and among equal ones the leftmost, until no pair is in
 * the merges. Unigram takes the tokens with the largest sum of scores. Unless a normalizer changes
 * the text, decoding restores its bytes. A piece longer than SPOT_BPE_PIECE_MAX is cut before a
 * word. The tokens that a tokenizer.json adds around a text (post_processor) are not added.
 */
#ifndef SPOT_TEXT_BPE_H
#define SPOT_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_BPE_VOCAB_MAX = 1 << 20, /* ids are below */
    SPOT_BPE_MERGES_MAX = 1 << 20,
    /* bytes; a longer piece, which does not occur in real text, is cut */
    SPOT_BPE_PIECE_MAX = 1 << 20,
};

struct spot_bpe;

/* Open a directory with tokenizer.json, or else vocab.json and merges.txt, or a tokenizer.json
 * file. NULL with *err: SPOT_ESYS, or SPOT_EDATA with the position if a document is malformed,
 * needs an unsupported feature (which the message names), or has no token for some byte. */
struct spot_bpe *spot_bpe_open(const char *path, struct spot_err *err);

/* The same from texts in memory; `source` names them in messages. */
struct spot_bpe *spot_bpe_of_tokenizer(const char *json, size_t n, const char *source,
                                       struct spot_err *err);
struct spot_bpe *spot_bpe_of_vocab(const char *json, size_t n_json, const char *json_source,
                                   const char *merges, size_t n_merges, const char *merges_source,
                                   struct spot_err *err);
/* For a byte-level model: token b is byte b. */
struct spot_bpe *spot_bpe_of_bytes(void);
/* Another encoder of the same vocabulary, for another thread; `bpe` must outlive it. */
struct spot_bpe *spot_bpe_share(const struct spot_bpe *bpe);
void spot_bpe_free(struct spot_bpe *bpe);

/* One more than the largest id. */
int64_t spot_bpe_vocab(const struct spot_bpe *bpe);

/* The id of a token by its text, such as "<|endoftext|>"; -1 if there is none. */
int64_t spot_bpe_find(const struct spot_bpe *bpe, const char *text);

/* The bytes of a token, borrowed; NULL if there is no such id. */
const uint8_t *spot_bpe_token(const struct spot_bpe *bpe, uint32_t id, size_t *n_byte);

/* True if the token is special by its added_tokens entry, such as "<|endoftext|>". */
bool spot_bpe_is_special(const struct spot_bpe *bpe, uint32_t id);

/* True for the unknown token, which stands for text without a token and cannot be decoded. */
bool spot_bpe_is_unknown(const struct spot_bpe *bpe, uint32_t id);

/* True if the tokenizer adds a space before a text, which decoding must drop. */
bool spot_bpe_drops_space(const struct spot_bpe *bpe);

struct spot_tokens {
    uint32_t *id; /* [n], grown with xgrow; free() it */
    size_t n, cap;
    size_t most; /* encoding ends soon after more than these; 0: no limit */
};

/* The least number of tokens of a text of n bytes, so that it can be refused before it is
 * encoded. */
size_t spot_bpe_least_tokens(const struct spot_bpe *bpe, size_t n_byte);

/* Append the tokens of text[n]. Unless the text ends here (is_end), only pieces that later text
 * cannot change are encoded. Returns the bytes encoded; the caller passes the rest again, followed
 * by more text. Names of special tokens are encoded as ordinary text; added tokens that are not
 * special, such as runs of spaces in Gemma's, are found. Uses scratch space: one thread at a time.
 */
size_t spot_bpe_encode(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                       struct spot_tokens *out);

/* The same for a whole text in which the names of added tokens, such as "<|eot_id|>", become those
 * tokens: only for text whose author is trusted to use them. */
void spot_bpe_encode_named(struct spot_bpe *bpe, const char *text, size_t n,
                           struct spot_tokens *out);

/* Encode all of `in` in bounded memory: `take` gets the tokens in order and returns 0, or -1 with
 * *err to stop. Returns 0, or -1 with *err (SPOT_ESYS; SPOT_EDATA for a character that would be
 * dropped; the error of take). So that decoding restores the bytes, this differs from
 * spot_bpe_encode in two cases, both for tokenizers like Llama 2's: a text that begins with a space
 * gets a second one if decoding drops one, and the character U+2581, which stands for a space
 * there, is encoded as its bytes. `continues`: the text continues the one before, and has no
 * beginning of its own. */
typedef int (*spot_bpe_take)(void *user, const uint32_t *id, size_t n, struct spot_err *err);
int spot_bpe_stream(struct spot_bpe *bpe, FILE *in, const char *source, bool continues,
                    spot_bpe_take take, void *user, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_BPE_H */
