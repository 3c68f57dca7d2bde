/* SPDX-License-Identifier: MIT */
#include "peers/spothedge.h"

#include <stdlib.h>

#include "common/xalloc.h"
#include "sim/fleet_play.h"

struct own {
    bool *is_active;           /* [n_zone] SpotHedge's Z_A */
    size_t *failed_at, *tried; /* [n_zone] tick + 1, 0: never; the round of the attempt */
    size_t next, attempts_round;
};

static void peer_open(struct spot_fleet_state *s)
{
    const size_t n = s->play->n_zone;
    struct own *own = s->own = spot_xcalloc(1, sizeof(*own));

    own->is_active = spot_xcalloc(n, sizeof(*own->is_active));
    own->failed_at = spot_xcalloc(n, sizeof(*own->failed_at));
    own->tried = spot_xcalloc(n, sizeof(*own->tried));
    for (size_t z = 0; z < n; z++)
        own->is_active[z] = true;
}

static void peer_close(struct spot_fleet_state *s)
{
    struct own *own = s->own;

    free(own->is_active);
    free(own->failed_at);
    free(own->tried);
    free(own);
}

/* A zone failed: SpotHedge removes it from Z_A; when fewer than two are left all become active
 * again. */
static void peer_failed(struct spot_fleet_state *s, size_t zone)
{
    struct own *own = s->own;
    size_t n = 0;

    own->failed_at[zone] = s->t + 1;
    own->is_active[zone] = false;
    for (size_t z = 0; z < s->play->n_zone; z++)
        n += own->is_active[z];
    for (size_t z = 0; n < 2 && z < s->play->n_zone; z++)
        own->is_active[z] = true;
}

/* The cheapest active zone, preferably one without a replica. */
static size_t next_published(const struct spot_fleet_state *s)
{
    const struct own *own = s->own;
    size_t best = s->play->n_zone;

    for (int with = 0; with < 2 && best == s->play->n_zone; with++)
        for (size_t z = 0; z < s->play->n_zone; z++)
            if (own->is_active[z] && (with || !s->in_zone[z]) &&
                (best == s->play->n_zone || s->play->usd_per_h[z] < s->play->usd_per_h[best]))
                best = z;
    return best;
}

/* The next zone not tried since the last success: unused zones first, recently failed ones last;
 * n_zone if all were tried. */
static size_t next_repaired(const struct spot_fleet_state *s)
{
    const struct own *own = s->own;
    size_t best = s->play->n_zone;

    for (size_t z = 0; z < s->play->n_zone; z++) {
        if (own->tried[z] == own->attempts_round)
            continue;
        if (best == s->play->n_zone || !s->in_zone[z] > !s->in_zone[best] ||
            (!s->in_zone[z] == !s->in_zone[best] &&
             (own->failed_at[z] < own->failed_at[best] ||
              (own->failed_at[z] == own->failed_at[best] &&
               s->play->usd_per_h[z] < s->play->usd_per_h[best]))))
            best = z;
    }
    return best;
}

static size_t next_zone(const struct spot_fleet_state *s)
{
    const struct own *own = s->own;

    if (s->player->kind == SPOT_FLEET_ROUND_ROBIN)
        return own->next % s->play->n_zone;
    return s->player->kind == SPOT_FLEET_HEDGE ? next_published(s) : next_repaired(s);
}

/* A tick ends after as many failures in succession as there are zones. */
static void fill(struct spot_fleet_state *s, size_t target)
{
    struct own *own = s->own;
    size_t z;

    own->attempts_round++;
    while (s->n_unit > target)
        spot_fleet_end_unit(s, s->n_unit - 1);
    for (size_t failed = 0; s->n_unit < target && failed < s->play->n_zone;) {
        if ((z = next_zone(s)) == s->play->n_zone)
            break;
        if (spot_fleet_launch(s, z)) {
            own->is_active[z] = true;
            own->failed_at[z] = 0;
            own->attempts_round++;
            failed = 0;
        } else {
            own->tried[z] = own->attempts_round;
            own->next++;
            peer_failed(s, z);
            failed++;
        }
    }
}

static void spread(struct spot_fleet_state *s, size_t target)
{
    const size_t n = s->play->n_zone;

    for (size_t z = 0; z < n; z++) {
        const size_t want = target / n + (z < target % n);

        for (size_t i = s->n_unit; (size_t)s->in_zone[z] > want && i-- > 0;)
            if (s->unit[i].zone == z)
                spot_fleet_end_unit(s, i);
        while ((size_t)s->in_zone[z] < want && spot_fleet_launch(s, z))
            continue;
    }
}

static size_t fall_back(const struct spot_fleet_state *s)
{
    const size_t wanted = s->wanted;
    const size_t target = wanted + (size_t)s->play->extra, ready = spot_fleet_ready(s);

    if (s->play->fallback == SPOT_FLEET_FOR_READY && ready < target)
        return target - ready < wanted ? target - ready : wanted;
    if (s->play->fallback == SPOT_FLEET_FOR_LAUNCHED && s->n_unit < wanted)
        return wanted - s->n_unit;
    return 0;
}

static int peer_place(struct spot_fleet_state *s, struct spot_err *err)
{
    const size_t target = s->wanted + (size_t)s->play->extra;

    (void)err;
    if (s->player->kind >= SPOT_FLEET_ROUND_ROBIN)
        fill(s, target);
    else
        spread(s, target);
    spot_fleet_set_on_demand(s, fall_back(s));
    return 0;
}

#define PEER(kind) peer_place, kind
#define REST       .open = peer_open, .close = peer_close, .lost = peer_failed

const struct spot_fleet_player spot_fleet_peers[] = {
    { "even-spread", "an even share of the replicas in each zone, whether it has room or not",
      PEER(SPOT_FLEET_EVEN), 0, SPOT_FLEET_ALONE, REST },
    { "round-robin", "spot, the next zone after every failure", PEER(SPOT_FLEET_ROUND_ROBIN), 0,
      SPOT_FLEET_ALONE, REST },
    { "spothedge",
      "SpotHedge as published: unused active zones first, extra replicas, on demand until spot is "
      "ready",
      PEER(SPOT_FLEET_HEDGE), 1, SPOT_FLEET_FOR_READY, REST },
    { "spothedge-repaired", "SpotHedge, each zone tried at most once before a success",
      PEER(SPOT_FLEET_REPAIRED), 1, SPOT_FLEET_FOR_READY, REST },
    { 0 },
};
