/* SPDX-License-Identifier: MIT */
/* Ours: what runs when a launch of now is ready is a set of slots (zone, how many are there), each
 * of which lasts by the run lengths its zone has shown so far. Slots of a zone fall together, the
 * highest first; zones fall apart. Of all fleets that answer now as well as what runs allows, the
 * one with the least price + worth * P(not served then) is taken. The worth of a tick rises with
 * what the choices say will be missed, and with what is, and falls else, so that both come to the
 * aim. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/fleet_hazard.h"
#include "sim/fleet_state.h"

enum { SPARES_MAX = 16, LOAD_TICKS = 4 };
static const double factor_first = 1.2, factor_most = 4, factor_gain = 0.1;
static const double worth_gain = 3e-4, worth_first = 0.5, worth_least = 1.25, worth_most = 1e5;

struct slot {
    size_t zone, level, unit; /* SIZE_MAX: not launched */
    size_t rank;              /* of its zone's slots, the one that lasts longest is 0 */
    bool is_ready, is_kept;   /* it answers now and is needed */
    double last;              /* P(there when a launch of now is ready) */
};

struct spot_fleet_ours {
    size_t n_level;
    size_t limit; /* slots of a zone that are looked at: twice the most that was wanted so far */
    struct spot_fleet_hazard *hazard;
    struct slot *slot; /* [n_slot], the ones to take first in front */
    size_t n_slot, n_kept;
    double factor;  /* of the load of late */
    size_t *wanted; /* [n_tick] by it */
    double miss;    /* P(the next tick is not served), as the choice has it */
    double worth;   /* of a served tick, in ticks of the cheapest spot */
    double cheapest;
    double *fall;       /* [n_zone][n_level + 1] P(that many at least) */
    double *sum, *next; /* [wanted + 1] P(that many survive), the last: or more */
    size_t *taken;      /* [n_zone] */
    bool *is_taken;     /* [n_unit] of the state */
    size_t cap_taken;
};

struct spot_fleet_ours *spot_fleet_ours_new(const struct spot_fleet_play *play)
{
    struct spot_fleet_ours *o = spot_xcalloc(1, sizeof(*o));
    /* what a load comes to is not known before */
    const size_t most = play->load ? SPOT_FLEET_REPLICAS_MAX : (size_t)play->wanted;

    o->n_level = 2 * most;
    o->hazard = spot_fleet_hazard_new(play->zone, play->n_zone, o->n_level);
    o->slot = spot_xcalloc(play->n_zone * o->n_level, sizeof(*o->slot));
    o->fall = spot_xcalloc(play->n_zone * (o->n_level + 1), sizeof(double));
    o->sum = spot_xcalloc(most + 1, sizeof(double));
    o->next = spot_xcalloc(most + 1, sizeof(double));
    o->taken = spot_xcalloc(play->n_zone, sizeof(*o->taken));
    o->worth = worth_first / (1 - play->availability);
    o->factor = factor_first;
    o->wanted = play->load ? spot_xcalloc(play->n_tick, sizeof(*o->wanted)) : NULL;
    o->cheapest = play->usd_per_h[0];
    for (size_t z = 1; z < play->n_zone; z++)
        o->cheapest = fmin(o->cheapest, play->usd_per_h[z]);
    return o;
}

void spot_fleet_ours_learn(struct spot_fleet_ours *o, const struct spot_fleet_play *play)
{
    for (size_t t = 0; t < play->n_tick; t++)
        spot_fleet_hazard_step(o->hazard, play->count + t * play->n_zone);
    spot_fleet_hazard_restart(o->hazard);
}

void spot_fleet_ours_free(struct spot_fleet_ours *o)
{
    spot_fleet_hazard_free(o->hazard);
    free(o->slot);
    free(o->fall);
    free(o->wanted);
    free(o->sum);
    free(o->next);
    free(o->taken);
    free(o->is_taken);
    free(o);
}

/* For a varying load: a factor on the maximum of the last ticks, such that loads exceed it no more
 * often than the target. A load that exceeded it raises the factor, any other lowers it. */
size_t spot_fleet_ours_wanted(struct spot_fleet_state *s)
{
    struct spot_fleet_ours *o = s->ours;
    const struct spot_fleet_play *play = s->play;
    double most = 0;
    size_t launched;

    if (!s->t) {
        o->wanted[0] = s->wanted;
        return s->wanted;
    }
    launched = s->t > play->cold ? s->t - 1 - play->cold : 0; /* that could answer a tick ago */
    o->factor *= exp(factor_gain * ((play->load[s->t - 1] > (double)o->wanted[launched]) -
                                    (1 - play->availability)));
    o->factor = fmin(factor_most, fmax(1, o->factor));
    for (size_t back = 1; back <= LOAD_TICKS && back <= s->t; back++)
        most = fmax(most, play->load[s->t - back]);
    o->wanted[s->t] = (size_t)fmin(SPOT_FLEET_REPLICAS_MAX, fmax(1, ceil(o->factor * most)));
    return o->wanted[s->t];
}

void spot_fleet_ours_saw(struct spot_fleet_state *s, bool is_served)
{
    struct spot_fleet_ours *o = s->ours;
    const double aim = 1 - s->play->availability;

    o->worth *= exp(worth_gain * ((o->miss + !is_served) / 2 / aim - 1));
    /* below, no replica at all would be cheaper than enough of them */
    o->worth = fmin(worth_most, fmax(worth_least * (double)s->wanted *
                                         s->play->on_demand_usd_per_h / o->cheapest,
                                     o->worth));
}

static void add_slots(struct spot_fleet_state *s, size_t zone)
{
    struct spot_fleet_ours *o = s->ours;
    const size_t room = (size_t)s->room[zone] < o->limit ? (size_t)s->room[zone] : o->limit;
    size_t unit = 0;

    for (size_t level = 0; level < room; level++, unit++) {
        struct slot *slot = &o->slot[o->n_slot++];

        while (unit < s->n_unit && s->unit[unit].zone != zone)
            unit++;
        *slot = (struct slot){
            .zone = zone,
            .level = level,
            .unit = unit < s->n_unit ? unit : SIZE_MAX,
            .is_ready = unit < s->n_unit && spot_fleet_is_ready(s, s->unit[unit].born),
            .last = spot_fleet_hazard_lasts(o->hazard, zone, level, s->play->cold),
        };
        if (slot->unit == SIZE_MAX)
            unit = s->n_unit;
    }
}

/* What lasts first; of equals what runs. */
static int by_last(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;

    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    if ((x->unit == SIZE_MAX) != (y->unit == SIZE_MAX))
        return x->unit != SIZE_MAX ? -1 : 1;
    return x->zone != y->zone ? (x->zone < y->zone ? -1 : 1)
                              : (x->level > y->level) - (x->level < y->level);
}

/* What answers now first, then the best of each zone before the second of any: slots of a zone fall
 * together, so that one more of the same saves nothing. */
static int by_use(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;

    if (x->is_kept != y->is_kept)
        return x->is_kept ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return by_last(a, b);
}

static void list_slots(struct spot_fleet_state *s)
{
    struct spot_fleet_ours *o = s->ours;
    const size_t wanted = s->wanted;

    o->n_slot = o->n_kept = 0;
    o->limit = 2 * wanted > o->limit ? 2 * wanted : o->limit;
    spot_fleet_hazard_step(o->hazard, s->room);
    for (size_t z = 0; z < s->play->n_zone; z++)
        add_slots(s, z);
    qsort(o->slot, o->n_slot, sizeof(*o->slot), by_last);
    memset(o->taken, 0, s->play->n_zone * sizeof(*o->taken));
    for (size_t i = 0; i < o->n_slot; i++)
        o->slot[i].rank = o->taken[o->slot[i].zone]++;
    for (size_t i = 0; i < o->n_slot && o->n_kept < wanted; i++)
        if (o->slot[i].is_ready) {
            o->slot[i].is_kept = true;
            o->n_kept++;
        }
    qsort(o->slot, o->n_slot, sizeof(*o->slot), by_use);
}

/* sum[] of the first n slots. */
static void survive(struct spot_fleet_state *s, size_t n)
{
    struct spot_fleet_ours *o = s->ours;
    const size_t wanted = s->wanted, wide = o->n_level + 1;

    memset(o->taken, 0, s->play->n_zone * sizeof(*o->taken));
    memset(o->sum, 0, (wanted + 1) * sizeof(double));
    o->sum[0] = 1;
    for (size_t i = 0; i < n; i++)
        o->fall[o->slot[i].zone * wide + ++o->taken[o->slot[i].zone]] = o->slot[i].last;
    for (size_t z = 0; z < s->play->n_zone; z++) {
        double *fall = o->fall + z * wide;

        if (!o->taken[z])
            continue;
        fall[0] = 1;
        for (size_t k = 1; k <= o->taken[z]; k++)
            fall[k] = fmin(fall[k], fall[k - 1]);
        memset(o->next, 0, (wanted + 1) * sizeof(double));
        for (size_t k = 0; k <= o->taken[z]; k++)
            for (size_t i = 0; i <= wanted; i++)
                o->next[i + k < wanted ? i + k : wanted] +=
                    o->sum[i] * (fall[k] - (k < o->taken[z] ? fall[k + 1] : 0));
        memcpy(o->sum, o->next, (wanted + 1) * sizeof(double));
    }
}

/* How many slots, and how much on demand to count on. What on demand answers now is paid either
 * way: were it counted on for nothing, spot would never take its place. */
static size_t choose(struct spot_fleet_state *s, size_t *on_demand)
{
    struct spot_fleet_ours *o = s->ours;
    const size_t wanted = s->wanted;
    const size_t most = o->n_slot < wanted + SPARES_MAX ? o->n_slot : wanted + SPARES_MAX;
    double best = HUGE_VAL, price = 0;
    size_t choice = o->n_kept;

    for (size_t n = 0; n <= most; n++) {
        double miss = 1;

        price += n ? s->play->usd_per_h[o->slot[n - 1].zone] / o->cheapest : 0;
        if (n < o->n_kept)
            continue;
        survive(s, n);
        for (size_t k = 0; k <= wanted; k++) {
            const double demand = (double)k * s->play->on_demand_usd_per_h / o->cheapest;

            miss -= o->sum[wanted - k]; /* now P(fewer than wanted - k) */
            if (price + demand + o->worth * fmax(0, miss) < best) {
                best = price + demand + o->worth * fmax(0, miss);
                choice = n;
                *on_demand = k;
                o->miss = fmax(0, miss);
            }
        }
    }
    return choice;
}

void spot_fleet_ours_step(struct spot_fleet_state *s)
{
    struct spot_fleet_ours *o = s->ours;
    const size_t n_old = s->n_unit;
    const size_t standing = spot_fleet_standing(s);
    size_t on_demand = 0, needed, n;

    list_slots(s);
    needed = s->wanted - o->n_kept;
    needed = needed < standing ? needed : standing;
    n = choose(s, &on_demand);
    o->is_taken = spot_xgrow(o->is_taken, &o->cap_taken, n_old + 1, sizeof(bool));
    memset(o->is_taken, 0, (n_old + 1) * sizeof(bool));
    for (size_t i = 0; i < n; i++)
        if (o->slot[i].unit != SIZE_MAX)
            o->is_taken[o->slot[i].unit] = true;
    for (size_t i = n_old; i-- > 0;)
        if (!o->is_taken[i])
            spot_fleet_end_unit(s, i);
    for (size_t i = 0; i < n; i++)
        if (o->slot[i].unit == SIZE_MAX)
            spot_fleet_launch(s, o->slot[i].zone);
    spot_fleet_set_on_demand(s, on_demand > needed ? on_demand : needed);
}
