/* SPDX-License-Identifier: MIT */
/* batch_loop.h - computes sequences together: prefill in chunks beside decoding, oldest first.
 *
 * The tokens of a sequence do not depend on the others: each logit is a single chain (infer.h), and
 * sampling is a function of the request, the choice and the tokens before. So a sequence whose
 * pages are taken for older ones is computed again later, with the same tokens.
 */
#ifndef SPOT_SERVE_BATCH_LOOP_H
#define SPOT_SERVE_BATCH_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "serve/completion.h"
#include "serve/relay.h"
#include "serve/request.h"
#include "serve/served_model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_batch_loop;

/* Tokens per pass when this many sequences decode at once. */
int64_t spot_batch_loop_tokens(int n_sequence);

/* Create a batch loop on the leader of a replica. `model` and `relay` are borrowed. */
struct spot_batch_loop *spot_batch_loop_new(const struct spot_served_model *model,
                                            struct spot_relay *relay, int n_sequence);
void spot_batch_loop_free(struct spot_batch_loop *loop); /* may be NULL */

/* Continue a choice of a request after token[n] of it; `number` identifies it from now on. Takes
 * the request, also on failure. Returns 0, or -1 with *err (SPOT_EDATA): an invalid prompt or
 * schema. */
int spot_batch_loop_add(struct spot_batch_loop *l, uint64_t number,
                        struct spot_request *request_take, uint32_t choice, const uint32_t *token,
                        size_t n, struct spot_err *err);
/* Wait up to wait_s for its pages from source[P * M], then compute them. 0: use copies received
 * earlier. */
void spot_batch_loop_expect(struct spot_batch_loop *l, uint64_t number, const uint32_t *source,
                            double wait_s);
/* Send its pages, as spot_relay_give_pages. */
int spot_batch_loop_give(struct spot_batch_loop *l, uint64_t number,
                         const struct spot_relay_form *to, uint32_t epoch, struct spot_err *err);
/* Set the replica that gets copies of pages, as spot_relay_set_buddy. */
int spot_batch_loop_set_buddy(struct spot_batch_loop *l, const struct spot_relay_form *buddy,
                              uint32_t epoch, struct spot_err *err);
void spot_batch_loop_drop(struct spot_batch_loop *l, uint64_t number);
void spot_batch_loop_clear(struct spot_batch_loop *loop);
/* True if there is no work. */
bool spot_batch_loop_is_idle(const struct spot_batch_loop *loop);
/* Pages of its sequences, kept pages, and all pages. */
struct spot_batch_pages {
    uint32_t used, kept, all;
};
struct spot_batch_pages spot_batch_loop_pages(const struct spot_batch_loop *loop);

/* Measured; 0: not yet. */
struct spot_batch_rates {
    double prompt_token_s;  /* to compute a token of a prompt */
    double page_byte_per_s; /* from requesting pages until they are in the cache */
    uint64_t n_token_paged; /* tokens received as pages */
};
struct spot_batch_rates spot_batch_loop_rates(const struct spot_batch_loop *loop);

struct spot_batch_out {
    uint64_t sequence;
    struct spot_step_token token;
    const char *cannot; /* why no further token can be computed; NULL otherwise */
    const float *state; /* [C] state of a request with a pool, valid until the next step, or NULL;
                           token.token.n_cached belongs to it, and it ends the choice */
};

/* Begin passes, and complete the oldest. `out` has room for n_sequence; *n of it were filled.
 * Sequences that have ended are removed. Returns 0, or -1 with *err as in relay.h. */
int spot_batch_loop_step(struct spot_batch_loop *loop, struct spot_batch_out *out, size_t *n,
                         struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_BATCH_LOOP_H */
