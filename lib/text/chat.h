/* SPDX-License-Identifier: MIT */
/* chat.h - renders the messages of a conversation as the prompt format that a model was trained on.
 *
 * chat_template.jinja, or else the `chat_template` of tokenizer_config.json (of several the one
 * named "default"), gives the format as a program (Jinja). Untrusted programs are not run here:
 * three known formats, ChatML, Llama 2 and Llama 3, are recognised by distinctive text, and
 * anything else is rejected.
 */
#ifndef SPOT_TEXT_CHAT_H
#define SPOT_TEXT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"
#include "text/beside.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_chat_form { SPOT_CHAT_CHATML, SPOT_CHAT_LLAMA2, SPOT_CHAT_LLAMA3 };

struct spot_chat {
    enum spot_chat_form form;
    char bos[SPOT_BESIDE_TOKEN], eos[SPOT_BESIDE_TOKEN]; /* texts of the tokens; "": none */
};

struct spot_chat_message {
    const char *role; /* system, user or assistant */
    const char *content;
};

/* Read the files of a tokenizer's directory. Returns 0, or -1 with *err: SPOT_ESYS, or SPOT_EDATA
 * also where there is no template, or one that is none of the three, or that differs from them. */
int spot_chat_load(struct spot_chat *chat, const char *dir, struct spot_err *err);
/* The same from the text of a tokenizer_config.json. */
int spot_chat_parse(struct spot_chat *chat, const char *json, size_t n, const char *source,
                    struct spot_err *err);

/* The text of the token that ends a turn of the assistant; "" if it is not known. */
const char *spot_chat_end(const struct spot_chat *chat);

/* Append the prompt; encode it with spot_bpe_encode_named. With `asks` it ends where the
 * assistant's reply begins. Returns 0, or -1 with *err (SPOT_EDATA): a role that the format does
 * not have, roles in the wrong order, or content that contains a token of the format and could so
 * impersonate another role. */
int spot_chat_render(const struct spot_chat *chat, const struct spot_chat_message *message,
                     size_t n, bool asks, struct spot_buf *out, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_CHAT_H */
