/* SPDX-License-Identifier: MIT */
/* grammar.h - constrains text to a form, such as a JSON schema: computes which tokens may come
 * next. */
#ifndef SPOT_SERVE_GRAMMAR_H
#define SPOT_SERVE_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_GRAMMAR_SCHEMA_MAX = 128 << 10 }; /* bytes */

/* A sorted vocabulary for grammars. Sorting takes some 10 ms for 128,000 tokens, once per model.
 * `bpe` is not needed afterwards. */
struct spot_grammar_words;
struct spot_grammar_words *spot_grammar_words_new(const struct spot_bpe *bpe);
void spot_grammar_words_free(struct spot_grammar_words *words); /* may be NULL */

struct spot_grammar; /* of a schema and a vocabulary; used by one thread at a time */
struct spot_grammar_state;

/* Check that a form, which is JSON text, has a grammar. Needs no vocabulary and takes at most some
 * milliseconds. Returns 0, or -1 with *err (SPOT_EDATA), with the position. */
int spot_grammar_check(const char *form, size_t n_byte, struct spot_err *err);

/* `words` is borrowed. NULL with *err, as spot_grammar_check. */
struct spot_grammar *spot_grammar_new(const char *form, size_t n_byte,
                                      const struct spot_grammar_words *words, struct spot_err *err);
void spot_grammar_free(struct spot_grammar *g);         /* may be NULL */
size_t spot_grammar_byte(const struct spot_grammar *g); /* of memory */

/* A pool of the most recent unused grammars, by the text of the schema, so that later requests
 * reuse their computed states. */
struct spot_grammar_pool;
struct spot_grammar_pool *spot_grammar_pool_new(const struct spot_bpe *bpe); /* borrowed */
void spot_grammar_pool_free(struct spot_grammar_pool *pool);                 /* may be NULL */
/* Take a grammar from the pool, or a new one; return it with spot_grammar_pool_give_back. NULL with
 * *err. */
struct spot_grammar *spot_grammar_pool_take(struct spot_grammar_pool *pool, const char *schema,
                                            struct spot_err *err);
void spot_grammar_pool_give_back(struct spot_grammar_pool *pool, const char *schema,
                                 struct spot_grammar *g_take);

/* The state at the start of the text. */
struct spot_grammar_state *spot_grammar_begin(struct spot_grammar *g);
void spot_grammar_end(struct spot_grammar_state *s);

/* Returns 0, or -1 if the token is not allowed here; the state is then unchanged. */
int spot_grammar_push(struct spot_grammar_state *s, uint32_t token);
/* Append the permitted rest as a grammar of llama.cpp (GBNF), which vLLM and SGLang also accept.
 * Returns 0, or -1 with *err (SPOT_EDATA) if it has special tokens, begins within a character, or
 * is too large. */
int spot_grammar_put_rest(struct spot_grammar_state *s, struct spot_buf *out, struct spot_err *err);
/* True if the text may end here. */
bool spot_grammar_may_end(struct spot_grammar_state *s);
/* True if the text must end here. */
bool spot_grammar_must_end(struct spot_grammar_state *s);
/* Set logit[n] to -INFINITY for each token that may not come next; end[n_end] are allowed if the
 * text may end. Returns 0, or -1 if computing the mask is too expensive, for example with many
 * overlapping repetitions; the text must then be aborted. This is a function of the schema, the
 * vocabulary and the text, and 10 to 20 ms of work at most. */
int spot_grammar_mask(struct spot_grammar_state *s, const uint32_t *end, size_t n_end, float *logit,
                      size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_GRAMMAR_H */
