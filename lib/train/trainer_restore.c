/* SPDX-License-Identifier: MIT */
/* Bundles that no member holds, from durable storage or the given weights: sent to members without
 * access to these files. */
#include <stdlib.h>

#include "checkpoint/bundle_io.h"
#include "common/xalloc.h"
#include "shard/bundle.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"

enum { AHEAD_BYTE = 64 << 20 }; /* bytes read ahead of the connection */

void spot_trainer_restore_anew(struct spot_trainer *c)
{
    free(c->relay.transfer);
    c->relay = (struct spot_frame_relay){
        .transfer = spot_xcalloc(c->form.n_transfer, sizeof(*c->relay.transfer)),
        .since_s = c->relay.since_s,
    };
}

void spot_relay_release(struct spot_frame_relay *relay)
{
    free(relay->transfer);
}

/* Reads a bundle and returns it in the format of messages. */
static uint8_t *read_bundle(const struct spot_trainer *c, const struct spot_transfer *t,
                            size_t *n_byte, struct spot_err *err)
{
    struct spot_bundle bundle;
    uint8_t *data = NULL;

    if (t->origin == SPOT_FROM_STORE)
        return spot_store_read(c->saver.store, c->form.step, (int)t->bundle, n_byte, err);
    if (spot_bundle_init(&bundle, &c->config.shape, (int)t->bundle, err))
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
    uint8_t *data;

    if (!who)
        return 0; /* the member has left since its request */
    data = read_bundle(c, t, &n_byte, err);
    if (!data)
        return -1;
    spot_peer_ask(who->peer);
    spot_peer_send(who->peer, SPOT_MSG_RESTORE, t->bundle, data, n_byte);
    c->relay.sent_byte += (int64_t)n_byte;
    free(data);
    return 0;
}

bool spot_trainer_is_restoring(const struct spot_trainer *c)
{
    return c->machine->phase == SPOT_PHASE_MIGRATE && c->relay.n_sent < c->relay.n;
}

/* A generation behind a command is read only when needed. If it then turns out to be damaged, the
 * previous generation is used in a new epoch. */
static int fall_back(struct spot_trainer *c, const struct spot_transfer *t, struct spot_err *err)
{
    const struct spot_err why = *err;

    if (t->origin != SPOT_FROM_STORE || !spot_store_is_behind(c->saver.store) ||
        !spot_generation_is_damage(&why))
        return -1;
    spot_store_set_aside_newest(c->saver.store);
    if (spot_store_newest(c->saver.store) < 0)
        c->options->warn("%s; that generation is set aside, starting from the beginning", why.msg);
    else
        c->options->warn("%s; that generation is set aside, continuing from step %lld", why.msg,
                         (long long)spot_store_newest(c->saver.store));
    c->is_damage_reported = true;
    c->relay.n = c->relay.n_sent = 0;
    return spot_view_break(c->view, c->machine->epoch, err);
}

int spot_trainer_restore(struct spot_trainer *c, struct spot_err *err)
{
    while (spot_trainer_is_restoring(c) && spot_group_queued_byte(c->group) < AHEAD_BYTE) {
        const struct spot_transfer *const t =
            &c->form.transfer[c->relay.transfer[c->relay.n_sent++]];

        if (send_bundle(c, t, err))
            return fall_back(c, t, err);
    }
    return 0;
}

static bool is_asked(const struct spot_frame_relay *relay, size_t transfer)
{
    for (size_t i = 0; i < relay->n; i++)
        if (relay->transfer[i] == transfer)
            return true;
    return false;
}

int spot_trainer_unread(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                        struct spot_err *err)
{
    const struct spot_form *const f = &c->form;

    if (frame->epoch != c->machine->epoch || c->machine->phase != SPOT_PHASE_MIGRATE)
        return 0;
    for (size_t i = 0; i < f->n_transfer; i++) {
        const struct spot_transfer *const t = &f->transfer[i];

        if (t->to != id || t->bundle != frame->tag ||
            (t->origin != SPOT_FROM_STORE && t->origin != SPOT_FROM_WEIGHTS) ||
            is_asked(&c->relay, i))
            continue;
        c->relay.transfer[c->relay.n++] = (uint32_t)i;
        return spot_trainer_restore(c, err);
    }
    return 1;
}
