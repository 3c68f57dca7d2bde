/* SPDX-License-Identifier: MIT */
/* News of the job, one line for each change: nodes that joined or left, and the commit from which
 * the ranks continue. */
#include <stdio.h>
#include <string.h>

#include "host/exec_job_state.h"

enum { FIRST_S = 10 }; /* wait for nodes before it is reported */

void spot_exec_describe_newest(const struct spot_exec_job *job, char text[SPOT_STATE_DESCRIBED])
{
    const struct spot_exec_point *const newest = &job->states.newest;

    if (newest->is_set)
        spot_state_describe(newest->id.step, &newest->saved, text);
    else
        snprintf(text, SPOT_STATE_DESCRIBED, "scratch");
}

static void add_change(struct spot_exec_job *job, const char *name, const char *what)
{
    const size_t n = strlen(job->changes);

    snprintf(job->changes + n, sizeof(job->changes) - n, "%snode %s %s", n ? ", " : "", name, what);
}

void spot_exec_news_gone(struct spot_exec_job *job, struct spot_peer *peer)
{
    const struct spot_exec_member *const x = spot_peer_data(peer);
    const struct spot_member *const m =
        job->view && spot_peer_id(peer)
            ? spot_machine_find(spot_view_machine(job->view), spot_peer_id(peer))
            : NULL;

    if (m && x->has_had_place && !job->is_finishing && !spot_group_is_over(job->group) &&
        !spot_group_is_stopping(job->group))
        add_change(job, spot_peer_name(peer), m->is_leaving ? "left" : "lost");
}

static void put_start(const struct spot_exec_job *job, size_t n)
{
    const struct spot_exec_states *const s = &job->states;
    const bool is_found =
        s->newest.is_set && s->found.is_set && !spot_state_id_compare(&s->newest.id, &s->found.id);
    const char *const nodes = n == 1 ? "node" : "nodes";
    char from[SPOT_STATE_DESCRIBED];

    spot_exec_describe_newest(job, from);
    if (job->is_kept)
        job->options->note("%zu %s went on meanwhile, in round %lu", n, nodes,
                           (unsigned long)job->restart_count);
    else if (is_found)
        job->options->note("%zu %s: begins from %s of node %s", n, nodes, from, s->found_by);
    else
        job->options->note("%zu %s: begins from %s", n, nodes, from);
}

void spot_exec_news_round(struct spot_exec_job *job, struct spot_exec_member *const *member,
                          size_t n)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    char from[SPOT_STATE_DESCRIBED];

    for (size_t i = 0; i < m->n_member; i++) { /* reported once, even if leaving takes long */
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (!x || !m->member[i].is_leaving || !x->has_had_place)
            continue;
        add_change(job, spot_peer_name(spot_group_find(job->group, x->id)), "leaves");
        x->has_had_place = false;
    }
    for (size_t i = 0; i < n; i++) {
        if (job->has_begun && !member[i]->has_had_place)
            add_change(job, spot_peer_name(spot_group_find(job->group, member[i]->id)), "joined");
        member[i]->has_had_place = true;
    }
    spot_exec_describe_newest(job, from);
    if (job->options->note && !job->has_begun)
        put_start(job, n);
    else if (job->options->note && (!job->is_kept || *job->changes))
        job->options->note("%s: %zu %s, %s %s", *job->changes ? job->changes : "another round", n,
                           n == 1 ? "node" : "nodes", job->is_kept ? "which go on; saved:" : "from",
                           from);
    job->has_begun = true;
    *job->changes = '\0';
}

void spot_exec_news_wait(struct spot_exec_job *job)
{
    const struct spot_exec_options *const o = job->options;
    const size_t n = spot_view_placeable(job->view);
    char text[SPOT_ELAPSED_TEXT];

    if (spot_view_machine(job->view)->phase != SPOT_PHASE_WAIT || n >= o->n_min)
        job->wait = (struct spot_wait){ 0 };
    else if (spot_wait_is_due(&job->wait, o->late_s > 0 ? o->late_s : FIRST_S) && o->note)
        o->note("waiting for nodes for %s: %zu of %lu are here",
                spot_elapsed_text(spot_wait_s(&job->wait), text), n, (unsigned long)o->n_min);
}
