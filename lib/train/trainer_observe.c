/* SPDX-License-Identifier: MIT */
/* Reports to an observer, and carries out its requests. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "train/model_wire.h"
#include "train/trainer_member_state.h"
#include "train/trainer_step_state.h"

static void grant(struct spot_trainer *c, const struct spot_wish *wish)
{
    struct spot_buf out = { 0 };

    if (wish->is_enough)
        spot_group_end(c->group);
    if (wish->grid.D) {
        c->want = wish->grid;
        spot_view_want_change(c->view);
    }
    if (wish->local_leaves)
        spot_group_notice_local(c->group, wish->local_leaves - 1);
    if (wish->probe_byte && !spot_view_wants_change(c->view)) {
        spot_put_u32(&out, wish->probe_rounds);
        spot_view_send_active(c->view, SPOT_MSG_PROBE, wish->probe_byte, out.data, out.n);
        spot_buf_release(&out);
    }
}

void spot_trainer_observe(struct spot_trainer *c, double step_s)
{
    const struct spot_observer *const observer = c->options->observer;
    const struct spot_form *const f = &c->form;
    struct spot_wish wish = { 0 };
    struct spot_step_seen seen = { .step = c->machine->round + 1,
                                   .grid = spot_form_grid(f),
                                   .n_commit = c->drift.n_commit,
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
        member[i] = spot_trainer_member(c, f->member[i])->seen;
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
        s[i] = spot_get_duration(in);
    }
    return s;
}

/* 1 for a malformed answer. */
int spot_trainer_probed(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame)
{
    const struct spot_observer *const observer = c->options->observer;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_probe_seen seen = { .n_byte = frame->tag, .D = c->form.D };
    double *const p2p_s = get_times(&in, &seen.n_p2p), *const sum_s = get_times(&in, &seen.n_sum);
    const int bad = !spot_wire_in_done(&in);

    seen.p2p_s = p2p_s;
    seen.sum_s = sum_s;
    if (!bad && observer && frame->epoch == c->machine->epoch &&
        spot_form_position(&c->form, id) == 0)
        observer->probed(observer->user, &seen);
    free(p2p_s);
    free(sum_s);
    return bad;
}
