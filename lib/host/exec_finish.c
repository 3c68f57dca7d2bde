/* SPDX-License-Identifier: MIT */
/* At the end of the job the last commit is put where the script looks for it on every node, not
 * only on the node that wrote it. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "host/exec_job_state.h"

static void ask(struct spot_exec_job *job, struct spot_exec_member *x)
{
    struct spot_buf out = { 0 };

    spot_state_id_put(&out, &job->states.newest.id);
    spot_put_u32(&out, job->states.newest.world);
    spot_peer_send(spot_group_find(job->group, x->id), SPOT_MSG_EXEC_LAY, 0, out.data, out.n);
    spot_buf_release(&out);
    x->laid = SPOT_EXEC_LAID_ASKED;
}

/* The member at i if it is to get the commit, else NULL. */
static struct spot_exec_member *heir(const struct spot_exec_job *job, size_t i)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_member *const x = spot_exec_member_at(job, i);

    return x && x->entered == m->epoch && !m->member[i].is_leaving ? x : NULL;
}

static size_t hand_out(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    size_t n_left = 0;

    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = heir(job, i);
        size_t n;

        if (!x || x->laid >= SPOT_EXEC_LAID)
            continue;
        n = spot_exec_bring_newest(job, x);
        if (!n && x->laid == SPOT_EXEC_LAID_NOT)
            ask(job, x);
        n_left += n + 1;
    }
    return n_left;
}

/* True while a node receives or lays out the commit, however long it takes: a lost node leaves the
 * job. A transfer repeated after a failure does not count. */
static bool is_under_way(const struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    for (size_t i = 0; i < job->states.n_order; i++)
        if (job->states.order[i].move.serial <= job->finish_serial)
            return true;
    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = heir(job, i);

        if (x && x->laid == SPOT_EXEC_LAID_ASKED)
            return true;
    }
    return false;
}

static void list(const struct spot_exec_job *job, bool has_it, char *text, size_t n)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    size_t at = 0;

    *text = '\0';
    for (size_t i = 0; i < m->n_member && at < n; i++) {
        const struct spot_exec_member *const x = heir(job, i);

        if (x && (x->laid == SPOT_EXEC_LAID) == has_it)
            at += (size_t)snprintf(text + at, n - at, "%s%s", at ? ", " : "",
                                   spot_peer_name(spot_group_find(job->group, x->id)));
    }
}

static void say(const struct spot_exec_job *job)
{
    char what[SPOT_STATE_DESCRIBED], nodes[SPOT_WHY_MAX];

    spot_exec_describe_newest(job, what);
    list(job, false, nodes, sizeof(nodes));
    if (*nodes)
        job->options->group.warn("%s is not on %s", what, nodes);
    list(job, true, nodes, sizeof(nodes));
    if (job->options->note)
        job->options->note("done: %s is on %s", what, *nodes ? nodes : "no node");
}

bool spot_exec_hand_out(struct spot_exec_job *job)
{
    size_t n;

    if (spot_group_is_over(job->group))
        return true;
    if (!job->options->hands_out || !job->states.newest.is_set) {
        if (job->options->note)
            job->options->note("done: all ranks have ended");
        return true;
    }
    n = hand_out(job);
    if (job->finish_until_s <= 0 || n < job->n_unfinished)
        job->finish_serial = job->states.last_serial;
    if (job->finish_until_s <= 0 || n < job->n_unfinished || is_under_way(job))
        job->finish_until_s = spot_clock_s() + job->options->finish_s;
    job->n_unfinished = n;
    if (n && spot_clock_s() < job->finish_until_s)
        return false;
    say(job);
    return true;
}

void spot_exec_heard_laid(struct spot_exec_job *job, struct spot_peer *peer,
                          const struct spot_frame *frame)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_member *const member = spot_peer_data(peer);
    char why[SPOT_WHY_MAX];

    spot_get_plain(&in, why, sizeof(why));
    if (!spot_wire_in_done(&in)) {
        spot_peer_drop(peer, "where its last commit is");
        return;
    }
    if (member->laid != SPOT_EXEC_LAID_ASKED)
        return;
    member->laid = *why ? SPOT_EXEC_LAID_FAILED : SPOT_EXEC_LAID;
    if (*why)
        job->options->group.warn("node %s: %s", spot_peer_name(peer), why);
}
