/* SPDX-License-Identifier: MIT */
/* What an observer is told, and its wishes. */
#include <signal.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "train/trainer_state.h"

static void grant(struct spot_coord *c, const struct spot_wish *wish)
{
    struct spot_buf out = { 0 };

    c->is_over |= wish->is_enough;
    if (wish->D && wish->P) {
        c->want = (struct spot_degrees){ wish->D, wish->P, 1 };
        spot_machine_want_change(&c->machine);
    }
    if (wish->local_leaves && wish->local_leaves <= c->options->n_local &&
        c->local[wish->local_leaves - 1].pid)
        kill(c->local[wish->local_leaves - 1].pid, SIGTERM);
    if (wish->probe_byte && !c->machine.change_wanted) {
        spot_put_u32(&out, wish->probe_rounds);
        spot_coord_send_active(c, SPOT_MSG_PROBE, wish->probe_byte, out.data, out.n);
        spot_buf_release(&out);
    }
}

void spot_coord_observe(struct spot_coord *c, double step_s)
{
    const struct spot_observer *const observer = c->options->observer;
    const struct spot_form *const f = &c->form;
    struct spot_wish wish = { 0 };
    struct spot_step_seen seen = { .step = c->machine.round + 1,
                                   .D = f->D,
                                   .P = f->P,
                                   .M = f->M,
                                   .n_commit = c->n_epoch_commit,
                                   .step_s = step_s,
                                   .read_s = c->read_s,
                                   .n_bundle = c->n_bundle };
    struct spot_member_seen *member;
    struct spot_stage_times *layer;

    if (!observer)
        return;
    member = spot_xcalloc(spot_form_size(f), sizeof(*member));
    layer = spot_xcalloc((size_t)c->n_bundle, sizeof(*layer));
    for (uint32_t i = 0; i < spot_form_size(f); i++)
        member[i] = spot_coord_find(c, f->member[i])->seen;
    for (int b = 0; b < c->n_bundle; b++)
        layer[b] = c->vote[b].times;
    seen.member = member;
    seen.layer = layer;
    observer->committed(observer->user, &seen, &wish);
    grant(c, &wish);
    free(member);
    free(layer);
}

static double *get_times(struct spot_wire_in *in, size_t *n)
{
    double *s;

    *n = spot_get_count(in, sizeof(double));
    s = spot_xcalloc(*n, sizeof(*s));
    for (size_t i = 0; i < *n; i++) {
        s[i] = spot_get_f64(in);
        in->bad |= !(s[i] >= 0 && s[i] < 1e6);
    }
    return s;
}

/* 1 for an answer that makes no sense. */
int spot_coord_probed(struct spot_coord *c, struct spot_coord_peer *peer,
                      const struct spot_frame *frame)
{
    const struct spot_observer *const observer = c->options->observer;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_probe_seen seen = { .n_byte = frame->tag, .D = c->form.D };
    double *const p2p_s = get_times(&in, &seen.n_p2p), *const sum_s = get_times(&in, &seen.n_sum);
    const int bad = !spot_wire_in_done(&in);

    seen.p2p_s = p2p_s;
    seen.sum_s = sum_s;
    if (!bad && observer && frame->epoch == c->machine.epoch &&
        spot_form_position(&c->form, peer->id) == 0)
        observer->probed(observer->user, &seen);
    free(p2p_s);
    free(sum_s);
    return bad;
}
