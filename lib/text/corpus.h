/* SPDX-License-Identifier: MIT */
/* corpus.h - the tokens of training data: bytes, files of 16- or 32-bit tokens, or texts.
 *
 * A file is read on demand; the tokens of a text go to an unnamed file in $TMPDIR; anything else (a
 * pipe) is kept in memory, up to SPOT_CORPUS_MEMORY_MAX bytes. Several files form one corpus, as if
 * concatenated. Tokens are little-endian. A file of 16-bit tokens may begin with the header of
 * llm.c (256 words: 20240520, 1, number of tokens, zeros), which is skipped.
 */
#ifndef SPOT_TEXT_CORPUS_H
#define SPOT_TEXT_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_CORPUS_MEMORY_MAX = 1 << 30 };

struct spot_corpus {
    const char *source; /* its name in messages */
    char *label;        /* the name, if owned by the corpus */
    size_t n_token;
    int token_byte; /* 1, 2 or 4 */
    uint64_t xxh3;  /* of the bytes, or of the tokens as 32-bit numbers in any file format */
    int fd;         /* -1: in memory */
    size_t begin;   /* offset of token 0 in the file */
    uint8_t *memory;
    struct spot_corpus *part; /* [n_part], if made of several; NULL: a single one */
    size_t n_part;
};

/* Returns 1, 2 or 4 for "bytes", "u16" or "u32"; -1 with *err (SPOT_EUSAGE) for others. */
int spot_corpus_kind(const char *name, int *token_byte, struct spot_err *err);

/* Open a file, or stdin for "-" (path is borrowed), and read it through once: every token must be
 * below vocab. Returns 0, or -1 with *err: SPOT_ESYS, or SPOT_EDATA with the place and the token,
 * or if it is not a regular file and longer than the limit. Release it in both cases. */
int spot_corpus_open(struct spot_corpus *corpus, const char *path, int token_byte, int64_t vocab,
                     struct spot_err *err);
/* The same for path[n_path], n_path > 0, "-" once at most (SPOT_EUSAGE); with a tokenizer the files
 * are texts, and token_byte and vocab are ignored. */
int spot_corpus_open_all(struct spot_corpus *corpus, const char *const *path, size_t n_path,
                         struct spot_bpe *bpe, int token_byte, int64_t vocab, struct spot_err *err);
void spot_corpus_release(struct spot_corpus *corpus);

/* Read tokens [at, at + n) into token[n]. Returns 0, or -1 with *err: SPOT_ESYS when the file
 * cannot be read, SPOT_EDATA when it has become shorter. */
int spot_corpus_read(const struct spot_corpus *corpus, size_t at, size_t n, uint32_t *token,
                     struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_CORPUS_H */
