/* SPDX-License-Identifier: MIT */
/* Tests whether members reach each other before they get places. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/group_state.h"
#include "comm/probe.h"
#include "common/clock.h"
#include "common/xalloc.h"

enum { TRIALS_MAX = 3, SMALL_GROUP = 32, PROBES_MAX = 8 };

static const double witness_s = 0.5;
static const double patience_s = 20;   /* for a member that joins under a suspected name */
static const double dismissed_s = 600; /* how long a dismissed name is remembered */

/* --- addresses ----------------------------------------------------------- */

/* A worker announces its own address, but peers may need another one. If both workers come from the
 * same host or router, it is the announced address; otherwise the address seen on the worker's
 * connection; and if that one is the coordinator's own machine, the address under which `to`
 * reached the coordinator. */
void spot_peer_address(const struct spot_peer *peer, const struct spot_peer *to, char *text)
{
    struct spot_endpoint at = peer->at;
    const struct spot_endpoint *from = &peer->seen_at;

    if (to && from->kind != SPOT_ENDPOINT_UNIX && spot_endpoint_is_private(from))
        from = &to->ours_at;
    if (at.kind != SPOT_ENDPOINT_UNIX && from->kind != SPOT_ENDPOINT_UNIX &&
        !(to && spot_endpoint_is_same_host(&peer->seen_at, &to->seen_at))) {
        at.kind = from->kind;
        at.scope = from->scope;
        memcpy(at.ip, from->ip, sizeof(at.ip));
    }
    spot_endpoint_print(&at, text);
}

void spot_group_witness(const struct spot_group *g, struct spot_peer *const *peer, size_t n,
                        bool *missed)
{
    const struct spot_probe_config config = { .tls = g->tls,
                                              .key = g->key,
                                              .type_probe = SPOT_MSG_KNOCK,
                                              .type_pong = SPOT_MSG_PONG,
                                              .limit_s = witness_s };
    struct spot_mesh_peer *const at = spot_xcalloc(n + 1, sizeof(*at));
    struct spot_mesh_suspect *const found = spot_xcalloc(n + 1, sizeof(*found));
    size_t n_missed = 0;

    for (size_t i = 0; i < n; i++) {
        at[i].id = peer[i]->id;
        spot_peer_address(peer[i], NULL, at[i].address);
    }
    (void)spot_probe(&config, 0, at, n, found);
    for (size_t i = 0; i < n; i++)
        n_missed += found[i].id != 0;
    for (size_t i = 0; i < n; i++)
        missed[i] = found[i].id && n_missed < n;
    free(at);
    free(found);
}

/* --- questions and answers ------------------------------------------------ */

/* Asks a member to probe its elders, the members with smaller ids, to which it would connect. In a
 * large group, where it connects to few, it probes at most PROBES_MAX of them, and each member
 * probes other ones, so that n members make about n probes, not n * n. */
static void ask(struct spot_group *g, struct spot_peer *peer)
{
    const struct spot_machine *const m = &peer->view->machine;
    const bool is_large = m->n_member > SMALL_GROUP && !peer->is_on_trial;
    const size_t every = is_large ? (m->n_member - 1) / PROBES_MAX + 1 : 1;
    struct spot_buf list = { 0 }, out = { 0 };
    char address[SPOT_ADDRESS_MAX + 8];
    uint32_t n = 0;

    for (size_t i = peer->id % every; i < m->n_member; i += every) {
        const struct spot_peer *const elder = spot_group_find(g, m->member[i].id);

        if (elder->id >= peer->id || spot_peer_is_aside(elder))
            continue;
        spot_peer_address(elder, peer, address);
        spot_put_u32(&list, elder->id);
        spot_put_text(&list, address);
        n++;
    }
    spot_put_u32(&out, n);
    spot_buf_add(&out, list.data, list.n);
    peer->asked_s = spot_clock_s();
    spot_peer_send(peer, SPOT_MSG_REACH, 0, out.data, out.n);
    spot_buf_release(&list);
    spot_buf_release(&out);
}

/* A worker that rejoins under a suspected name may be another one: it is probed at once, unless
 * that failed before. */
void spot_group_meet(struct spot_group *g, struct spot_peer *peer)
{
    const struct spot_suspect *const s = spot_suspects_find(&g->suspects, peer->name);

    peer->joined_s = spot_clock_s();
    peer->is_on_trial =
        s && s->aside_until_s > 0 && s->n_aside < TRIALS_MAX && !spot_peer_is_convicted(peer);
    if (s && s->aside_until_s > 0 && !peer->is_on_trial)
        spot_peer_report_aside(peer, SPOT_MSG_ASIDE, s->why);
    peer->is_proved = peer->view->machine.n_member < 2 && !peer->is_on_trial;
    if (!peer->is_proved)
        ask(g, peer);
}

void spot_peer_report_aside(struct spot_peer *peer, uint32_t type, const char *why)
{
    struct spot_buf out = { 0 };

    spot_put_text(&out, why);
    spot_peer_send(peer, type, 0, out.data, out.n);
    spot_buf_release(&out);
}

static void dismiss(struct spot_group *g, struct spot_peer *peer)
{
    struct spot_suspect *const s = spot_suspects_find(&g->suspects, peer->name);

    g->options->warn("worker %s is dismissed: %s", peer->name, s->why);
    if (!spot_peer_is_convicted(peer))
        s->aside_until_s = spot_clock_s() + dismissed_s;
    spot_peer_report_aside(peer, SPOT_MSG_DISMISSED, s->why);
    peer->is_closing = true;
}

/* For a member on trial that has reached all its elders: true if the coordinator itself cannot
 * reach the member. */
static bool is_missed(const struct spot_group *g, struct spot_peer *peer)
{
    struct spot_peer *both[2] = { peer, NULL };
    bool missed[2] = { false };

    for (size_t i = 0; !both[1] && i < g->n_peer; i++)
        if (g->peer[i]->view == peer->view && g->peer[i] != peer && !spot_peer_is_aside(g->peer[i]))
            both[1] = g->peer[i];
    if (both[1])
        spot_group_witness(g, both, 2, missed);
    return missed[0];
}

/* Ends the trial; its new findings are judged as if it had never been set aside. */
static void end_trial(struct spot_group *g, struct spot_peer *peer)
{
    peer->is_on_trial = false;
    if (!spot_suspects_is_aside(&g->suspects, peer->name))
        return;
    spot_suspects_pardon(&g->suspects, peer->name);
    spot_group_judge(g);
    if (spot_suspects_is_aside(&g->suspects, peer->name) || is_missed(g, peer))
        dismiss(g, peer);
    else
        spot_peer_report_aside(peer, SPOT_MSG_ASIDE, "");
}

int spot_group_reached(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                       struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    if (frame->tag || (peer->is_proved && !peer->is_on_trial)) {
        peer->asked_s = 0;
        return 0;
    }
    if (spot_group_accuse(g, peer, &in))
        return 1;
    peer->is_proved = true;
    if (peer->is_on_trial)
        end_trial(g, peer);
    else
        spot_group_judge(g);
    return spot_view_consider(peer->view, err);
}

bool spot_view_is_asking(const struct spot_view *view)
{
    const struct spot_group *const g = view->group;

    for (size_t i = 0; i < g->n_peer; i++)
        if (g->peer[i]->view == view && !g->peer[i]->is_proved && !g->peer[i]->is_closing)
            return true;
    return false;
}

/* --- periodic work ------------------------------------------------------------- */

static void retry(struct spot_group *g, struct spot_peer *peer, double now_s)
{
    const struct spot_suspect *const s = spot_suspects_find(&g->suspects, peer->name);

    if (!s || s->aside_until_s <= 0 || peer->is_on_trial || peer->is_closing ||
        spot_peer_is_convicted(peer))
        return;
    if (s->n_aside > 1 && (now_s > s->aside_until_s ||
                           (s->n_aside >= TRIALS_MAX && now_s - peer->joined_s > patience_s))) {
        dismiss(g, peer);
    } else if (now_s > s->aside_until_s) {
        peer->is_on_trial = true;
        ask(g, peer);
    }
}

void spot_group_retry_aside(struct spot_group *g)
{
    const double now_s = spot_clock_s();

    for (size_t i = 0; i < g->n_peer; i++) {
        struct spot_peer *const peer = g->peer[i];

        if (!peer->id || peer->is_closing)
            continue;
        if ((!peer->is_proved || peer->is_on_trial) && peer->asked_s <= 0 &&
            peer->view->machine.phase != SPOT_PHASE_QUIESCE)
            ask(g, peer);
        retry(g, peer, now_s);
    }
    for (size_t i = 0; i < g->suspects.n; i++) { /* lost members */
        struct spot_suspect *const s = &g->suspects.suspect[i];
        bool is_here = false;

        for (size_t k = 0; k < g->n_peer; k++)
            is_here |= g->peer[k]->id && !strcmp(g->peer[k]->name, s->name);
        if (!is_here && s->aside_until_s > 0 && now_s > s->aside_until_s)
            s->aside_until_s = 0;
    }
}
