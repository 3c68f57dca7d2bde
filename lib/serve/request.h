/* SPDX-License-Identifier: MIT */
/* request.h - a request, validated and in tokens, which determines its completion.
 *
 * Together with the model it determines every token of the answer, so it is all that a worker is
 * sent and all that the journal keeps.
 */
#ifndef SPOT_SERVE_REQUEST_H
#define SPOT_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/wire.h"
#include "common/buf.h"
#include "engine/infer.h"
#include "engine/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_REQUEST_ID_MAX = 48,
    SPOT_REQUEST_CHOICES_MAX = 2048, /* of all prompts together */
    SPOT_REQUEST_N_MAX = 128,        /* of one */
    SPOT_REQUEST_STOPS_MAX = 16,
    SPOT_REQUEST_LOGPROBS_MAX = 20,
    SPOT_REQUEST_BIASES_MAX = 1024,
    SPOT_REQUEST_STOP_IDS_MAX = 128,
};

struct spot_token_bias {
    uint32_t token;
    float bias; /* added to its logit, -100..100 */
};

struct spot_request {
    char id[SPOT_REQUEST_ID_MAX]; /* "cmpl-...", "chatcmpl-...": 128 random bits */
    bool is_chat;
    int64_t created_s; /* Unix time */
    uint64_t owner;    /* of its client's API key, see spot_http_keys_owner; not sent to workers */

    /* terms of its API key, see spot_http_terms; not kept over a restart */
    uint32_t payer;
    float share; /* 0: 1 */
    int priority;

    uint32_t *prompt; /* [n_prompt], at least 1; several prompts are concatenated */
    size_t n_prompt;
    uint32_t *part_end; /* [n_part] end of each of several prompts; NULL: one prompt */
    uint32_t n_part;    /* 0: one; choice i belongs to prompt i / (n_choice / n_part) */
    bool is_seeded;     /* each prompt samples as if it were alone; otherwise independently of the
                           others */
    struct spot_sample sample;
    /* [n_bias], applied before penalties, filters and log probabilities */
    struct spot_token_bias *bias;
    size_t n_bias;
    uint32_t n_choice;
    int64_t n_token_max; /* per choice; prompt and answer fit the context. 0: only with an echo */
    int64_t n_token_min; /* before this many tokens only the constraint can end a choice */
    int n_logprob;       /* alternatives reported for each token, 0..; -1: no logprobs at all */
    char *stop[SPOT_REQUEST_STOPS_MAX];
    size_t n_stop;
    uint32_t *stop_id; /* [n_stop_id] tokens that end a choice, beside the model's */
    size_t n_stop_id;
    char *form;       /* constraint of the text, see grammar.h; NULL: none */
    uint32_t adapter; /* number of the model's adapter, counted from 1 (served_model.h); 0: none */
    enum spot_pool pool;  /* each prompt has one choice, a state instead of tokens */
    uint32_t n_dimension; /* length of these states; 0: all numbers */
    uint8_t tool_form;    /* format of tool calls, see tool_call.h; 0: none */
    char *response; /* for /v1/responses: an object with the members that the answer repeats; NULL:
                       another API */

    bool does_stream, wants_usage; /* stream, stream_options.include_usage */
    bool does_echo;                /* the text begins with the prompt */
    bool ignores_end;              /* end tokens are ordinary tokens */
    bool keeps_stop;               /* the text ends with the stop text that was found */
    bool tells_ids;                /* the answer has the tokens */
    bool is_base64;                /* the answer has states as bytes */
    bool needs_check; /* nothing is sent before another replica has computed the same */
    bool is_fresh;    /* everything is computed; no cached pages are used */
};

void spot_request_release(struct spot_request *r);

/* The request of one choice as if its prompt were the only one: borrowed from r, not to be
 * released. *choice gets its index among that prompt's choices. */
struct spot_request spot_request_part(const struct spot_request *r, uint32_t choice,
                                      uint32_t *choice_of_part);

/* If a prompt is echoed with log probabilities, its tokens after the first are computed like an
 * answer, although they are known: the number of such tokens in a choice of this prompt. */
size_t spot_request_n_echo(const struct spot_request *part);

/* True for one of the request's own end tokens. */
bool spot_request_stops_at(const struct spot_request *r, uint32_t token);

/* Serialise, for workers and the journal. */
void spot_request_put(const struct spot_request *r, struct spot_buf *out);
/* Returns 0, or -1 when malformed; to be released by the caller if 0. */
int spot_request_get(struct spot_request *r, struct spot_wire_in *in);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_REQUEST_H */
