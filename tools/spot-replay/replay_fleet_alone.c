/* SPDX-License-Identifier: MIT */
/* spot-replay fleet --demand: one machine type by itself, as replicas of fleet_sim.h. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "replay_fleet.h"

/* One type by itself as replicas of fleet_sim: its offers, and the load in machines of that type.
 */
struct alone {
    struct spot_fleet_play play;
    size_t offer[SPOT_MIXED_OFFERS_MAX], on_demand; /* offers of the mixed play */
    const char *zone[SPOT_MIXED_OFFERS_MAX];
    double usd_per_h[SPOT_MIXED_OFFERS_MAX];
    int32_t *count, *asked;
    double *came;
};

static bool answers_all(const struct replay_mixed *m, size_t type)
{
    for (size_t b = 0; b < m->play.n_bucket; b++)
        if (!(m->per_s[b * m->play.n_type + type] > 0))
            return false;
    return true;
}

static void fill_alone(const struct replay_mixed *m, size_t type, struct alone *a)
{
    const struct spot_mixed_play *play = &m->play;
    const size_t n_tick = play->n_tick;
    double *seen;

    a->count = spot_xcalloc(n_tick * a->play.n_zone, sizeof(*a->count));
    a->asked = spot_xcalloc(n_tick, sizeof(*a->asked));
    a->came = spot_xcalloc(2 * n_tick, sizeof(*a->came));
    seen = a->came + n_tick;
    for (size_t t = 0; t < n_tick; t++) {
        for (size_t z = 0; z < a->play.n_zone; z++)
            a->count[t * a->play.n_zone + z] = m->count[t * play->n_spot + a->offer[z]];
        for (size_t b = 0; b < play->n_bucket; b++) {
            const double per_s = play->per_s[b * play->n_type + type];

            a->came[t] += play->load_per_s[t * play->n_bucket + b] / per_s;
            seen[t] += play->seen_per_s[t * play->n_bucket + b] / per_s;
        }
    }
    a->play.wanted = replay_autoscale(m->o, n_tick, a->came, seen, a->asked);
    a->play.count = a->count;
    a->play.load = a->came;
    a->play.asked = a->asked;
    a->play.zone = a->zone;
    a->play.usd_per_h = a->usd_per_h;
}

/* False if the type is not sold both on spot and on demand, or cannot serve every size. */
static bool open_alone(const struct replay_mixed *m, size_t type, struct alone *a)
{
    const struct spot_mixed_play *play = &m->play;

    *a = (struct alone){ .on_demand = play->n_offer };
    for (size_t k = 0; k < play->n_offer; k++) {
        if (play->offer[k].type != type)
            continue;
        if (k >= play->n_spot) {
            a->on_demand = k;
            continue;
        }
        a->offer[a->play.n_zone] = k;
        a->zone[a->play.n_zone] = play->offer[k].zone;
        a->usd_per_h[a->play.n_zone++] = play->offer[k].usd_per_h;
    }
    if (a->on_demand == play->n_offer || !a->play.n_zone || !answers_all(m, type))
        return false;
    a->play.on_demand_usd_per_h = play->offer[a->on_demand].usd_per_h;
    a->play.tick_s = play->tick_s;
    a->play.n_tick = play->n_tick;
    a->play.cold = play->cold;
    a->play.availability = 1 - play->unserved;
    fill_alone(m, type, a);
    return true;
}

static void close_alone(struct alone *a)
{
    free(a->count);
    free(a->asked);
    free(a->came);
}

static int play_alone(struct replay_mixed *m, const struct spot_fleet_player *policy, size_t type,
                      struct alone *a, struct spot_err *err)
{
    const struct spot_mixed_play *play = &m->play;
    const size_t n = play->n_tick, n_zone = a->play.n_zone;
    struct spot_fleet_step *step = spot_xcalloc(n, sizeof(*step));
    int32_t *in_zone = spot_xcalloc(n * n_zone, sizeof(*in_zone));
    struct spot_fleet_result result;
    int rc;

    spot_fleet_defaults(&a->play, policy);
    rc = spot_fleet_play_run(&a->play, policy, &result, step, in_zone, err);
    if (!rc) {
        struct spot_mixed_run *run = &replay_mixed_new_row(m, policy->name, m->type[type])->run;

        for (size_t t = 0; t < n; t++) {
            for (size_t z = 0; z < n_zone; z++)
                run->held[t * play->n_offer + a->offer[z]] = in_zone[t * n_zone + z];
            run->held[t * play->n_offer + a->on_demand] = step[t].on_demand;
            run->ready[t * play->n_type + type] = step[t].spot_ready + step[t].on_demand_ready;
        }
        run->preempted = result.preempted;
        spot_mixed_account(play, run);
    }
    free(step);
    free(in_zone);
    return rc;
}

int replay_mixed_alone(struct replay_mixed *m, const struct spot_fleet_player *policy,
                       struct spot_err *err)
{
    for (size_t g = 0; g < m->play.n_type; g++) {
        struct alone a;
        int rc = 0;

        if (open_alone(m, g, &a)) {
            if (a.play.wanted > SPOT_FLEET_REPLICAS_MAX)
                spot_tool_warn("left out: %s alone needs %d machines, more than %d", m->type[g],
                               a.play.wanted, SPOT_FLEET_REPLICAS_MAX);
            else
                rc = play_alone(m, policy, g, &a, err);
            close_alone(&a);
        }
        if (rc)
            return -1;
    }
    return 0;
}
