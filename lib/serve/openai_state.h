/* SPDX-License-Identifier: MIT */
/* openai_state.h - OpenAI's documents, as written by the front. */
#ifndef SPOT_SERVE_OPENAI_STATE_H
#define SPOT_SERVE_OPENAI_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/json_writer.h"
#include "serve/front.h"

#ifdef __cplusplus
extern "C" {
#endif

/* {"error": {message, type, param, code}}; param and code may be NULL. Returns status. */
int spot_openai_error(int status, const char *type, const char *param, const char *code,
                      struct spot_buf *out, const char *fmt, ...) SPOT_PRINTF(6, 7);

/* {"error": ...} for an aborted request. Returns the status. */
int spot_openai_given_up(const struct spot_completion *c, struct spot_buf *out);

/* The answer of a request with a pool: openai_embeddings.c. */
void spot_openai_embeddings(const struct spot_front_options *options,
                            const struct spot_completion *c, struct spot_buf *out);
/* "model": the name of the adapter, or of the model. */
void spot_openai_put_model_name(struct spot_jw *jw, const struct spot_front_options *options,
                                const struct spot_request *r);

/* The chunk for one committed token of a stream, or for the piece of text that it completes.
 * Includes the name of its worker if requested, NULL if not known. */
void spot_openai_chunk(const struct spot_front_options *options, const struct spot_completion *c,
                       uint32_t choice, size_t position, bool tells_worker, const char *worker,
                       struct spot_buf *out);
/* The last chunk of a stream with usage. */
void spot_openai_usage_chunk(const struct spot_front_options *options,
                             const struct spot_completion *c, struct spot_buf *out);
/* The list of models: the model under each of its names, and its adapters; or the model of the
 * requested name. */
void spot_openai_models(const struct spot_front_options *options, const char *name,
                        int64_t created_s, struct spot_buf *out);

/* /tokenize and /detokenize: an answer or an error in *out. Returns its status. */
int spot_openai_tokens(const struct spot_front_options *options, enum spot_api api,
                       const char *body, size_t n_byte, struct spot_buf *out);

/* --- openai_logprobs.c ------------------------------------------------------------- */

/* Tokens [begin, end) of a choice. */
struct spot_answer_part {
    const struct spot_front_options *options;
    const struct spot_completion *c;
    const struct spot_choice *h;
    size_t begin, end;
};

/* The request as if the prompt of this choice were the only one. */
struct spot_request spot_answer_part_prompt(const struct spot_answer_part *p);
void spot_answer_part_put_logprobs(const struct spot_answer_part *p, struct spot_jw *jw);
void spot_answer_part_put_chat_logprobs(const struct spot_answer_part *p, struct spot_jw *jw);

/* --- openai_answer.c, for the other writers ---------------------------------------- */

struct spot_page { /* writes a JSON document into memory */
    struct spot_jw jw;
    FILE *f;
    char *text;
    size_t n;
};

struct spot_jw *spot_page_begin(struct spot_page *p); /* an object is open */
void spot_page_finish(struct spot_page *p, struct spot_buf *out);
void spot_openai_put_ids(struct spot_jw *jw, const char *key, const uint32_t *id, size_t n);

/* Tokens that were generated, over all choices. */
int64_t spot_openai_n_generated(const struct spot_completion *c);
/* Tokens of its prompts whose keys and values were in the cache. */
int64_t spot_openai_n_cached(const struct spot_completion *c);

enum { SPOT_CALL_ID_MAX = 40 };
/* The id of call k of a choice: a function of the request, so it is the same after a kill. */
void spot_openai_call_id(const struct spot_completion *c, uint32_t choice, uint32_t k,
                         char id[SPOT_CALL_ID_MAX]);

/* --- openai_response.c --------------------------------------------------------------- */

/* Position in the stream of events of a response, a function of the tokens sent so far. */
struct spot_response_stream {
    int64_t n_event;
    uint32_t n_item, n_call; /* begun */
    bool is_open;            /* the last of them */
    size_t piece, begin;     /* the next piece; the first of the open item */
};

void spot_openai_response(const struct spot_front_options *options, const struct spot_completion *c,
                          struct spot_buf *out);
/* Write the events of a token; those of earlier tokens were sent. */
void spot_openai_response_events(const struct spot_front_options *options,
                                 const struct spot_completion *c, size_t position,
                                 struct spot_response_stream *s, struct spot_buf *out);
/* Write the events after the last token. */
void spot_openai_response_end(const struct spot_front_options *options,
                              const struct spot_completion *c, struct spot_response_stream *s,
                              struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_OPENAI_STATE_H */
