/* SPDX-License-Identifier: MIT */
/* Sends weights from memory to followers of the job, before the next step changes them. */
#include "common/hash.h"
#include "train/model_wire.h"
#include "train/worker_state.h"

static int show(struct spot_worker *w, uint32_t epoch, const struct spot_bundle *bundle,
                struct spot_err *err)
{
    const float *const weights = bundle->plane[SPOT_PLANE_MASTER];
    const size_t n_byte = bundle->arena.n_elem * sizeof(*weights);
    struct spot_buf out = { 0 };

    spot_put_i64(&out, bundle->step);
    spot_put_u64(&out, spot_hash64(weights, n_byte));
    spot_buf_add(&out, weights, n_byte);
    return spot_mesh_submit(w->agent.mesh, SPOT_MSG_SHOWN, epoch, (uint64_t)bundle->index, &out,
                            err);
}

int spot_worker_show(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t n = spot_get_count(&in, 4);

    if (spot_worker_sync(w, err))
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t b = spot_get_bundle(&in, (uint32_t)w->n_bundle);

        if (in.bad)
            return spot_err_set(err, SPOT_ESYS,
                                "malformed order to send weights from the coordinator");
        if (w->bundle[b] && w->bundle[b]->step == (int64_t)frame->tag &&
            show(w, frame->epoch, w->bundle[b], err))
            return -1;
    }
    return 0;
}
