/* SPDX-License-Identifier: MIT */
/* Bundles that no member holds, from durable storage or the weights given. */
#include <stdlib.h>

#include "checkpoint/bundle_io.h"
#include "shard/bundle.h"
#include "train/trainer_state.h"

enum { AHEAD_BYTE = 64 << 20 }; /* read before the wire has taken what was read earlier */

/* A bundle as it goes over the wire. */
static uint8_t *read_bundle(const struct spot_trainer *c, int index, size_t *n_byte,
                            struct spot_err *err)
{
    struct spot_bundle bundle;
    uint8_t *data = NULL;

    if (c->form.step == spot_store_newest(c->store))
        return spot_store_read(c->store, c->form.step, index, n_byte, err);
    if (spot_bundle_init(&bundle, &c->config.shape, index, err))
        return NULL;
    if (!spot_weights_read(c->weights, &bundle, err))
        data = spot_bundle_pack(&bundle, n_byte, err);
    spot_bundle_release(&bundle);
    return data;
}

static int send_bundle(struct spot_trainer *c, const struct spot_transfer *t, struct spot_err *err)
{
    struct spot_trainer_member *const who = spot_trainer_member(c, t->to);
    size_t n_byte;
    uint8_t *const data = read_bundle(c, (int)t->bundle, &n_byte, err);

    if (!data)
        return -1;
    spot_peer_ask(who->peer);
    spot_peer_send(who->peer, SPOT_MSG_RESTORE, t->bundle, data, n_byte);
    free(data);
    return 0;
}

bool spot_trainer_is_restoring(const struct spot_trainer *c)
{
    return c->machine->phase == SPOT_PHASE_MIGRATE && c->n_restored < c->form.n_transfer;
}

int spot_trainer_restore(struct spot_trainer *c, struct spot_err *err)
{
    while (spot_trainer_is_restoring(c) && spot_group_queued_byte(c->group) < AHEAD_BYTE) {
        const struct spot_transfer *t = &c->form.transfer[c->n_restored++];

        if (t->origin == SPOT_FROM_STORE && send_bundle(c, t, err))
            return -1;
    }
    return 0;
}
