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
    struct spot_json_doc doc;
    const char *text; /* as received */
    size_t n_byte;
    struct spot_request *r;
    struct spot_buf *error;
    int status; /* 0: no error so far */
};

/* Only the first error is reported. */
void spot_body_refuse(struct spot_body *b, int status, const char *param, const char *code,
                      const char *fmt, ...) SPOT_PRINTF(5, 6);

/* NULL if absent or null. */
const struct spot_json_value *spot_body_member(const struct spot_body *b, const char *key);
bool spot_body_boolean(struct spot_body *b, const char *key);

/* Refuse by name the members of an object that are not `known`, a list that ends with NULL, unless
 * they ask for nothing: null, false, or empty. `where` names the object in messages. */
void spot_body_check_members(struct spot_body *b, const struct spot_json_value *object,
                             const char *const *known, const char *where);

/* openai_prompt.c: convert "prompt" and "messages" to tokens. n_choice counts one prompt before. */
void spot_body_read_prompt(struct spot_body *b);
void spot_body_read_messages(struct spot_body *b);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_OPENAI_BODY_H */
