/* SPDX-License-Identifier: MIT */
/* batch_loop.h - sequences computed together: prefill in chunks beside decoding, oldest first.
 *
 * What a sequence gets does not depend on the others: logits are one chain each (infer.h), and a
 * choice among them is a function of the request, the choice and the tokens before. So one that
 * must give its pages to older ones is computed again later, with the same tokens.
 */
#ifndef SPOT_SERVE_BATCH_LOOP_H
#define SPOT_SERVE_BATCH_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "serve/relay.h"
#include "serve/request.h"
#include "serve/served_model.h"
#include "serve/step_token.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_batch_loop;

/* Tokens of a pass where so many sequences decode at once. */
int64_t spot_batch_loop_tokens(int n_sequence);

/* Of a leader: `model` and `relay` are borrowed. */
struct spot_batch_loop *spot_batch_loop_new(const struct spot_served_model *model,
                                            struct spot_relay *relay, int n_sequence);
void spot_batch_loop_free(struct spot_batch_loop *loop); /* may be NULL */

/* Go on with a choice of a request, which has this number from now on, behind token[n] of it. Takes
 * the request, also on failure. Returns 0, or -1 with *err (SPOT_EDATA): a prompt or schema that
 * cannot be. */
int spot_batch_loop_add(struct spot_batch_loop *l, uint64_t number,
                        struct spot_request *request_take, uint32_t choice, const uint32_t *token,
                        size_t n, struct spot_err *err);
/* It waits for its pages to come from source[P * M], for wait_s at most: then they are computed. 0:
 * those that are here as copies are taken. */
void spot_batch_loop_expect(struct spot_batch_loop *l, uint64_t number, const uint32_t *source,
                            double wait_s);
/* Give its pages away, as spot_relay_give_pages. */
int spot_batch_loop_give(struct spot_batch_loop *l, uint64_t number,
                         const struct spot_relay_form *to, uint32_t epoch, struct spot_err *err);
/* A replica that gets copies of pages, as spot_relay_set_buddy. */
int spot_batch_loop_set_buddy(struct spot_batch_loop *l, const struct spot_relay_form *buddy,
                              uint32_t epoch, struct spot_err *err);
void spot_batch_loop_drop(struct spot_batch_loop *l, uint64_t number);
void spot_batch_loop_clear(struct spot_batch_loop *loop);
/* Is there anything to do? */
bool spot_batch_loop_is_idle(const struct spot_batch_loop *loop);
void spot_batch_loop_pages(const struct spot_batch_loop *loop, uint32_t *used, uint32_t *all);

/* Measured; 0: not yet. */
struct spot_batch_rates {
    double prompt_token_s;  /* to compute a token of a prompt */
    double page_byte_per_s; /* from asking for pages until they are in the cache */
    uint64_t n_token_paged; /* tokens that came as pages */
};
struct spot_batch_rates spot_batch_loop_rates(const struct spot_batch_loop *loop);

struct spot_batch_out {
    uint64_t sequence;
    struct spot_step_token token;
};

/* Begin passes, and end the oldest. out has room for n_sequence; *n tokens were chosen. Sequences
 * that have ended are gone. Returns 0, or -1 with *err as relay.h says. */
int spot_batch_loop_step(struct spot_batch_loop *loop, struct spot_batch_out *out, size_t *n,
                         struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_BATCH_LOOP_H */
