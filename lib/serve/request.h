/* SPDX-License-Identifier: MIT */
/* request.h - what a completion is a function of: a request, checked and in tokens.
 *
 * Together with the model it fixes every token of the answer, so it is all that a worker is told
 * and all that the journal keeps.
 */
#ifndef SPOT_SERVE_REQUEST_H
#define SPOT_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/wire.h"
#include "common/buf.h"
#include "engine/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_REQUEST_ID_MAX = 48,
    SPOT_REQUEST_CHOICES_MAX = 128,
    SPOT_REQUEST_STOPS_MAX = 16,
    SPOT_REQUEST_LOGPROBS_MAX = 20,
    SPOT_REQUEST_BIASES_MAX = 1024,
};

struct spot_token_bias {
    uint32_t token;
    float bias; /* added to its logit, -100..100 */
};

struct spot_request {
    char id[SPOT_REQUEST_ID_MAX]; /* "cmpl-...", "chatcmpl-...": 128 random bits */
    bool is_chat;
    int64_t created_s; /* Unix time */

    uint32_t *prompt; /* [n_prompt], at least 1; of several prompts one behind the other */
    size_t n_prompt;
    uint32_t *part_end; /* [n_part] where each of several prompts ends; NULL: there is one */
    uint32_t n_part;    /* 0: one; choice i is of prompt i / (n_choice / n_part) */
    bool is_seeded;     /* each prompt draws as if it were alone; else each on its own */
    struct spot_sample sample;
    struct spot_token_bias *bias; /* [n_bias], before penalties, cuts and log probabilities */
    size_t n_bias;
    uint32_t n_choice;
    int64_t n_token_max; /* of a choice; prompt and these fit the context. 0: with an echo alone */
    int n_logprob;       /* alternatives told with each token, 0..; -1: no logprobs at all */
    char *stop[SPOT_REQUEST_STOPS_MAX];
    size_t n_stop;
    char *schema; /* what the text must be: a JSON schema, "{}" for any object; NULL: anything */

    bool does_stream, wants_usage; /* stream, stream_options.include_usage */
    bool does_echo;                /* the prompt is the start of the text */
    bool ignores_end;              /* an end token is one like others */
};

void spot_request_release(struct spot_request *r);

/* The request of one choice as if its prompt were the only one: borrowed from r, not to be
 * released. *choice gets which of that prompt's it is. */
struct spot_request spot_request_part(const struct spot_request *r, uint32_t choice,
                                      uint32_t *choice_of_part);

/* Where a prompt is echoed with log probabilities its tokens behind the first are computed like an
 * answer, though it is known what they are: so many tokens of a choice of this one prompt are that.
 */
size_t spot_request_n_echo(const struct spot_request *part);

/* As bytes, for workers and the journal. */
void spot_request_put(const struct spot_request *r, struct spot_buf *out);
/* Returns 0, or -1 when it is malformed; released by the caller if 0. */
int spot_request_get(struct spot_request *r, struct spot_wire_in *in);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_REQUEST_H */
