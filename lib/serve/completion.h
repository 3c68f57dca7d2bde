/* SPDX-License-Identifier: MIT */
/* completion.h - the committed tokens of a request, their text, and its end.
 *
 * Everything here is a function of the request, the model's vocabulary and the tokens so far. So a
 * completion is restored from the journal, and a client that reconnects reads it from any position.
 */
#ifndef SPOT_SERVE_COMPLETION_H
#define SPOT_SERVE_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/request.h"
#include "serve/tool_call.h"
#include "text/bpe.h"
#include "text/detok.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_finish {
    SPOT_FINISH_NONE,
    SPOT_FINISH_STOP,   /* an end token, a stop text, or the schema allows no more */
    SPOT_FINISH_LENGTH, /* n_token_max */
    SPOT_FINISH_CANCELLED,
};

struct spot_top { /* an alternative */
    uint32_t id;
    double logprob;
};

struct spot_token {
    uint32_t id;
    double logprob;
    uint32_t n_cached;      /* of the first token: cached prompt tokens; only reported */
    uint32_t worker, epoch; /* of the computing worker; reported, not part of the answer */
    uint32_t n_top;
    struct spot_top top[SPOT_REQUEST_LOGPROBS_MAX]; /* the most probable first */
};

/* Equality except for the worker. */
bool spot_token_is_same(const struct spot_token *a, const struct spot_token *b);

/* Pieces of text, for engines without token ids. A byte of text is a token of its number; the last
 * byte of a piece, which counts as a token of the answer, has SPOT_PIECE_LAST added. */
enum {
    SPOT_PIECE_LAST = 1 << 8,
    SPOT_PIECE_STOP = 2 << 8, /* an end, and an end because the engine reached its limit */
    SPOT_PIECE_LENGTH,
    SPOT_PIECES,
};
static inline bool spot_piece_counts(uint32_t id)
{
    return id >= SPOT_PIECE_LAST && id < SPOT_PIECE_STOP;
}

/* The meaning of a model's tokens; borrowed by completions. */
struct spot_vocabulary {
    bool has_pieces;      /* tokens are pieces of text, see above */
    struct spot_bpe *bpe; /* spot_bpe_of_bytes() for a byte-level model */
    const uint32_t *end;  /* [n_end] tokens that end a choice; not text */
    size_t n_end;
    const uint32_t *begin; /* [n_begin] tokens added before each text prompt */
    size_t n_begin;
    const uint32_t *after; /* [n_after] tokens added after a text that is not continued */
    size_t n_after;
    const char *fingerprint; /* "system_fingerprint" of weights that follow a training job; NULL */
};

struct spot_choice {
    struct spot_token *token; /* [n_token] committed */
    size_t *text_end; /* [n_token] bytes of text that may be sent after this token; bytes that could
                         become a stop text or another character are held back */
    uint32_t *offset; /* [n_token] characters before its text, an echoed prompt included; only for
                         requests with logprobs, else NULL */
    size_t *piece_end; /* [n_token] pieces of `calls` known after this token; only for requests with
                          a tool_form, else NULL */
    size_t n_token;
    size_t token_cap;
    size_t n_counted; /* tokens (or pieces) counted for max_tokens, without the prompt's */
    size_t n_echo; /* number of first tokens that belong to the echoed prompt: they add no text and
                      end nothing */
    uint32_t n_character;                     /* characters so far, counted as for offset */
    uint16_t matched[SPOT_REQUEST_STOPS_MAX]; /* length of the prefix of each stop text with which
                                                 the text ends */
    struct spot_detokenizer detok, echo;      /* of the text; of the echoed prompt, see offset */
    struct spot_buf text;                     /* UTF-8 */
    struct spot_tool_scan calls;              /* parser of tool calls in the text */
    float *state; /* [n_state] of a request with a pool; NULL: not yet */
    size_t n_state;
    uint32_t n_state_cached; /* cached prompt tokens; not part of the answer */
    enum spot_finish finish;
};

struct spot_completion {
    struct spot_request request;
    const struct spot_vocabulary *vocabulary;
    struct spot_choice *choice; /* [request.n_choice] */
    uint32_t n_open;            /* number of choices that have not ended */
    uint32_t n_held;            /* choices that must be checked before anything is sent */
    int n_reference;
    uint16_t *fallback[SPOT_REQUEST_STOPS_MAX]; /* of each stop text: the table of the search, see
                                                   completion.c */
    char *why;   /* why the server aborted it, for the client; NULL otherwise */
    void *core;  /* owned by the server */
    void *front; /* owned by the HTTP side */
};

/* Takes the request; one reference. */
struct spot_completion *spot_completion_new(struct spot_request *request_take,
                                            const struct spot_vocabulary *vocabulary);
struct spot_completion *spot_completion_ref(struct spot_completion *c);
void spot_completion_unref(struct spot_completion *c); /* may be NULL */

enum spot_append {
    SPOT_APPEND_NEW,
    SPOT_APPEND_KNOWN,        /* already present, or the choice has ended */
    SPOT_APPEND_GAP = -1,     /* earlier tokens are missing, or there is no such choice */
    SPOT_APPEND_DIFFERS = -2, /* differs from the present one: determinism is violated */
};

/* Commit a token. A second worker's token for the same position is compared. */
enum spot_append spot_completion_append(struct spot_completion *c, uint32_t choice, size_t position,
                                        const struct spot_token *token);

/* Commit the state of a choice of a request with a pool, which ends it. */
enum spot_append spot_completion_set_state(struct spot_completion *c, uint32_t choice,
                                           const float *state, size_t n, uint32_t n_cached);

/* Append the text of token i of an echoed prompt; d, which keeps special tokens, has received the
 * earlier ones. Special tokens written in the prompt are included, those added by the tokenizer are
 * not. */
void spot_completion_echo(const struct spot_vocabulary *v, const struct spot_request *part,
                          size_t i, struct spot_detokenizer *d, struct spot_buf *out);

/* The choice ends without an end token: release the text that was held back. */
void spot_completion_finish(struct spot_completion *c, uint32_t choice, enum spot_finish finish);
/* The first and last token of the stream event at `position`: a single token, or a piece as far as
 * it is known. */
size_t spot_choice_piece_begin(const struct spot_completion *c, uint32_t choice, size_t position);
size_t spot_choice_piece_last(const struct spot_completion *c, uint32_t choice, size_t position);
/* Discard all tokens of a choice. */
void spot_completion_restart(struct spot_completion *c, uint32_t choice);
/* True if the completion is complete and may be sent. */
static inline bool spot_completion_is_ready(const struct spot_completion *c)
{
    return !c->n_open && !c->n_held;
}
/* True if a choice is SPOT_FINISH_CANCELLED, so that there is no answer. */
bool spot_completion_is_given_up(const struct spot_completion *c);

/* --- a token of a choice as bytes, for messages and the journal --- */

struct spot_step_token {
    uint32_t position; /* in the choice, from 0 */
    bool is_end;       /* nothing may follow, although it is not an end token */
    struct spot_token token;
};

void spot_step_token_put(struct spot_buf *out, const struct spot_step_token *t);
/* Returns 0, or -1 if the message is malformed. */
int spot_step_token_get(struct spot_wire_in *in, struct spot_step_token *t);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_COMPLETION_H */
