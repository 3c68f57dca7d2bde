/* SPDX-License-Identifier: MIT */
/* openai_body.h - a request body being read; private to lib/serve/openai_*.c. */
#ifndef SPOT_SERVE_OPENAI_BODY_H
#define SPOT_SERVE_OPENAI_BODY_H

#include "common/json.h"
#include "serve/front.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_body {
    const struct spot_front_options *options;
    enum spot_api api;
    struct spot_json_doc doc;
    const char *text; /* as received */
    size_t n_byte;
    struct spot_request *r;
    const struct spot_json_value *tools; /* tools in the prompt; NULL: none */
    struct spot_buf *error;
    int status; /* 0: no error so far */
};

/* Only the first error is reported. */
void spot_body_refuse(struct spot_body *b, int status, const char *param, const char *code,
                      const char *fmt, ...) SPOT_PRINTF(5, 6);

/* --- openai_keys.c: members ------------------------------------------------------ */

/* A member of the body; NULL if absent or null. */
const struct spot_json_value *spot_body_member(const struct spot_body *b, const char *key);
/* `otherwise` if absent or null. */
int64_t spot_body_integer(struct spot_body *b, const char *key, int64_t min, int64_t max,
                          int64_t otherwise);
bool spot_body_boolean(struct spot_body *b, const char *key, bool otherwise);
bool spot_json_is_word(const struct spot_json_value *v, const char *text); /* this text */
bool spot_json_is_nothing(const struct spot_json_value *v); /* null, false, or empty */
/* Refuse by name the members of an object that are not in `known`, a list that ends with NULL,
 * unless their value is null, false, or empty. `where` names the object in messages. */
void spot_body_check_members(struct spot_body *b, const struct spot_json_value *object,
                             const char *const *known, const char *where);

/* Refuse unknown members of the body, and read those that are a single number or flag of the
 * request. */
void spot_body_read_keys(struct spot_body *b);

void spot_body_check_model(struct spot_body *b); /* openai_parse.c: check that "model" exists. */

/* --- the others: each reads some members ------------------------------------------ */

void spot_body_read_settings(struct spot_body *b); /* openai_settings.c */
void spot_body_read_lengths(struct spot_body *b);  /* after the prompt */
/* openai_form.c: read the constraint of the text; with tools or without. */
void spot_body_read_form(struct spot_body *b);
/* Refuse a constraint without a grammar; `what` names it. Takes the form. */
void spot_body_take_form(struct spot_body *b, const char *param, const char *what, char *form);
/* openai_tools.c: read tools and tool_choice, after the form. */
void spot_body_read_tools(struct spot_body *b);
/* openai_prompt.c: read texts and tokens. Before it n_choice counts the choices of one prompt. */
void spot_body_read_prompt(struct spot_body *b);
const char *spot_body_prompt_key(const struct spot_body *b); /* "prompt", or "input" */
void spot_body_take_text(struct spot_body *b, const char *param, const char *text, size_t n);
void spot_body_read_messages(struct spot_body *b); /* openai_messages.c */
/* openai_embeddings.c: read the whole body. */
void spot_body_read_embedding(struct spot_body *b);

/* openai_response_body.c: a body of /v1/responses as a body of /v1/chat/completions, to be freed;
 * *told gets the members that its answer repeats. NULL: refused. */
char *spot_body_chat_of_response(struct spot_body *b, size_t *n_byte, char **told);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_OPENAI_BODY_H */
