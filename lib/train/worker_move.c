/* SPDX-License-Identifier: MIT */
/* A new epoch's moves of state: from member to member, from the store, or made anew. */
#include <stdlib.h>

#include "checkpoint/bundle_io.h"
#include "common/xalloc.h"
#include "engine/initial_weights.h"
#include "train/worker_state.h"

static void hold(struct spot_worker *w, struct spot_bundle *bundle_take)
{
    spot_bundle_free(w->bundle[bundle_take->index]);
    w->bundle[bundle_take->index] = bundle_take;
}

/* Packed once, whoever it goes to. */
static struct spot_parcel *parcel_of(struct spot_worker *w, uint32_t index, struct spot_err *err)
{
    const struct spot_bundle *bundle = w->bundle[index];
    struct spot_parcel *p = w->parcel;

    while (p && p->bundle != index)
        p = p->next;
    if (p)
        return p;
    if (!bundle || bundle->step != w->form.step) {
        spot_err_set(err, SPOT_EDATA, "asked for bundle %u of step %lld, not held here",
                     (unsigned)index, (long long)w->form.step);
        return NULL;
    }
    p = spot_xcalloc(1, sizeof(*p));
    p->bundle = index;
    p->data = spot_bundle_pack(bundle, &p->n_byte, err);
    if (!p->data) {
        free(p);
        return NULL;
    }
    p->next = w->parcel;
    w->parcel = p;
    return p;
}

static int send_bundle(struct spot_worker *w, const struct spot_transfer *t, struct spot_err *err)
{
    const struct spot_parcel *p = parcel_of(w, t->bundle, err);

    return p ? spot_mesh_lend(w->agent.mesh, t->to, SPOT_MSG_BUNDLE, t->bundle, p->data, p->n_byte,
                              err)
             : -1;
}

void spot_worker_end_move(struct spot_worker *w)
{
    struct spot_parcel *p;

    if (w->parcel && w->agent.mesh)
        spot_mesh_keep(w->agent.mesh);
    while ((p = w->parcel)) {
        w->parcel = p->next;
        free(p->data);
        free(p);
    }
}

int spot_worker_accept(struct spot_worker *w, struct spot_frame *frame_take, uint32_t index,
                       int64_t step, struct spot_err *err)
{
    struct spot_bundle *const bundle = spot_bundle_unpack(
        &w->config.shape, (int)index, step, frame_take->data, frame_take->n_byte, err);

    free(frame_take);
    if (!bundle) {
        spot_agent_set_unfit(&w->agent, err->code == SPOT_ESYS);
        return -1;
    }
    spot_mesh_progress(w->agent.mesh);
    hold(w, bundle);
    return 0;
}

static int take_bundle(struct spot_worker *w, const struct spot_transfer *t, struct spot_err *err)
{
    struct spot_bundle *bundle = NULL;
    struct spot_frame *frame;

    if (t->origin == SPOT_FROM_NOTHING) {
        bundle = spot_xcalloc(1, sizeof(*bundle));
        if (spot_bundle_init(bundle, &w->config.shape, (int)t->bundle, err)) {
            free(bundle);
            spot_agent_set_unfit(&w->agent, true);
            return -1;
        }
        spot_bundle_start(bundle, &w->config.shape, w->config.seed);
        hold(w, bundle);
        return 0;
    }
    frame = t->origin == SPOT_FROM_STORE
                ? spot_agent_await(&w->agent, SPOT_MSG_RESTORE, t->bundle, err)
                : spot_mesh_recv(w->agent.mesh, t->from, SPOT_MSG_BUNDLE, t->bundle, err);
    return frame ? spot_worker_accept(w, frame, t->bundle, w->form.step, err) : -1;
}

/* Sends are queued, so all of them first and nobody waits for each other. */
int spot_worker_move(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_form *f = &w->form;

    for (size_t i = 0; i < f->n_transfer; i++)
        if (f->transfer[i].origin == SPOT_FROM_MEMBER && f->transfer[i].from == w->agent.id &&
            send_bundle(w, &f->transfer[i], err))
            return -1;
    for (size_t i = 0; i < f->n_transfer; i++)
        if (f->transfer[i].to == w->agent.id && take_bundle(w, &f->transfer[i], err))
            return -1;
    return 0;
}
