/* SPDX-License-Identifier: MIT */
/* The status document of a running job. */
#include <stdlib.h>

#include "cluster/group_state.h"
#include "common/json_writer.h"
#include "common/xalloc.h"

static const char *phase_name(enum spot_phase phase)
{
    static const char *const name[] = { [SPOT_PHASE_WAIT] = "wait",
                                        [SPOT_PHASE_QUIESCE] = "quiesce",
                                        [SPOT_PHASE_FORM] = "form",
                                        [SPOT_PHASE_MIGRATE] = "migrate",
                                        [SPOT_PHASE_RUN] = "run" };

    return name[phase];
}

const char *spot_group_role_name(enum spot_group_role role)
{
    static const char *const name[] = { [SPOT_IS_ACTIVE] = "active",
                                        [SPOT_IS_SOURCE] = "source",
                                        [SPOT_IS_SPARE] = "spare",
                                        [SPOT_IS_WAITING] = "waiting",
                                        [SPOT_IS_ASIDE] = "aside" };

    return name[role];
}

/* The role of a member in the document: a member that only mirrors counts as a spare, although it
 * votes. */
static enum spot_group_role role_of(const struct spot_view *view, const struct spot_member *m,
                                    const struct spot_peer *peer, bool has_place)
{
    if (!has_place && spot_peer_is_aside(peer))
        return SPOT_IS_ASIDE;
    if (!view->is_formed || view->machine.phase == SPOT_PHASE_WAIT)
        return SPOT_IS_WAITING;
    return has_place                     ? SPOT_IS_ACTIVE
           : m->role == SPOT_ROLE_SOURCE ? SPOT_IS_SOURCE
                                         : SPOT_IS_SPARE;
}

static void put_member(const struct spot_view *view, const struct spot_member *m,
                       struct spot_group_census *census, struct spot_jw *jw)
{
    const struct spot_group *const g = view->group;
    const struct spot_peer *const peer = spot_group_find(g, m->id);
    bool has_place = view->is_formed && view->machine.phase != SPOT_PHASE_WAIT;
    enum spot_group_role role;

    spot_jw_object(jw, NULL);
    spot_jw_int(jw, "member", m->id);
    spot_jw_str(jw, "name", peer->name);
    if (has_place)
        has_place = g->workload->status_member ? g->workload->status_member(g->job, peer, jw)
                                               : m->role == SPOT_ROLE_ACTIVE;
    role = role_of(view, m, peer, has_place);
    spot_jw_str(jw, "role", spot_group_role_name(role));
    spot_jw_bool(jw, "leaving", m->is_leaving);
    spot_jw_end(jw);
    census->n[role]++;
    census->n_leaving += m->is_leaving;
}

static void put_members(const struct spot_group *g, struct spot_group_census *census,
                        struct spot_jw *jw)
{
    spot_jw_array(jw, "members");
    for (size_t v = 0; v < g->n_view; v++)
        for (size_t i = 0; i < g->view[v]->machine.n_member; i++)
            put_member(g->view[v], &g->view[v]->machine.member[i], census, jw);
    spot_jw_end(jw);
}

/* Members that get no place for now, though they may be connected. */
static void put_aside(const struct spot_suspects *suspects, struct spot_jw *jw)
{
    spot_jw_array(jw, "aside");
    for (size_t i = 0; i < suspects->n; i++) {
        const struct spot_suspect *const s = &suspects->suspect[i];

        if (s->aside_until_s <= 0)
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "name", s->name);
        spot_jw_str(jw, "why", s->why);
        spot_jw_int(jw, "times", s->n_aside);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* Oldest first. */
static void put_events(const struct spot_journal *j, struct spot_jw *jw)
{
    const size_t n = j->n_recent < SPOT_RECENT_MAX ? j->n_recent : SPOT_RECENT_MAX;

    spot_jw_array(jw, "events");
    for (size_t i = j->n_recent - n; i < j->n_recent; i++) {
        const struct spot_recent *r = &j->recent[i % SPOT_RECENT_MAX];

        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "event", r->event);
        spot_jw_real(jw, "time_s", r->time_s);
        spot_jw_int(jw, "epoch", r->epoch);
        spot_jw_int(jw, "step", r->step);
        if (*r->name)
            spot_jw_str(jw, "name", r->name);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* Phase, epoch and round are those of the first view. */
void spot_group_status(struct spot_group *g, struct spot_group_census *census, struct spot_buf *out)
{
    const struct spot_machine *const m = &spot_group_view(g, 0)->machine;
    char *text = NULL;
    size_t n = 0;
    FILE *memory = spot_xmemory_open(&text, &n);
    struct spot_group_census all = { 0 };
    struct spot_jw jw;

    spot_jw_init(&jw, memory, true);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "schema", "spot.status/1");
    spot_jw_real(&jw, "time_s", spot_journal_time(&g->journal));
    spot_jw_str(&jw, "phase", phase_name(m->phase));
    spot_jw_int(&jw, "epoch", m->epoch);
    spot_jw_int(&jw, "step", m->round);
    if (g->workload->status)
        g->workload->status(g->job, &jw);
    if (g->has_plan)
        spot_jw_real(&jw, "plan_time_s", g->force_time_s);
    spot_jw_bool(&jw, "suspended", g->is_suspended);
    put_members(g, &all, &jw);
    put_aside(&g->suspects, &jw);
    put_events(&g->journal, &jw);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(memory);
    spot_buf_add(out, text, n);
    free(text);
    if (census)
        *census = all;
}
