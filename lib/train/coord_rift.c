/* SPDX-License-Identifier: MIT */
/* A network that is whole for the coordinator may be torn between two members. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/suspect_io.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "train/coord.h"

static bool is_in_form(const struct spot_form *f, uint32_t id)
{
    for (size_t i = 0; i < f->n_peer; i++)
        if (f->peer[i].id == id)
            return true;
    return false;
}

/* In an epoch that failed the members that took part in it may say so of each other; who proves
 * whom it reaches, of all. */
int spot_coord_accuse(struct spot_coord *c, const struct spot_coord_peer *reporter,
                      struct spot_wire_in *in)
{
    const bool is_proving = !reporter->is_proved || reporter->is_on_trial;
    uint32_t left = spot_suspect_io_count(in);
    struct spot_mesh_suspect s;

    while (spot_suspect_io_get(in, &left, &s)) {
        const struct spot_coord_peer *const of = spot_coord_find(c, s.id);

        if (of && (is_proving || (c->has_failed && is_in_form(&c->form, reporter->id) &&
                                  is_in_form(&c->form, s.id))))
            spot_suspects_accuse(&c->suspects, reporter->name, of->name, s.has_answered, s.why,
                                 spot_clock_s());
    }
    return in->bad ? -1 : 0;
}

/* Of those who were named: whom do we not reach either? */
static void hear_witness(const struct spot_coord *c, struct spot_suspect_member *member, size_t n)
{
    struct spot_coord_peer **peer = spot_xcalloc(n + 1, sizeof(struct spot_coord_peer *));
    size_t *const of = spot_xcalloc(n + 1, sizeof(*of));
    bool *const missed = spot_xcalloc(n + 1, sizeof(*missed));
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        if (spot_suspects_is_named(&c->suspects, member[i].name)) {
            of[k] = i;
            peer[k++] = spot_coord_find(c, member[i].id);
        }
    spot_coord_witness(c, peer, k, missed);
    for (size_t i = 0; i < k; i++)
        member[of[i]].is_missed = missed[i];
    free(peer);
    free(of);
    free(missed);
}

static void tell_new(struct spot_coord *c, double now_s)
{
    for (size_t i = 0; i < c->n_peer; i++) {
        struct spot_coord_peer *const peer = c->peer[i];
        const struct spot_suspect *const s =
            peer->id ? spot_suspects_find(&c->suspects, peer->name) : NULL;

        if (!s || s->aside_until_s <= 0 || s->aside_s < now_s)
            continue;
        c->options->warn("worker %s is set aside: %s; it gets no place for %g s", peer->name,
                         s->why, s->aside_until_s - s->aside_s);
        spot_coord_tell_aside(c, peer, SPOT_MSG_ASIDE, s->why);
    }
}

size_t spot_coord_judge(struct spot_coord *c)
{
    const size_t n = c->machine.n_member;
    struct spot_suspect_member *member;
    double now_s;
    size_t n_aside;

    if (!spot_suspects_has_news(&c->suspects))
        return 0;
    member = spot_xcalloc(n + 1, sizeof(*member));
    for (size_t i = 0; i < n; i++) {
        const struct spot_member *const m = &c->machine.member[i];

        member[i] = (struct spot_suspect_member){ .name = spot_coord_find(c, m->id)->name,
                                                  .id = m->id,
                                                  .has_place = is_in_form(&c->form, m->id) };
    }
    hear_witness(c, member, n);
    now_s = spot_clock_s();
    n_aside = spot_suspects_judge(&c->suspects, member, n, now_s);
    free(member);
    if (n_aside)
        tell_new(c, now_s);
    return n_aside;
}

bool spot_coord_is_aside(const struct spot_coord *c, uint32_t id)
{
    return spot_suspects_is_aside(&c->suspects, spot_coord_find(c, id)->name);
}

bool spot_coord_may_place(const struct spot_coord *c, const struct spot_member *member)
{
    return !member->is_leaving && spot_coord_find(c, member->id)->is_proved &&
           !spot_coord_is_aside(c, member->id);
}

size_t spot_coord_placeable(const struct spot_coord *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->machine.n_member; i++)
        n += spot_coord_may_place(c, &c->machine.member[i]);
    return n;
}

/* Durable, drawn, or held by somebody whom the others reach. */
static bool is_elsewhere(const struct spot_coord *c, int bundle, int64_t step)
{
    if (step == 0 || step == spot_store_newest(c->store))
        return true;
    for (size_t i = 0; i < c->n_peer; i++)
        if (c->peer[i]->id && !spot_coord_is_aside(c, c->peer[i]->id) &&
            c->peer[i]->held[bundle] == step)
            return true;
    return false;
}

/* The coordinator reaches who is set aside, but waits for its copies no longer than for others. */
static bool is_kept_from(const struct spot_coord *c, int bundle, int64_t step)
{
    return step == c->machine.step && !is_elsewhere(c, bundle, step) &&
           (c->keep_until_s <= 0 || spot_clock_s() < c->keep_until_s);
}

bool spot_coord_holds(const struct spot_coord *c, uint32_t id, int bundle, int64_t step)
{
    return spot_coord_find(c, id)->held[bundle] == step &&
           (!spot_coord_is_aside(c, id) || is_kept_from(c, bundle, step));
}

bool spot_coord_must_keep(const struct spot_coord *c, int64_t step)
{
    for (int b = 0; b < c->n_bundle; b++)
        for (size_t i = 0; i < c->machine.n_member; i++) {
            const uint32_t id = c->machine.member[i].id;

            if (spot_coord_is_aside(c, id) && spot_coord_holds(c, id, b, step))
                return true;
        }
    return false;
}
