/* SPDX-License-Identifier: MIT */
#include "sim/fleet_hazard.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/fleet_clock.h"
#include "trace/region.h"

enum { STAGES = 12 };
static const double prior_ends = 2; /* that the zones together count for in each */

struct place {
    double ended[STAGES], seen[STAGES];
    size_t age; /* ticks it has been there, 0: it is away */
};

struct spot_fleet_hazard {
    size_t n_zone, n_level, n_step;
    struct place *place; /* [n_zone][n_level] */
    double ended[STAGES], seen[STAGES];
    int32_t *before; /* [n_zone] room of the tick before */
    bool *changed;   /* [n_zone] */
    double *next;    /* [n_zone] of the clock */
    struct spot_fleet_clock *clock;
};

struct spot_fleet_hazard *spot_fleet_hazard_new(const char *const *zone, size_t n_zone,
                                                size_t n_level)
{
    struct spot_fleet_hazard *h = spot_xcalloc(1, sizeof(*h));
    size_t *region = spot_xcalloc(n_zone, sizeof(*region)), n = 0;

    for (size_t z = 0; z < n_zone; z++) {
        region[z] = n;
        for (size_t y = 0; y < z && region[z] == n; y++)
            if (spot_region_is_same(zone[z], zone[y]))
                region[z] = region[y];
        n += region[z] == n;
    }
    h->n_zone = n_zone;
    h->n_level = n_level;
    h->place = spot_xcalloc(n_zone * n_level, sizeof(*h->place));
    h->before = spot_xcalloc(n_zone, sizeof(*h->before));
    h->changed = spot_xcalloc(n_zone, sizeof(*h->changed));
    h->next = spot_xcalloc(n_zone, sizeof(*h->next));
    h->clock = spot_fleet_clock_new(region, n_zone);
    for (size_t z = 0; z < n_zone; z++)
        h->next[z] = 1;
    free(region);
    return h;
}

void spot_fleet_hazard_free(struct spot_fleet_hazard *h)
{
    spot_fleet_clock_free(h->clock);
    free(h->place);
    free(h->before);
    free(h->changed);
    free(h->next);
    free(h);
}

static size_t stage_of(size_t age)
{
    size_t stage = 0;

    while (age > 1 && stage + 1 < STAGES) {
        age /= 2;
        stage++;
    }
    return stage;
}

static void see(struct spot_fleet_hazard *h, size_t zone, size_t level, bool is_there)
{
    struct place *p = &h->place[zone * h->n_level + level];

    if (p->age) {
        const size_t stage = stage_of(p->age);

        p->seen[stage] += h->next[zone];
        h->seen[stage] += h->next[zone];
        p->ended[stage] += !is_there;
        h->ended[stage] += !is_there;
    }
    p->age = is_there ? p->age + 1 : 0;
}

void spot_fleet_hazard_step(struct spot_fleet_hazard *h, const int32_t *room)
{
    for (size_t z = 0; z < h->n_zone; z++) {
        h->changed[z] = h->n_step && room[z] != h->before[z];
        for (size_t level = 0; level < h->n_level; level++)
            see(h, z, level, (size_t)room[z] > level);
        h->before[z] = room[z];
    }
    h->n_step++;
    spot_fleet_clock_step(h->clock, h->changed);
    for (size_t z = 0; z < h->n_zone; z++)
        h->next[z] = spot_fleet_clock_next(h->clock, z);
}

double spot_fleet_hazard_lasts(const struct spot_fleet_hazard *h, size_t zone, size_t level,
                               size_t ticks)
{
    const struct place *p = &h->place[zone * h->n_level + level];
    const size_t stage = stage_of(p->age);
    /* a run of unknown kind ends with about half its age's inverse */
    const double first = 1 / (3 * ldexp(1, (int)stage));
    const double all = (1 + h->ended[stage]) / (1 / first + h->seen[stage]);
    const double own = (prior_ends + p->ended[stage]) / (prior_ends / all + p->seen[stage]);
    const double ticks_seen = h->next[zone] + (ticks > 1 ? (double)(ticks - 1) : 0);

    return pow(1 - fmin(0.999, own), ticks_seen);
}

void spot_fleet_hazard_restart(struct spot_fleet_hazard *h)
{
    for (size_t i = 0; i < h->n_zone * h->n_level; i++)
        h->place[i].age = 0;
    h->n_step = 0;
    spot_fleet_clock_restart(h->clock);
    for (size_t z = 0; z < h->n_zone; z++)
        h->next[z] = 1;
}
