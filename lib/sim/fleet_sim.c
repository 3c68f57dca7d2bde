/* SPDX-License-Identifier: MIT */
#include "sim/fleet_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/fleet_play.h"

static int place_on_demand(struct spot_fleet_state *s, struct spot_err *err)
{
    (void)err;
    spot_fleet_set_on_demand(s, s->player->kind == SPOT_FLEET_PEAK ? (size_t)s->play->wanted
                                                                   : s->wanted);
    return 0;
}

const struct spot_fleet_player spot_fleet_players[] = {
    { "on-demand", "the replicas wanted, on demand", place_on_demand, SPOT_FLEET_ON_DEMAND,
      .fallback = SPOT_FLEET_ALONE },
    { "on-demand-peak", "the most that are ever wanted, on demand, always", place_on_demand,
      SPOT_FLEET_PEAK, .fallback = SPOT_FLEET_ALONE },
    { "spot", "ours: zones and spares by the forecast, on demand while spot is missing",
      spot_fleet_ours_place, SPOT_FLEET_SPOT, .open = spot_fleet_ours_open,
      .close = spot_fleet_ours_close },
    { "omniscient", "least cost with the whole trace known", .know = spot_fleet_omniscient },
    { 0 },
};

void spot_fleet_defaults(struct spot_fleet_play *play, const struct spot_fleet_player *player)
{
    play->extra = player->extra;
    play->fallback = player->fallback;
}

bool spot_fleet_launch(struct spot_fleet_state *s, size_t zone)
{
    if (s->in_zone[zone] >= s->room[zone]) {
        s->total->failed++;
        return false;
    }
    s->unit = spot_xgrow(s->unit, &s->cap_unit, s->n_unit + 1, sizeof(*s->unit));
    s->unit[s->n_unit++] = (struct spot_fleet_unit){ zone, s->t };
    s->in_zone[zone]++;
    s->total->spot_launches++;
    return true;
}

void spot_fleet_end_unit(struct spot_fleet_state *s, size_t unit)
{
    s->in_zone[s->unit[unit].zone]--;
    memmove(s->unit + unit, s->unit + unit + 1, (--s->n_unit - unit) * sizeof(*s->unit));
}

void spot_fleet_set_on_demand(struct spot_fleet_state *s, size_t n)
{
    s->on_demand = spot_xgrow(s->on_demand, &s->cap_on_demand, n + 1, sizeof(*s->on_demand));
    for (; s->n_on_demand < n; s->n_on_demand++) {
        s->on_demand[s->n_on_demand] = s->t;
        s->total->on_demand_launches++;
    }
    s->n_on_demand = n;
}

size_t spot_fleet_ready(const struct spot_fleet_state *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_unit; i++)
        n += spot_fleet_is_ready(s, s->unit[i].born);
    return n;
}

/* In zones with less room than replicas, the newest replicas are lost. */
static void preempt(struct spot_fleet_state *s)
{
    for (size_t z = 0; z < s->play->n_zone; z++)
        for (size_t i = s->n_unit; s->in_zone[z] > s->room[z] && i-- > 0;) {
            if (s->unit[i].zone != z)
                continue;
            spot_fleet_end_unit(s, i);
            s->total->preempted++;
            if (s->player->lost)
                s->player->lost(s, z);
        }
}

/* The load of a tick, in replicas. */
static double load_at(const struct spot_fleet_play *play, size_t t)
{
    return play->load ? play->load[t] : play->wanted;
}

/* An unlimited queue: requests that do not fit wait until there is room. Its mean length divided by
 * the arrival rate is the mean wait (Little). */
static void queue(struct spot_fleet_state *s, double load, double ready)
{
    s->backlog = fmax(0, s->backlog + load - ready);
    s->total->wait_s += s->backlog * s->play->tick_s;
}

/* Count the replicas that serve from `wait` ticks after their launch on. */
static void count_serving(const struct spot_fleet_state *s, double wait,
                          struct spot_fleet_step *step)
{
    step->spot_ready = step->on_demand_ready = 0;
    for (size_t i = 0; i < s->n_unit; i++)
        step->spot_ready += (double)s->unit[i].born + wait <= (double)s->t;
    for (size_t i = 0; i < s->n_on_demand; i++)
        step->on_demand_ready += (double)s->on_demand[i] + wait <= (double)s->t;
}

/* What the replicas that are ready serve in `share` of a tick. */
static double serve(struct spot_fleet_state *s, double wait, double share,
                    struct spot_fleet_step *step)
{
    const double load = load_at(s->play, s->t);
    double n;

    count_serving(s, wait, step);
    n = step->spot_ready + step->on_demand_ready;
    s->total->availability += n >= load ? share : 0;
    step->unserved += share * fmax(0, load - n);
    return share * n;
}

double spot_fleet_turn_tick(const struct spot_fleet_play *play)
{
    const double wait = (double)play->cold - play->early;

    return wait > floor(wait) ? wait - floor(wait) : 1;
}

static void account(struct spot_fleet_state *s, struct spot_fleet_step *step)
{
    const struct spot_fleet_play *play = s->play;
    const double hours = play->tick_s / 3600;
    const double wait = (double)play->cold - play->early, turn = spot_fleet_turn_tick(play);
    double spot = 0, demand = (double)s->n_on_demand * play->on_demand_usd_per_h * hours, n;
    struct spot_fleet_step now = { 0 };
    int first;

    for (size_t i = 0; i < s->n_unit; i++)
        spot += play->usd_per_h[s->unit[i].zone] * hours;
    s->total->usd += spot + demand;
    s->total->on_demand_share += demand;
    n = serve(s, ceil(wait), turn, &now);
    first = now.spot_ready + now.on_demand_ready;
    n += serve(s, floor(wait), 1 - turn, &now);
    s->total->unserved_share += now.unserved;
    if (play->load)
        queue(s, load_at(play, s->t), n);
    if (!step)
        return;
    step->ready_first = first;
    step->spot = (int)s->n_unit;
    step->spot_ready = now.spot_ready;
    step->on_demand = (int)s->n_on_demand;
    step->on_demand_ready = now.on_demand_ready;
    step->unserved = now.unserved;
    step->usd = spot + demand;
}

static void finish(const struct spot_fleet_play *play, struct spot_fleet_result *r)
{
    double load = 0, whole = 0;

    for (size_t t = 0; t < play->n_tick; t++) {
        load += load_at(play, t);
        whole += ceil(load_at(play, t) - 1e-9);
    }
    r->availability /= (double)play->n_tick;
    r->unserved_share /= fmax(load, 1e-300);
    r->wait_s /= fmax(load, 1e-300);
    r->on_demand_share = r->usd > 0 ? r->on_demand_share / r->usd : 0;
    r->cost_ratio =
        r->usd / (fmax(whole, 1e-300) * play->on_demand_usd_per_h * play->tick_s / 3600);
}

static int check(const struct spot_fleet_play *play, struct spot_err *err)
{
    bool is_sound =
        play->on_demand_usd_per_h > 0 && play->tick_s > 0 && play->early <= (double)play->cold;

    if (!play->n_tick || !play->n_zone || play->n_zone > SPOT_FLEET_ZONES_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "a fleet needs 1 to %d zones, here are %zu",
                            SPOT_FLEET_ZONES_MAX, play->n_zone);
    if (play->wanted < 1 || play->wanted > SPOT_FLEET_REPLICAS_MAX || play->extra < 0 ||
        play->extra > SPOT_FLEET_REPLICAS_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "a fleet has 1 to %d replicas, not %d and %d more",
                            SPOT_FLEET_REPLICAS_MAX, play->wanted, play->extra);
    for (size_t z = 0; z < play->n_zone; z++)
        is_sound = is_sound && play->usd_per_h[z] > 0;
    if (!is_sound || !(play->availability > 0 && play->availability < 1))
        return spot_err_set(err, SPOT_EUSAGE,
                            "prices and ticks are above 0, an availability is between 0 and 1, and "
                            "nothing serves before its launch");
    return 0;
}

static int step_once(struct spot_fleet_state *s, int32_t *in_zone, struct spot_err *err)
{
    const size_t n_zone = s->play->n_zone;

    s->room = s->play->count + s->t * n_zone;
    s->wanted = (size_t)(s->play->asked ? s->play->asked[s->t] : s->play->wanted);
    preempt(s);
    if (s->player->place(s, err))
        return -1;
    account(s, s->step ? s->step + s->t : NULL);
    for (size_t z = 0; in_zone && z < n_zone; z++)
        in_zone[s->t * n_zone + z] = s->in_zone[z];
    return 0;
}

int spot_fleet_play_run(const struct spot_fleet_play *play, const struct spot_fleet_player *player,
                        struct spot_fleet_result *result, struct spot_fleet_step *step,
                        int32_t *in_zone, struct spot_err *err)
{
    struct spot_fleet_state s = { .play = play, .player = player, .step = step, .total = result };
    int rc = 0;

    *result = (struct spot_fleet_result){ 0 };
    if (check(play, err))
        return -1;
    if (player->know) {
        if (player->know(play, result, step, in_zone, err))
            return -1;
        finish(play, result);
        return 0;
    }
    s.in_zone = spot_xcalloc(play->n_zone, sizeof(*s.in_zone));
    if (player->open)
        player->open(&s);
    for (s.t = 0; !rc && s.t < play->n_tick; s.t++)
        rc = step_once(&s, in_zone, err);
    finish(play, result);
    if (player->close)
        player->close(&s);
    free(s.in_zone);
    free(s.unit);
    free(s.on_demand);
    return rc;
}
