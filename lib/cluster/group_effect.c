/* SPDX-License-Identifier: MIT */
/* What the state machine asks for, carried out. */
#include <stdlib.h>

#include "common/clock.h"
#include "train/trainer_state.h"

static const char *tokens_of(const struct spot_coordinator_options *o)
{
    return o->bpe ? "tokenizer" : o->token_byte == 1 ? "bytes" : o->token_byte == 2 ? "u16" : "u32";
}

static int log_formed(struct spot_coord *c, struct spot_err *err)
{
    const struct spot_form *f = &c->form;
    struct spot_jw *jw = spot_journal_begin(&c->journal, "formed", c->machine.epoch, f->step);

    if (jw) {
        spot_jw_int(jw, "D", f->D);
        spot_jw_int(jw, "P", f->P);
        spot_jw_int(jw, "M", f->M);
        spot_jw_int(jw, "members", (int64_t)c->machine.n_member);
        spot_jw_str(jw, "tokens", tokens_of(c->options));
        spot_jw_array(jw, "place");
        for (uint32_t i = 0; i < spot_form_size(f); i++) {
            const struct spot_coord_peer *peer = spot_coord_find(c, f->member[i]);

            spot_jw_str(jw, NULL, peer ? peer->name : "");
        }
        spot_jw_end(jw);
        spot_jw_array(jw, "shares");
        for (uint32_t d = 0; d < f->D; d++)
            spot_jw_int(jw, NULL, f->share[d + 1] - f->share[d]);
        spot_jw_end(jw);
        spot_jw_array(jw, "buddies");
        for (uint32_t p = 0; p < f->P; p++) {
            const struct spot_coord_peer *peer = spot_coord_find(c, f->buddy[p]);

            spot_jw_str(jw, NULL, peer ? peer->name : "");
        }
        spot_jw_end(jw);
    }
    return spot_journal_end(&c->journal, err);
}

static int log_quiesce(struct spot_coord *c, struct spot_err *err)
{
    if (spot_journal_begin(&c->journal, "quiesce", c->machine.epoch, c->machine.round))
        return spot_journal_end(&c->journal, err);
    return 0;
}

/* Members that leave and have no part in the epoch that runs may go; while nothing runs, once what
 * they hold is not needed for the epoch that may begin soon. */
void spot_coord_release_leavers(struct spot_coord *c)
{
    const bool runs = c->machine.phase == SPOT_PHASE_RUN;
    const bool waits = c->machine.phase == SPOT_PHASE_WAIT && !spot_store_is_busy(c->store) &&
                       spot_clock_s() >= c->settle_until_s && !spot_coord_awaits(c);

    for (size_t i = 0; (runs || waits) && i < c->machine.n_member; i++) {
        const struct spot_member *m = &c->machine.member[i];
        struct spot_coord_peer *peer = spot_coord_find(c, m->id);

        if (m->is_leaving && m->role != SPOT_ROLE_ACTIVE && !peer->is_closing) {
            spot_coord_send(c, peer, SPOT_MSG_LEAVE, 0, NULL, 0);
            peer->is_closing = true;
        }
    }
}

/* All steps have committed: fetch the state once more, for the hash, the file and the disk. */
static void begin_end(struct spot_coord *c)
{
    c->is_final = true;
    if (c->options->observer)
        c->is_over = true; /* nobody wants the weights */
    else
        spot_coord_save(c);
}

static int begin_step(struct spot_coord *c, struct spot_err *err)
{
    if (c->form.step == c->machine.round && log_formed(c, err))
        return -1;
    c->form.step = -1; /* an epoch is announced once */
    spot_coord_release_leavers(c);
    if (c->machine.round >= c->config.n_step) {
        begin_end(c);
        return 0;
    }
    if (c->is_redoing) { /* between two tries a bundle has exponents that no commit stands for */
        c->is_redoing = false;
        return spot_coord_step(c, err);
    }
    if (spot_coord_save_is_due(c) || c->stop_wanted)
        spot_coord_save(c);
    if (c->stop_wanted)
        return 0; /* the loop ends when the state is durable */
    spot_coord_hand(c);
    return spot_coord_step(c, err);
}

static int tell_quiesce(struct spot_coord *c, struct spot_err *err)
{
    c->told_epoch = c->machine.epoch;
    if (log_quiesce(c, err))
        return -1;
    if (c->is_final)
        for (int b = 0; b < c->n_bundle; b++) {
            free(c->result[b]);
            c->result[b] = NULL;
        }
    c->is_final = c->is_redoing = false;
    spot_store_cancel(c->store);
    for (size_t i = 0; i < c->machine.n_member; i++) {
        struct spot_coord_peer *peer = spot_coord_find(c, c->machine.member[i].id);

        peer->n_owed = 0;
        spot_coord_ask(peer);
        spot_coord_send(c, peer, SPOT_MSG_QUIESCE, 0, NULL, 0);
    }
    return 0;
}

/* Carry out an effect and those that follow from it. */
int spot_coord_act(struct spot_coord *c, enum spot_effect effect, struct spot_err *err)
{
    int rc = 0;

    while (!rc && effect != SPOT_EFFECT_NONE) {
        const enum spot_effect now = effect;

        effect = SPOT_EFFECT_NONE;
        switch (now) {
        case SPOT_EFFECT_QUIESCE:
            rc = tell_quiesce(c, err);
            break;
        case SPOT_EFFECT_FORM:
            rc = c->told_epoch != c->machine.epoch ? tell_quiesce(c, err) : 0;
            rc = rc ? rc : spot_coord_form(c, err);
            break;
        case SPOT_EFFECT_ROUND:
            rc = begin_step(c, err);
            break;
        case SPOT_EFFECT_COMMIT:
            rc = spot_coord_commit(c, &effect, err);
            break;
        case SPOT_EFFECT_NONE:
            break;
        }
    }
    return rc;
}
