/* SPDX-License-Identifier: MIT */
/* Tracks the bundles that members still owe for a generation. Members that write their bundles to
 * the directory have copies, so a generation survives the end of its epoch; it does not survive the
 * loss of one of them. What is sent is on its way when an epoch ends, or is not sent at all. */
#include "train/trainer_state.h"

static void forget(struct spot_trainer *c)
{
    for (int b = 0; b < c->n_bundle; b++)
        c->saver[b] = 0;
}

/* Requested, and not arrived. */
static bool is_owed(const struct spot_trainer *c, int bundle)
{
    return c->saver[bundle] &&
           (spot_store_lacks(c->store, bundle) || bundle == spot_trainer_pulling(c));
}

bool spot_trainer_owes_bundle(const struct spot_trainer *c, uint32_t id)
{
    for (int b = 0; b < c->n_bundle; b++)
        if (c->saver[b] == id && is_owed(c, b))
            return true;
    return false;
}

void spot_trainer_lost_saver(struct spot_trainer *c, uint32_t id)
{
    if (!spot_trainer_owes_bundle(c, id))
        return;
    spot_store_cancel(c->store);
    forget(c);
}

bool spot_trainer_awaits_savers(const struct spot_trainer *c, int64_t step)
{
    if (!spot_store_is_shared(c->store) || spot_store_collecting(c->store) != step)
        return false;
    for (int b = 0; b < c->n_bundle; b++)
        if (is_owed(c, b) && !spot_group_find(c->group, c->saver[b]))
            return false;
    return true;
}

void spot_trainer_settle_savers(struct spot_trainer *c, int64_t most)
{
    const int64_t step = spot_store_collecting(c->store);

    if (step >= 0 && step <= most && spot_trainer_awaits_savers(c, step))
        return;
    spot_store_cancel(c->store);
    forget(c);
}

int spot_trainer_written(struct spot_trainer *c, const struct spot_frame *frame)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t step = spot_get_i64(&in);
    const uint64_t nonce = spot_get_u64(&in);
    struct spot_written written = { .n_byte = spot_get_u64(&in) };

    written.hash.low = spot_get_u64(&in);
    written.hash.high = spot_get_u64(&in);
    if (!spot_wire_in_done(&in) || frame->tag >= (uint64_t)c->n_bundle)
        return 1;
    if (written.n_byte) {
        spot_store_put_written(c->store, step, nonce, (int)frame->tag, &written);
        spot_trainer_ask_more(c);
    } else if (!c->is_final && step == spot_store_collecting(c->store)) {
        spot_trainer_settle_savers(c, -1);
    }
    return 0;
}
