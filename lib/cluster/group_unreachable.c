/* SPDX-License-Identifier: MIT */
/* Members that the coordinator reaches, but that cannot reach each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/group_state.h"
#include "cluster/suspect_io.h"
#include "common/clock.h"
#include "common/xalloc.h"

static bool is_placed(const struct spot_view *view, uint32_t id)
{
    for (size_t i = 0; i < view->n_placed; i++)
        if (view->placed[i] == id)
            return true;
    return false;
}

/* After a failed epoch only its members may accuse each other; an answer to REACH may name any
 * member. */
int spot_group_accuse(struct spot_group *g, const struct spot_peer *reporter,
                      struct spot_wire_in *in)
{
    const bool is_proving = !reporter->is_proved || reporter->is_on_trial;
    uint32_t left = spot_suspect_io_count(in);
    struct spot_mesh_suspect s;

    while (spot_suspect_io_get(in, &left, &s)) {
        const struct spot_peer *const of = spot_group_find(g, s.id);

        if (of &&
            (is_proving || (reporter->view->has_failed && is_placed(reporter->view, reporter->id) &&
                            is_placed(reporter->view, s.id))))
            spot_suspects_accuse(&g->suspects, reporter->name, of->name, s.has_answered, s.why,
                                 spot_clock_s());
    }
    return in->bad ? -1 : 0;
}

/* Probes the accused members from the coordinator. */
static void receive_witness(const struct spot_group *g, struct spot_suspect_member *member,
                            size_t n)
{
    struct spot_peer **peer = spot_xcalloc(n + 1, sizeof(struct spot_peer *));
    size_t *const of = spot_xcalloc(n + 1, sizeof(*of));
    bool *const missed = spot_xcalloc(n + 1, sizeof(*missed));
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        if (spot_suspects_is_named(&g->suspects, member[i].name)) {
            of[k] = i;
            peer[k++] = spot_group_find(g, member[i].id);
        }
    spot_group_witness(g, peer, k, missed);
    for (size_t i = 0; i < k; i++)
        member[of[i]].is_missed = missed[i];
    free(peer);
    free(of);
    free(missed);
}

static void report_new(struct spot_group *g, double now_s)
{
    for (size_t i = 0; i < g->n_peer; i++) {
        struct spot_peer *const peer = g->peer[i];
        const struct spot_suspect *const s =
            peer->id ? spot_suspects_find(&g->suspects, peer->name) : NULL;

        if (!s || s->aside_until_s <= 0 || s->aside_s < now_s)
            continue;
        g->options->warn("worker %s is set aside: %s; it gets no place for %g s", peer->name,
                         s->why, s->aside_until_s - s->aside_s);
        spot_peer_report_aside(peer, SPOT_MSG_ASIDE, s->why);
    }
}

size_t spot_group_judge(struct spot_group *g)
{
    const size_t n = spot_group_members(g);
    struct spot_suspect_member *member;
    double now_s;
    size_t n_aside, k = 0;

    if (!spot_suspects_has_news(&g->suspects))
        return 0;
    member = spot_xcalloc(n + 1, sizeof(*member));
    for (size_t v = 0; v < g->n_view; v++)
        for (size_t i = 0; i < g->view[v]->machine.n_member; i++) {
            const uint32_t id = g->view[v]->machine.member[i].id;

            member[k++] = (struct spot_suspect_member){ .name = spot_group_find(g, id)->name,
                                                        .id = id,
                                                        .has_place = is_placed(g->view[v], id) };
        }
    receive_witness(g, member, n);
    now_s = spot_clock_s();
    n_aside = spot_suspects_judge(&g->suspects, member, n, now_s);
    free(member);
    if (n_aside)
        report_new(g, now_s);
    return n_aside;
}

bool spot_peer_is_aside(const struct spot_peer *peer)
{
    return spot_suspects_is_aside(&peer->group->suspects, peer->name);
}

void spot_group_convict(struct spot_group *g, const char *name, const char *why)
{
    spot_suspects_convict(&g->suspects, name, why, spot_clock_s());
}

void spot_peer_convict(struct spot_peer *peer, const char *why)
{
    struct spot_group *const g = peer->group;

    spot_group_convict(g, peer->name, why);
    g->options->warn("worker %s is set aside for good: %s", peer->name, why);
    spot_peer_report_aside(peer, SPOT_MSG_ASIDE, why);
}

bool spot_peer_is_convicted(const struct spot_peer *peer)
{
    return spot_suspects_is_convicted(&peer->group->suspects, peer->name);
}
