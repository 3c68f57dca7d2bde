/* SPDX-License-Identifier: MIT */
/* solo.h - a model that answers one request at a time in this process, without sockets.
 *
 * It uses the parser, batch loop and completion of a server, so the tokens are the same.
 */
#ifndef SPOT_SERVE_SOLO_H
#define SPOT_SERVE_SOLO_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"
#include "engine/infer.h"
#include "serve/front.h"
#include "serve/proof_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_solo_options {
    const char *model;         /* its directory */
    const char *chat_template; /* a file, or the name of one of several; NULL: the model's own */
    const char *adapters;      /* see adapter_list.h; NULL: none */
    enum spot_infer_type type;
    const char *backend; /* "cuda"; NULL: the CPU */
    int n_thread;
    uint64_t kv_byte; /* of the cache; 0: for a whole context */
};

struct spot_solo;

/* NULL with *err: as spot_served_model_open and spot_relay_new. */
struct spot_solo *spot_solo_open(const struct spot_solo_options *options, struct spot_err *err);
void spot_solo_free(struct spot_solo *s); /* may be NULL */
const char *
spot_solo_no_chat(struct spot_solo *s); /* why chats are not supported; NULL: they are */

/* `tell` receives text as it is generated, of choice 0 only, and returns false to end the
 * answer. */
typedef bool (*spot_solo_tell)(void *user, const char *text, size_t n);

/* Answer a body of OpenAI's API: *document, unless NULL, gets the whole answer. Returns 0, or -1
 * with *err: SPOT_EDATA for a body that is refused, or an error of the engine. */
int spot_solo_answer(struct spot_solo *s, enum spot_api api, const char *body, size_t n_byte,
                     spot_solo_tell tell, void *user, struct spot_buf *document,
                     struct spot_err *err);

/* Compute the answer of a proof again. Returns 0 if it is equal, or -1 with *err: SPOT_EINFEASIBLE
 * names the difference, SPOT_EDATA: the request is not valid for this model. */
int spot_solo_prove(struct spot_solo *s, const struct spot_proof *proof, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SOLO_H */
