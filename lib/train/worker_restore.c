/* SPDX-License-Identifier: MIT */
/* Restores bundles that this worker needs at the start of an epoch and no member holds: initial
 * weights are drawn from the seed; durable state, and given weights, are read from the
 * coordinator's files if they are accessible here, else requested from it. */
#include <stdlib.h>

#include "checkpoint/bundle_io.h"
#include "engine/initial_weights.h"
#include "train/worker_state.h"

static int make_anew(struct spot_worker *w, uint32_t index, struct spot_err *err)
{
    struct spot_bundle *const bundle = spot_bundle_new(&w->config.shape, (int)index, err);

    if (!bundle) {
        spot_agent_set_unfit(&w->agent, true);
        return -1;
    }
    spot_bundle_start(bundle, &w->config.shape, w->config.seed);
    spot_worker_hold(w, bundle);
    return 0;
}

/* False if the bundle cannot be read here, for any reason; then it is requested from the
 * coordinator. */
static bool read_here(struct spot_worker *w, const struct spot_transfer *t)
{
    struct spot_bundle *bundle;
    struct spot_err why;

    bundle = t->origin == SPOT_FROM_STORE
                 ? spot_state_sources_restore(&w->sources, &w->config.shape, (int)t->bundle,
                                              w->form.step, w->form.manifest, w->objects, &why)
                 : spot_state_sources_load(&w->sources, &w->config.shape, (int)t->bundle, &why);
    if (!bundle)
        return false;
    spot_worker_hold(w, bundle);
    return true;
}

static int take(struct spot_worker *w, uint32_t index, struct spot_err *err)
{
    struct spot_frame *const frame = spot_agent_await(&w->agent, SPOT_MSG_RESTORE, index, err);
    struct spot_bundle *bundle;

    if (!frame)
        return -1;
    bundle = spot_bundle_unpack(&w->config.shape, (int)index, w->form.step, frame->data,
                                frame->n_byte, err);
    free(frame);
    if (!bundle) {
        spot_agent_set_unfit(&w->agent, err->code == SPOT_ESYS);
        return -1;
    }
    spot_worker_hold(w, bundle);
    return 0;
}

static bool is_to_read(const struct spot_worker *w, const struct spot_transfer *t)
{
    return t->to == w->agent.id && (t->origin == SPOT_FROM_STORE || t->origin == SPOT_FROM_WEIGHTS);
}

/* Request all bundles from transfer i on before waiting for any of them. */
static int ask_for_rest(struct spot_worker *w, size_t i, struct spot_err *err)
{
    const struct spot_form *const f = &w->form;

    for (size_t k = i; k < f->n_transfer; k++)
        if (is_to_read(w, &f->transfer[k]) &&
            spot_mesh_report(w->agent.mesh, SPOT_MSG_UNREAD, w->agent.epoch, f->transfer[k].bundle,
                             NULL, 0, err))
            return -1;
    for (size_t k = i; k < f->n_transfer; k++)
        if (is_to_read(w, &f->transfer[k]) && take(w, f->transfer[k].bundle, err))
            return -1;
    return 0;
}

int spot_worker_restore(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_form *const f = &w->form;

    for (size_t i = 0; i < f->n_transfer; i++)
        if (f->transfer[i].to == w->agent.id && f->transfer[i].origin == SPOT_FROM_NOTHING &&
            make_anew(w, f->transfer[i].bundle, err))
            return -1;
    for (size_t i = 0; i < f->n_transfer; i++)
        if (is_to_read(w, &f->transfer[i]) && !read_here(w, &f->transfer[i]))
            return ask_for_rest(w, i, err);
    return 0;
}
