/* SPDX-License-Identifier: MIT */
/* Carries out the coordinator's orders, and reports failed epochs. */
#include "cluster/agent_state.h"

static int on_quiesce(struct spot_agent *a, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    a->epoch = frame->epoch;
    if (a->workload->quiesced)
        a->workload->quiesced(a->job);
    if (a->workload->report)
        a->workload->report(a->job, &out);
    spot_agent_put_suspects(a, &out);
    return spot_agent_send(a, SPOT_MSG_REPORT, 0, &out, err);
}

static int on_form(struct spot_agent *a, const struct spot_frame *frame, struct spot_err *err)
{
    int rc;

    a->epoch = frame->epoch;
    rc = a->workload->form(a->job, frame, err);
    if (rc)
        return rc < 0 ? -1 : 0;
    return spot_mesh_report(a->mesh, SPOT_MSG_READY, a->epoch, 0, NULL, 0, err);
}

int spot_agent_obey(struct spot_agent *a, const struct spot_frame *frame, struct spot_err *err)
{
    switch (frame->type) {
    case SPOT_MSG_QUIESCE:
        return on_quiesce(a, frame, err);
    case SPOT_MSG_FORM:
        return on_form(a, frame, err);
    case SPOT_MSG_REACH:
        return spot_agent_reach(a, frame, err);
    case SPOT_MSG_ASIDE:
    case SPOT_MSG_DISMISSED:
        return spot_agent_set_aside(a, frame, err);
    case SPOT_MSG_FINISH:
        a->is_done = true;
        return 0;
    case SPOT_MSG_LEAVE:
        if (spot_agent_was_noticed() && a->workload->report_left) {
            a->workload->report_left(a->job, err);
            return -1;
        }
        return spot_err_set(err, SPOT_EPREEMPTED,
                            spot_agent_was_noticed() ? "left after a notice; nothing is lost"
                            : !frame->tag
                                ? "left: the job was stopped, its state is safe"
                                : "left: the job was stopped, and not all of its work is durable");
    default:
        return a->workload->order(a->job, frame, err);
    }
}

/* --- reporting failures ------------------------------------------------------- */

static int report_why(struct spot_agent *a, uint32_t type, uint64_t tag, const struct spot_err *why,
                      struct spot_err *err)
{
    struct spot_buf out = { 0 };

    spot_put_text(&out, why->msg);
    if (type == SPOT_MSG_BROKEN)
        spot_agent_put_suspects(a, &out);
    return spot_agent_send(a, type, tag, &out, err);
}

int spot_agent_report(struct spot_agent *a, const struct spot_err *why, struct spot_err *err)
{
    if (why->code == SPOT_EPREEMPTED)
        return 0;
    if (why->code == SPOT_ESYS && !a->is_unfit)
        return report_why(a, SPOT_MSG_BROKEN, 0, why, err);
    if (report_why(a, SPOT_MSG_FAILED, 0, why, err))
        return -1;
    return a->is_unfit ? spot_err_set(err, SPOT_EINFEASIBLE, "cannot continue: %.400s", why->msg)
                       : 0;
}

int spot_agent_report_part(struct spot_agent *a, uint64_t what, const struct spot_err *why,
                           struct spot_err *err)
{
    return report_why(a, SPOT_MSG_FAILED, what, why, err);
}

void spot_agent_set_unfit(struct spot_agent *a, bool is_unfit)
{
    a->is_unfit = is_unfit;
}
