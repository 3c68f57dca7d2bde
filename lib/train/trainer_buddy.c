/* SPDX-License-Identifier: MIT */
/* A stage whose replicas could all be lost at once gets a buddy: a member of another failure domain
 * that receives the step's gradient sums and makes the same updates, so that it holds the same
 * state. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "train/trainer_member_state.h"
#include "train/trainer_place_state.h"

/* A member without a domain is its own domain. */
bool spot_trainer_same_domain(const struct spot_trainer *c, uint32_t a, uint32_t b)
{
    const char *domain = spot_peer_domain(spot_group_find(c->group, a));

    return a == b || (*domain && !strcmp(domain, spot_peer_domain(spot_group_find(c->group, b))));
}

/* True if the replicas of stage p are in more than one domain. */
static bool is_spread(const struct spot_trainer *c, uint32_t p)
{
    const struct spot_form *f = &c->form;

    for (uint32_t i = 1; i < spot_form_replicas(f); i++)
        if (!spot_trainer_same_domain(c, spot_form_replica(f, p, 0), spot_form_replica(f, p, i)))
            return true;
    return false;
}

static bool is_replica(const struct spot_form *f, uint32_t p, uint32_t id)
{
    for (uint32_t i = 0; i < spot_form_replicas(f); i++)
        if (spot_form_replica(f, p, i) == id)
            return true;
    return false;
}

static uint32_t n_mirrored(const struct spot_form *f, uint32_t id)
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < f->P; p++)
        n += f->buddy[p] == id;
    return n;
}

/* Lower is better: another domain first, then the least work, then a holder of the stage. */
static int64_t price(const struct spot_trainer *c, uint32_t p, const struct spot_member *m)
{
    const struct spot_trainer_member *who = spot_trainer_member(c, m->id);
    const bool holds = who->held[c->form.stage[p]] == c->form.step;

    return (spot_trainer_same_domain(c, spot_form_replica(&c->form, p, 0), m->id) ? 1000000 : 0) +
           1000 * n_mirrored(&c->form, m->id) + (m->role == SPOT_ROLE_ACTIVE ? 100 : 0) +
           (holds ? 0 : 10);
}

static uint32_t choose(const struct spot_trainer *c, uint32_t p)
{
    const struct spot_member *best = NULL;

    for (size_t i = 0; i < c->machine->n_member; i++) {
        const struct spot_member *m = &c->machine->member[i];

        if (!spot_view_may_place(c->view, m) || spot_trainer_member(c, m->id)->cannot_mirror ||
            is_replica(&c->form, p, m->id))
            continue;
        if (!best || price(c, p, m) < price(c, p, best))
            best = m;
    }
    return best ? best->id : 0;
}

static void add_transfers(struct spot_trainer *c, uint32_t p)
{
    struct spot_form *f = &c->form;
    const struct spot_trainer_member *buddy = spot_trainer_member(c, f->buddy[p]);

    f->transfer = spot_xrealloc(f->transfer, f->n_transfer + f->stage[p + 1] - f->stage[p],
                                sizeof(*f->transfer));
    for (uint32_t b = f->stage[p]; b < f->stage[p + 1]; b++) {
        struct spot_transfer t = { .bundle = b, .to = f->buddy[p] };

        if (buddy->held[b] == f->step)
            continue;
        for (size_t i = 0; !t.from && i < c->machine->n_member; i++)
            if (spot_trainer_holds(c, c->machine->member[i].id, (int)b, f->step))
                t.from = c->machine->member[i].id;
        t.origin = t.from ? SPOT_FROM_MEMBER : spot_trainer_origin(c);
        f->transfer[f->n_transfer++] = t;
    }
}

static bool wants_buddy(const struct spot_trainer *c, uint32_t p)
{
    return !c->options->no_buddies && !is_spread(c, p);
}

bool spot_trainer_lacks_buddy(const struct spot_trainer *c)
{
    if (c->machine->phase != SPOT_PHASE_RUN && c->machine->phase != SPOT_PHASE_MIGRATE)
        return false;
    for (uint32_t p = 0; p < c->form.P; p++)
        if (!c->form.buddy[p] && wants_buddy(c, p) && choose(c, p))
            return true;
    return false;
}

void spot_trainer_choose_buddies(struct spot_trainer *c)
{
    struct spot_form *f = &c->form;

    for (uint32_t p = 0; p < f->P; p++) {
        f->buddy[p] = wants_buddy(c, p) ? choose(c, p) : 0;
        if (!f->buddy[p])
            continue;
        spot_view_set_role(c->view, f->buddy[p], SPOT_ROLE_ACTIVE);
        add_transfers(c, p);
        for (size_t i = 0; i < f->n_transfer; i++) { /* senders take part in the epoch's forming */
            const struct spot_member *from = spot_machine_find(c->machine, f->transfer[i].from);

            if (from && from->role == SPOT_ROLE_SPARE)
                spot_view_set_role(c->view, from->id, SPOT_ROLE_SOURCE);
        }
    }
}
