/* SPDX-License-Identifier: MIT */
/* A network that is whole for the coordinator may be torn between two members. */
#include "common/clock.h"
#include "train/coord.h"

enum { PATIENCE = 3 }; /* epochs in a row that broke */

static const double bench_s = 20, bench_max_s = 640;

/* Whoever has been in more rifts sits out: a member that nobody reaches is found in the second
 * round. Of two that are equal it is the younger. The time doubles, so that a rift that stays costs
 * ever less. */
void spot_coord_rift(struct spot_coord *c, struct spot_coord_peer *reporter, uint32_t accused)
{
    struct spot_coord_peer *other = spot_coord_find(c, accused), *out;
    double time_s = bench_s;

    if (!other || other == reporter)
        return;
    reporter->n_rift++;
    other->n_rift++;
    out = reporter->n_rift != other->n_rift ? (reporter->n_rift > other->n_rift ? reporter : other)
          : reporter->id > other->id        ? reporter
                                            : other;
    reporter->rift_with = other->id;
    other->rift_with = reporter->id;
    for (size_t i = 0; out->n_rift > 1 && i < c->n_peer; i++)
        if (c->peer[i]->rift_with == out->id)
            c->peer[i]->benched_until_s = 0; /* it was the other's fault */
    for (int k = 1; k < out->n_rift && time_s < bench_max_s; k++)
        time_s *= 2;
    out->benched_until_s = spot_clock_s() + time_s;
    c->options->warn("worker %s does not reach worker %s; %s gets no place for %g s",
                     reporter->name, other->name, out->name, time_s);
}

bool spot_coord_may_place(const struct spot_coord *c, const struct spot_member *member)
{
    return !member->is_leaving && spot_coord_find(c, member->id)->benched_until_s <= 0;
}

size_t spot_coord_placeable(const struct spot_coord *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->machine.n_member; i++)
        n += spot_coord_may_place(c, &c->machine.member[i]);
    return n;
}

bool spot_coord_end_benches(struct spot_coord *c)
{
    const double now_s = spot_clock_s();
    bool any = false;

    for (size_t i = 0; i < c->n_peer; i++)
        if (c->peer[i]->benched_until_s > 0 && now_s > c->peer[i]->benched_until_s) {
            c->peer[i]->benched_until_s = 0;
            any = true;
        }
    return any;
}

static bool is_elsewhere(const struct spot_coord *c, int bundle, int64_t step)
{
    if (step == 0 || step == spot_store_newest(c->store))
        return true;
    for (size_t i = 0; i < c->n_peer; i++)
        if (c->peer[i]->id && c->peer[i]->benched_until_s <= 0 && c->peer[i]->held[bundle] == step)
            return true;
    return false;
}

/* Who sits out may not be reached: it is asked for what nobody else has, and not for ever. */
bool spot_coord_holds(const struct spot_coord *c, uint32_t id, int bundle, int64_t step)
{
    const struct spot_coord_peer *peer = spot_coord_find(c, id);

    return peer->held[bundle] == step &&
           (peer->benched_until_s <= 0 ||
            (!is_elsewhere(c, bundle, step) && c->n_broken <= PATIENCE));
}
