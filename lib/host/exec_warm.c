/* SPDX-License-Identifier: MIT */
/* New nodes of a command that can wait start their program beside the running ranks, so that the
 * others need not wait for its imports. */
#include "common/clock.h"
#include "host/exec_job_state.h"

static const double patience_s = 30; /* limit for a node that does not become warm */

bool spot_exec_is_ready(const struct spot_exec_job *job, const struct spot_exec_member *member)
{
    if (member->is_slow)
        return false;
    return !job->holds || member->warmth == SPOT_EXEC_WARM || member->epoch ||
           *member->held.run_id || spot_clock_s() - member->joined_s > patience_s;
}

void spot_exec_heard_warm(struct spot_exec_job *job, struct spot_exec_member *member,
                          uint64_t warmth)
{
    if (warmth >= SPOT_EXEC_WARMTHS)
        return;
    member->warmth = (enum spot_exec_warmth)warmth;
    job->holds = job->holds || warmth != SPOT_EXEC_COLD;
}

/* Sent once to each new node. Members that have become warm may change the layout. */
void spot_exec_keep_warm(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    for (size_t i = 0; job->holds && i < m->n_member; i++) {
        struct spot_peer *const peer = spot_group_find(job->group, m->member[i].id);
        struct spot_exec_member *const member = spot_peer_data(peer);

        if (member->was_told_keep)
            continue;
        member->was_told_keep = true;
        spot_peer_send(peer, SPOT_MSG_EXEC_KEEP, 0, NULL, 0);
    }
    if (job->holds && m->phase == SPOT_PHASE_RUN && !spot_view_wants_change(job->view) &&
        spot_exec_would_change(job, job->view))
        spot_view_want_change(job->view);
}
