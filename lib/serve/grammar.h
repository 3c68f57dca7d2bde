/* SPDX-License-Identifier: MIT */
/* grammar.h - constrains text to a JSON schema: which tokens may come next.
 *
 * The state is a function of the committed text only, so it can be rebuilt wherever a request goes.
 * Objects have their properties in the order of the schema, without white space between JSON
 * tokens. Unsupported keywords of a schema are rejected by name.
 */
#ifndef SPOT_SERVE_GRAMMAR_H
#define SPOT_SERVE_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_grammar; /* of a schema and a vocabulary; used by one thread at a time */
struct spot_grammar_state;

/* `schema` is JSON text. NULL with *err: SPOT_EDATA, with the place in the schema. */
struct spot_grammar *spot_grammar_new(const char *schema, size_t n_byte, const struct spot_bpe *bpe,
                                      struct spot_err *err);
void spot_grammar_free(struct spot_grammar *g);

/* The state at the start of the text. */
struct spot_grammar_state *spot_grammar_begin(struct spot_grammar *g);
void spot_grammar_end(struct spot_grammar_state *s);

/* Returns 0, or -1 if the token is not allowed here; the state is then unchanged. */
int spot_grammar_push(struct spot_grammar_state *s, uint32_t token);
/* May the text end here? */
bool spot_grammar_may_end(struct spot_grammar_state *s);
/* Must the text end here? */
bool spot_grammar_must_end(struct spot_grammar_state *s);
/* Set logit[n] to -INFINITY for each token that may not come next; end[n_end] are allowed if the
 * text may end. */
void spot_grammar_mask(struct spot_grammar_state *s, const uint32_t *end, size_t n_end,
                       float *logit, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_GRAMMAR_H */
