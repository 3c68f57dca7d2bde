/* SPDX-License-Identifier: MIT */
/* Where the published policies launch, and what they keep on demand. */

#include "sim/fleet_state.h"
#include "trace/region.h"

/* Z_A of SpotHedge loses the zone; below two all are active again. */
void spot_fleet_failed(struct spot_fleet_state *s, size_t zone)
{
    size_t n = 0;

    s->failed_at[zone] = s->t + 1;
    s->is_active[zone] = false;
    for (size_t z = 0; z < s->play->n_zone; z++)
        n += s->is_active[z];
    for (size_t z = 0; n < 2 && z < s->play->n_zone; z++)
        s->is_active[z] = true;
}

/* The cheapest of the active zones, one without a replica first. */
static size_t next_published(const struct spot_fleet_state *s)
{
    size_t best = s->play->n_zone;

    for (int with = 0; with < 2 && best == s->play->n_zone; with++)
        for (size_t z = 0; z < s->play->n_zone; z++)
            if (s->is_active[z] && (with || !s->in_zone[z]) &&
                (best == s->play->n_zone || s->play->usd_per_h[z] < s->play->usd_per_h[best]))
                best = z;
    return best;
}

/* Of those not tried since the last success: unused first, those that failed last behind; n_zone:
 * all were tried. */
static size_t next_repaired(const struct spot_fleet_state *s)
{
    size_t best = s->play->n_zone;

    for (size_t z = 0; z < s->play->n_zone; z++) {
        if (s->tried[z] == s->attempts_round)
            continue;
        if (best == s->play->n_zone || !s->in_zone[z] > !s->in_zone[best] ||
            (!s->in_zone[z] == !s->in_zone[best] &&
             (s->failed_at[z] < s->failed_at[best] ||
              (s->failed_at[z] == s->failed_at[best] &&
               s->play->usd_per_h[z] < s->play->usd_per_h[best]))))
            best = z;
    }
    return best;
}

static size_t next_zone(struct spot_fleet_state *s)
{
    if (s->policy == SPOT_FLEET_ROUND_ROBIN)
        return s->next++ % s->play->n_zone;
    return s->policy == SPOT_FLEET_HEDGE ? next_published(s) : next_repaired(s);
}

/* As many failures in a row as there are zones end a tick. */
static void fill(struct spot_fleet_state *s, size_t target)
{
    size_t z;

    s->attempts_round++;
    while (s->n_unit > target)
        spot_fleet_end_unit(s, s->n_unit - 1);
    for (size_t failed = 0; s->n_unit < target && failed < s->play->n_zone;) {
        if ((z = next_zone(s)) == s->play->n_zone)
            break;
        if (spot_fleet_launch(s, z)) {
            s->is_active[z] = true;
            s->failed_at[z] = 0;
            s->attempts_round++;
            failed = 0;
        } else {
            s->tried[z] = s->attempts_round;
            spot_fleet_failed(s, z);
            failed++;
        }
    }
}

static bool is_spread_over(const struct spot_fleet_state *s, size_t z)
{
    return s->policy == SPOT_FLEET_EVEN ||
           spot_region_is_same(s->play->zone[s->region_at], s->play->zone[z]);
}

static void spread(struct spot_fleet_state *s, size_t target)
{
    const size_t n = s->policy == SPOT_FLEET_EVEN ? s->play->n_zone : s->region_n;
    size_t place = 0;

    for (size_t z = 0; z < s->play->n_zone; z++) {
        if (!is_spread_over(s, z))
            continue;
        const size_t want = target / n + (place++ < target % n);

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

    if (s->policy == SPOT_FLEET_ON_DEMAND)
        return wanted;
    if (s->policy == SPOT_FLEET_PEAK)
        return (size_t)s->play->wanted;
    if (s->policy == SPOT_FLEET_ASG)
        return (wanted + 9) / 10;
    if (s->play->fallback == SPOT_FLEET_FOR_READY && ready < target)
        return target - ready < wanted ? target - ready : wanted;
    if (s->play->fallback == SPOT_FLEET_FOR_LAUNCHED && s->n_unit < wanted)
        return wanted - s->n_unit;
    return 0;
}

void spot_fleet_place(struct spot_fleet_state *s)
{
    const size_t target = s->wanted + (size_t)s->play->extra;

    if (s->policy == SPOT_FLEET_ROUND_ROBIN || s->policy == SPOT_FLEET_HEDGE ||
        s->policy == SPOT_FLEET_REPAIRED)
        fill(s, target);
    else if (s->policy != SPOT_FLEET_ON_DEMAND && s->policy != SPOT_FLEET_PEAK)
        spread(s, target - (s->policy == SPOT_FLEET_ASG ? (s->wanted + 9) / 10 : 0));
    spot_fleet_set_on_demand(s, fall_back(s));
}
