/* SPDX-License-Identifier: MIT */
/* All nodes of an exec job assign samples by one plan: the first one reported to the coordinator.
 */
#include "host/exec_job_state.h"
#include "host/exec_ledger.h"

static int log_plan(struct spot_exec_job *job, struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_journal *const journal = spot_group_journal(job->group);
    struct spot_jw *const jw = spot_journal_begin(journal, "ledger", m->epoch, m->round);

    if (jw) {
        spot_jw_int(jw, "dataset_size", job->plan.n_sample);
        spot_jw_int(jw, "global_batch", job->plan.batch);
        spot_jw_int(jw, "seed", job->plan.seed);
        spot_jw_str(jw, "rest", spot_ledger_rest_name(job->plan.rest));
        spot_jw_str(jw, "order", job->plan.is_sequential ? "sequential" : "shuffled");
    }
    return spot_journal_end(journal, err);
}

int spot_exec_heard_plan(struct spot_exec_job *job, struct spot_peer *peer,
                         const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_ledger_plan plan;
    struct spot_buf out = { 0 };
    int rc = 0;

    spot_exec_get_plan(&in, &plan);
    if (!spot_wire_in_done(&in)) {
        spot_peer_drop(peer, "the plan of samples");
        return 0;
    }
    if (!job->has_plan) {
        job->plan = plan;
        job->has_plan = true;
        rc = log_plan(job, err);
    }
    spot_exec_put_plan(&out, &job->plan);
    spot_peer_send(peer, SPOT_MSG_EXEC_PLAN, 0, out.data, out.n);
    spot_buf_release(&out);
    return rc;
}
