/* SPDX-License-Identifier: MIT */
/* The loop of an agent. */
#include "cluster/agent.h"

#include <stdlib.h>

#include "cluster/agent_state.h"

int spot_agent_send(struct spot_agent *a, uint32_t type, uint64_t tag, struct spot_buf *out_take,
                    struct spot_err *err)
{
    const int rc = spot_mesh_report(a->mesh, type, a->epoch, tag, out_take->data, out_take->n, err);

    spot_buf_release(out_take);
    return rc;
}

int spot_agent_enter(struct spot_agent *a, const struct spot_mesh_peer *peer, size_t n_peer,
                     struct spot_err *err)
{
    return spot_mesh_enter(a->mesh, a->epoch, a->key, a->id, peer, n_peer, err);
}

struct spot_frame *spot_agent_await(struct spot_agent *a, uint32_t type, uint64_t tag,
                                    struct spot_err *err)
{
    struct spot_frame *const frame = spot_mesh_order(a->mesh, -1, err);

    if (!frame || (frame->type == type && frame->tag == tag))
        return frame;
    a->pending = frame;
    spot_err_set(err, SPOT_EPREEMPTED, "the epoch ended while waiting for an order");
    return NULL;
}

static bool is_orphan(const struct spot_agent *a, const struct spot_err *err)
{
    return err->code == SPOT_ESYS && !a->was_dismissed && spot_mesh_is_orphan(a->mesh);
}

/* Carry out orders until the job ends or the coordinator is lost. Orders received before the loss
 * count even if sending fails, since one of them may be the end of the job. */
static int obey(struct spot_agent *a, struct spot_err *err)
{
    while (!a->is_done) {
        struct spot_frame *frame = a->pending;
        int rc;

        a->pending = NULL;
        if (!frame && a->workload->work && a->workload->work(a->job, err) && !is_orphan(a, err))
            return -1;
        if (!frame)
            frame = spot_mesh_order(a->mesh, -1, err);
        if (!frame)
            return -1;
        rc = spot_agent_obey(a, frame, err);
        free(frame);
        if (rc && !is_orphan(a, err))
            return -1;
    }
    return 0;
}

static int join_and_obey(struct spot_agent *a, struct spot_err *err)
{
    for (;;) {
        if (spot_agent_join(a, err))
            return -1;
        if (!obey(a, err))
            return 0;
        if (!is_orphan(a, err) || (a->workload->orphaned && a->workload->orphaned(a->job, err)))
            return -1;
        spot_agent_leave(a); /* the state is kept for a coordinator that restarts */
    }
}

int spot_agent_run(struct spot_agent *a, struct spot_err *err)
{
    const char *const key_file = a->options->key_file;
    int rc;

    if (key_file && !(a->tls = spot_tls_context_load(key_file, err)))
        return -1;
    rc = join_and_obey(a, err);
    if (rc && err->code == SPOT_ESYS && spot_agent_was_noticed())
        spot_err_set(err, SPOT_EPREEMPTED, "left after a notice");
    spot_agent_leave(a);
    spot_tls_context_free(a->tls);
    a->tls = NULL;
    return rc;
}
