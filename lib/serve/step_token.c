/* SPDX-License-Identifier: MIT */
#include "serve/step_token.h"

#include <string.h>

void spot_step_token_put(struct spot_buf *out, const struct spot_step_token *t)
{
    spot_put_u32(out, t->position);
    spot_put_u8(out, (uint8_t)(t->is_end | (t->token.n_cached > 0) << 1));
    if (t->token.n_cached)
        spot_put_u32(out, t->token.n_cached);
    spot_put_u32(out, t->token.id);
    spot_put_f64(out, t->token.logprob);
    spot_put_u32(out, t->token.worker);
    spot_put_u32(out, t->token.epoch);
    spot_put_u32(out, t->token.n_top);
    for (uint32_t k = 0; k < t->token.n_top; k++) {
        spot_put_u32(out, t->token.top[k].id);
        spot_put_f64(out, t->token.top[k].logprob);
    }
}

int spot_step_token_get(struct spot_wire_in *in, struct spot_step_token *t)
{
    uint8_t flags;

    memset(t, 0, sizeof(*t));
    t->position = spot_get_u32(in);
    flags = spot_get_u8(in);
    t->is_end = flags & 1;
    if (flags & 2)
        t->token.n_cached = spot_get_u32(in);
    t->token.id = spot_get_u32(in);
    t->token.logprob = spot_get_f64(in);
    t->token.worker = spot_get_u32(in);
    t->token.epoch = spot_get_u32(in);
    t->token.n_top = spot_get_count(in, 12);
    if (in->bad || t->token.n_top > SPOT_REQUEST_LOGPROBS_MAX)
        return -1;
    for (uint32_t k = 0; k < t->token.n_top; k++) {
        t->token.top[k].id = spot_get_u32(in);
        t->token.top[k].logprob = spot_get_f64(in);
    }
    return in->bad ? -1 : 0;
}
