/* SPDX-License-Identifier: MIT */
/* Whether members reach each other, asked before it matters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/probe.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "train/trainer_state.h"

enum { TRIALS_MAX = 3 };

static const double witness_s = 0.5;
static const double patience_s = 20;   /* with one that joins under a name of bad repute */
static const double dismissed_s = 600; /* its name is remembered */

/* --- addresses ----------------------------------------------------------- */

/* A worker knows the address that it has; its peers need one that leads to it. Where two come from
 * the same host, or from behind the same router, that is the one it has; else the one it is seen
 * under; and if that is our own machine, the one under which `to` reached us. */
void spot_coord_address(const struct spot_coord_peer *peer, const struct spot_coord_peer *to,
                        char *text)
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

void spot_coord_witness(const struct spot_coord *c, struct spot_coord_peer *const *peer, size_t n,
                        bool *missed)
{
    const struct spot_probe_config config = { .tls = c->tls,
                                              .key = c->key,
                                              .type_probe = SPOT_MSG_KNOCK,
                                              .type_pong = SPOT_MSG_PONG,
                                              .limit_s = witness_s };
    struct spot_mesh_peer *const at = spot_xcalloc(n + 1, sizeof(*at));
    struct spot_mesh_suspect *const found = spot_xcalloc(n + 1, sizeof(*found));
    size_t n_missed = 0;

    for (size_t i = 0; i < n; i++) {
        at[i].id = peer[i]->id;
        spot_coord_address(peer[i], NULL, at[i].address);
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

/* A member connects to its elders. */
static void ask(struct spot_coord *c, struct spot_coord_peer *peer)
{
    struct spot_buf list = { 0 }, out = { 0 };
    char address[SPOT_ADDRESS_MAX + 8];
    uint32_t n = 0;

    for (size_t i = 0; i < c->machine.n_member; i++) {
        const struct spot_coord_peer *const elder = spot_coord_find(c, c->machine.member[i].id);

        if (elder->id >= peer->id || spot_coord_is_aside(c, elder->id))
            continue;
        spot_coord_address(elder, peer, address);
        spot_put_u32(&list, elder->id);
        spot_put_text(&list, address);
        n++;
    }
    spot_put_u32(&out, n);
    spot_buf_add(&out, list.data, list.n);
    peer->asked_s = spot_clock_s();
    spot_coord_send(c, peer, SPOT_MSG_REACH, 0, out.data, out.n);
    spot_buf_release(&list);
    spot_buf_release(&out);
}

/* Who comes back under a name of bad repute may be another by now: it is tried at once, unless that
 * was in vain before. */
void spot_coord_meet(struct spot_coord *c, struct spot_coord_peer *peer)
{
    const struct spot_suspect *const s = spot_suspects_find(&c->suspects, peer->name);

    peer->joined_s = spot_clock_s();
    peer->is_on_trial = s && s->aside_until_s > 0 && s->n_aside < TRIALS_MAX;
    if (s && s->aside_until_s > 0 && !peer->is_on_trial)
        spot_coord_tell_aside(c, peer, SPOT_MSG_ASIDE, s->why);
    peer->is_proved = c->machine.n_member < 2 && !peer->is_on_trial;
    if (!peer->is_proved)
        ask(c, peer);
}

void spot_coord_tell_aside(struct spot_coord *c, struct spot_coord_peer *peer, uint32_t type,
                           const char *why)
{
    struct spot_buf out = { 0 };

    spot_put_text(&out, why);
    spot_coord_send(c, peer, type, 0, out.data, out.n);
    spot_buf_release(&out);
}

static void dismiss(struct spot_coord *c, struct spot_coord_peer *peer)
{
    struct spot_suspect *const s = spot_suspects_find(&c->suspects, peer->name);

    c->options->warn("worker %s is dismissed: %s", peer->name, s->why);
    s->aside_until_s = spot_clock_s() + dismissed_s;
    spot_coord_tell_aside(c, peer, SPOT_MSG_DISMISSED, s->why);
    peer->is_closing = true;
}

/* One that was set aside reaches all its elders. Do we reach it, who reach one of them? */
static bool is_missed(const struct spot_coord *c, struct spot_coord_peer *peer)
{
    struct spot_coord_peer *both[2] = { peer, NULL };
    bool missed[2] = { false };

    for (size_t i = 0; !both[1] && i < c->machine.n_member; i++)
        if (c->machine.member[i].id != peer->id && !spot_coord_is_aside(c, c->machine.member[i].id))
            both[1] = spot_coord_find(c, c->machine.member[i].id);
    if (both[1])
        spot_coord_witness(c, both, 2, missed);
    return missed[0];
}

/* What it says now is judged as if it had never been set aside. */
static void end_trial(struct spot_coord *c, struct spot_coord_peer *peer)
{
    peer->is_on_trial = false;
    if (!spot_suspects_is_aside(&c->suspects, peer->name))
        return;
    spot_suspects_pardon(&c->suspects, peer->name);
    spot_coord_judge(c);
    if (spot_suspects_is_aside(&c->suspects, peer->name) || is_missed(c, peer))
        dismiss(c, peer);
    else
        spot_coord_tell_aside(c, peer, SPOT_MSG_ASIDE, "");
}

int spot_coord_reached(struct spot_coord *c, struct spot_coord_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    if (frame->tag || (peer->is_proved && !peer->is_on_trial)) {
        peer->asked_s = 0;
        return 0;
    }
    if (spot_coord_accuse(c, peer, &in))
        return 1;
    peer->is_proved = true;
    if (peer->is_on_trial)
        end_trial(c, peer);
    else
        spot_coord_judge(c);
    if (c->machine.phase != SPOT_PHASE_WAIT && spot_coord_would_change(c))
        return spot_coord_act(c, spot_machine_want_change(&c->machine), err);
    return 0;
}

bool spot_coord_is_asking(const struct spot_coord *c)
{
    for (size_t i = 0; i < c->n_peer; i++)
        if (c->peer[i]->id && !c->peer[i]->is_proved && !c->peer[i]->is_closing)
            return true;
    return false;
}

/* --- by time ------------------------------------------------------------- */

static void retry(struct spot_coord *c, struct spot_coord_peer *peer, double now_s)
{
    const struct spot_suspect *const s = spot_suspects_find(&c->suspects, peer->name);

    if (!s || s->aside_until_s <= 0 || peer->is_on_trial || peer->is_closing)
        return;
    if (s->n_aside > 1 && (now_s > s->aside_until_s ||
                           (s->n_aside >= TRIALS_MAX && now_s - peer->joined_s > patience_s))) {
        dismiss(c, peer);
    } else if (now_s > s->aside_until_s) {
        peer->is_on_trial = true;
        ask(c, peer);
    }
}

void spot_coord_retry_aside(struct spot_coord *c)
{
    const double now_s = spot_clock_s();

    for (size_t i = 0; i < c->n_peer; i++) {
        struct spot_coord_peer *const peer = c->peer[i];

        if (!peer->id || peer->is_closing)
            continue;
        if ((!peer->is_proved || peer->is_on_trial) && peer->asked_s <= 0 &&
            c->machine.phase != SPOT_PHASE_QUIESCE)
            ask(c, peer);
        retry(c, peer, now_s);
    }
    for (size_t i = 0; i < c->suspects.n; i++) { /* those who are gone */
        struct spot_suspect *const s = &c->suspects.suspect[i];
        bool is_here = false;

        for (size_t k = 0; k < c->n_peer; k++)
            is_here |= c->peer[k]->id && !strcmp(c->peer[k]->name, s->name);
        if (!is_here && s->aside_until_s > 0 && now_s > s->aside_until_s)
            s->aside_until_s = 0;
    }
}
