/* SPDX-License-Identifier: MIT */
/* chat.h - renders the messages of a conversation as the prompt format that a model was trained on.
 *
 * chat_template.jinja, or else the `chat_template` of tokenizer_config.json (of several the one
 * named "default"), gives the format as a program in Jinja (template.h).
 */
#ifndef SPOT_TEXT_CHAT_H
#define SPOT_TEXT_CHAT_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_chat;

/* Read the files of a model's or tokenizer's directory. choice: NULL, a file of a template, or the
 * name of one of several. NULL with *err: SPOT_ESYS; SPOT_EDATA, also if there is no usable
 * template. */
struct spot_chat *spot_chat_load(const char *dir, const char *choice, struct spot_err *err);
/* The same from the text of a tokenizer_config.json. */
struct spot_chat *spot_chat_parse(const char *json, size_t n, const char *source,
                                  struct spot_err *err);
void spot_chat_free(struct spot_chat *chat); /* may be NULL */

/* Fix the current time that templates see (strftime_now), in seconds since 1970, for all chats of
 * this process. Call it before any is created. */
void spot_chat_fix_time(int64_t now_s);

/* The text of the token that ends a turn of the assistant; "" if it is not known. */
const char *spot_chat_end(const struct spot_chat *chat);

/* Append the prompt; encode it with spot_bpe_encode_named. context: an object of what transformers
 * passes to a template: messages, tools, documents, add_generation_prompt and whatever else it
 * reads; bos_token, eos_token and the like are added here. Several threads may call it at once.
 * Returns 0, or -1 with *err and nothing appended: SPOT_EDATA for an error in or raised by the
 * template, and for content that contains the text of a special token and could thus impersonate
 * another role; SPOT_EINFEASIBLE beyond a limit of steps, bytes or depth. */
int spot_chat_render(const struct spot_chat *chat, const struct spot_json_value *context,
                     struct spot_buf *out, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_CHAT_H */
