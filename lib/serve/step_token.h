/* SPDX-License-Identifier: MIT */
/* step_token.h - a token of a choice as bytes, for messages and the journal. */
#ifndef SPOT_SERVE_STEP_TOKEN_H
#define SPOT_SERVE_STEP_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/wire.h"
#include "serve/completion.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_step_token {
    uint32_t position; /* in the choice, from 0 */
    bool is_end;       /* nothing may follow, although it is not an end token */
    struct spot_token token;
};

void spot_step_token_put(struct spot_buf *out, const struct spot_step_token *t);
/* Returns 0, or -1 when it is malformed. */
int spot_step_token_get(struct spot_wire_in *in, struct spot_step_token *t);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_STEP_TOKEN_H */
