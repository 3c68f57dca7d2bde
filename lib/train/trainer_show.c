/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "shard/arena.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_member_state.h"

static const double keep_s = 60; /* weights are kept for this time after a client's last request */

struct spot_show {
    int64_t wanted;     /* the step for which a client waits; 0: none */
    int64_t step, next; /* the newest complete step, and the one being received; -1: none */
    uint32_t epoch;     /* epoch in which it is received */
    int n_bundle, n_missing;
    struct spot_buf *have, *coming; /* [n_bundle] */
    double asked_s;
};

/* The memory is kept for the next copies: page faults would be half of the cost of a copy. */
static void drop(struct spot_show *s, struct spot_buf *bundle)
{
    for (int b = 0; b < s->n_bundle; b++)
        bundle[b].n = 0;
}

static void release(struct spot_show *s, struct spot_buf *bundle)
{
    for (int b = 0; b < s->n_bundle; b++)
        spot_buf_release(&bundle[b]);
    free(bundle);
}

void spot_trainer_end_show(struct spot_trainer *c)
{
    struct spot_show *const s = c->show;

    if (!s)
        return;
    release(s, s->have);
    release(s, s->coming);
    free(s);
    c->show = NULL;
}

static void ask_holders(const struct spot_trainer *c)
{
    const size_t n = c->machine->n_member;

    for (size_t i = 0; i < n; i++) {
        struct spot_buf which = { 0 }, out = { 0 };

        for (int b = 0; b < c->n_bundle; b++)
            if (spot_trainer_holder(c, b) == i)
                spot_put_u32(&which, (uint32_t)b);
        spot_put_u32(&out, (uint32_t)(which.n / 4));
        spot_buf_add(&out, which.data, which.n);
        if (which.n)
            spot_peer_send(spot_trainer_member(c, c->machine->member[i].id)->peer, SPOT_MSG_SHOW,
                           (uint64_t)c->machine->round, out.data, out.n);
        spot_buf_release(&which);
        spot_buf_release(&out);
    }
}

void spot_trainer_show(struct spot_trainer *c)
{
    struct spot_show *const s = c->show;
    const int64_t round = c->machine->round;

    if (!s)
        return;
    if (spot_clock_s() - s->asked_s > keep_s) {
        spot_trainer_end_show(c);
        return;
    }
    if (s->step > round) { /* the job was rolled back: followers must not get that step again */
        drop(s, s->have);
        s->step = -1;
    }
    if (s->next >= 0 && s->epoch != c->machine->epoch) { /* a sender may have left with the epoch */
        drop(s, s->coming);
        s->next = -1;
    }
    if (s->next >= 0 || !s->wanted || round < s->wanted || round == s->step)
        return;
    s->next = round;
    s->epoch = c->machine->epoch;
    s->n_missing = c->n_bundle;
    ask_holders(c);
}

static size_t weights_byte(const struct spot_trainer *c, int bundle)
{
    struct spot_arena arena;

    spot_arena_of(&c->config.shape, bundle, &arena);
    return arena.n_elem * sizeof(float);
}

int spot_trainer_shown(struct spot_trainer *c, const struct spot_frame *frame)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t step = spot_get_i64(&in);
    struct spot_show *const s = c->show;
    struct spot_buf *old;

    if (in.bad || frame->tag >= (uint64_t)c->n_bundle ||
        frame->n_byte != 16 + weights_byte(c, (int)frame->tag))
        return 1;
    if (!s || step != s->next || s->coming[frame->tag].n)
        return 0;
    spot_buf_add(&s->coming[frame->tag], frame->data, frame->n_byte);
    if (--s->n_missing)
        return 0;
    old = s->have;
    drop(s, old);
    s->have = s->coming;
    s->coming = old;
    s->step = step;
    s->next = -1;
    s->wanted = 0;
    return 0;
}

int64_t spot_trainer_watch(struct spot_trainer *c, int64_t wanted)
{
    struct spot_show *s = c->show;

    if (!s) {
        s = c->show = spot_xcalloc(1, sizeof(*s));
        s->step = s->next = -1;
        s->n_bundle = c->n_bundle;
        s->have = spot_xcalloc((size_t)c->n_bundle, sizeof(*s->have));
        s->coming = spot_xcalloc((size_t)c->n_bundle, sizeof(*s->coming));
    }
    if (wanted > 0 && wanted > s->step && (!s->wanted || wanted < s->wanted))
        s->wanted = wanted;
    s->asked_s = spot_clock_s();
    return s->step;
}

const struct spot_buf *spot_trainer_look(const struct spot_trainer *c, int64_t step,
                                         uint32_t bundle)
{
    const struct spot_show *const s = c->show;

    return s && step >= 0 && s->step == step && bundle < (uint32_t)s->n_bundle ? &s->have[bundle]
                                                                               : NULL;
}
