/* SPDX-License-Identifier: MIT */
/* Measures the cost of messages between members, with the communicator of the steps. */
#include <stdlib.h>

#include "comm/comm.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "train/observe.h"
#include "train/worker_state.h"

struct probe {
    struct spot_worker *worker;
    int64_t *data; /* [n_byte / 8] */
    size_t n_byte;
    uint32_t n_round;
    uint64_t tag;
};

/* One round trip between the members at positions 0 and 1. */
static int ping(struct probe *p, double *s, struct spot_err *err)
{
    const struct spot_worker *const w = p->worker;
    struct spot_comm_piece piece = { .peer = w->form.member[w->position == 0],
                                     .type = SPOT_MSG_PROBING,
                                     .data = p->data,
                                     .n_byte = p->n_byte };
    const double start_s = spot_clock_s();

    for (int turn = 0; turn < 2; turn++) {
        piece.tag = p->tag++;
        piece.is_send = turn == w->position;
        if (w->comm->kind->exchange(w->comm, &piece, 1, NULL, err))
            return -1;
    }
    *s = (spot_clock_s() - start_s) / 2;
    return 0;
}

static int add(struct probe *p, double *s, struct spot_err *err)
{
    const struct spot_worker *const w = p->worker;
    const struct spot_comm_sum sum = { .tag = p->tag++,
                                       .data = p->data,
                                       .n = p->n_byte / sizeof(int64_t) };
    const double start_s = spot_clock_s();
    const int rc = w->comm->kind->sum(w->comm, SPOT_COMM_I64, &sum, 1, NULL, err);

    *s = spot_clock_s() - start_s;
    spot_mesh_keep(w->agent.mesh);
    return rc;
}

static int rounds(struct probe *p, bool is_in,
                  int (*one)(struct probe *, double *, struct spot_err *), struct spot_buf *out,
                  struct spot_err *err)
{
    const uint32_t n = is_in ? p->n_round : 0;

    spot_put_u32(out, n);
    for (uint32_t i = 0; i < n; i++) {
        double s;

        if (one(p, &s, err))
            return -1;
        spot_mesh_progress(p->worker->agent.mesh);
        spot_put_f64(out, s);
    }
    return 0;
}

int spot_worker_probe(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct probe p = { .worker = w, .n_byte = frame->tag / sizeof(int64_t) * sizeof(int64_t) };
    struct spot_buf out = { 0 };
    struct spot_err why = { 0 };
    int rc;

    p.n_round = spot_get_u32(&in);
    if (!spot_wire_in_done(&in) || !p.n_byte || frame->tag > SPOT_PROBE_BYTE_MAX ||
        p.n_round > SPOT_PROBE_ROUNDS_MAX)
        return spot_err_set(err, SPOT_EDATA, "malformed probe from the coordinator");
    /* a device's communicator moves device memory, so nothing is measured */
    if (frame->epoch != w->agent.epoch || !w->comm || w->comm->kind->is_device || w->position < 0)
        return 0;
    p.data = spot_xcalloc(p.n_byte, 1);
    rc = rounds(&p, w->position < 2 && spot_form_size(&w->form) > 1, ping, &out, &why);
    p.tag = 0; /* equal on all replicas, including those that took no part in the round trips */
    if (!rc)
        rc = rounds(
            &p, spot_form_place(&w->form, w->position).p == 0 && spot_form_replicas(&w->form) > 1,
            add, &out, &why);
    free(p.data);
    if (!rc)
        return spot_agent_send(&w->agent, SPOT_MSG_PROBED, frame->tag, &out, err);
    spot_buf_release(&out);
    return spot_worker_report(w, &why, err);
}
