/* SPDX-License-Identifier: MIT */
#include "peers/skynomad.h"

#include <math.h>
#include <stddef.h>

enum { RUNS_MAX = 512, TICKS_MAX = 4096 };

/* The margin of a change, usd/h: its base, and a part of V (defaults of the artifact). */
static const double MARGIN = 0.5, MARGIN_OF_VALUE = 0.05;

/* The virtual instance of a place: lengths in ticks of runs that ended, and the age of the current
 * run. */
struct virtual_instance {
    int ended[RUNS_MAX], n_ended; /* ascending */
    int age;
    double risk[TICKS_MAX]; /* risk of each tick by the hazard known then; < 0: no run */
    bool lost[TICKS_MAX];
};

struct nomad {
    struct virtual_instance of[SPOT_MARKET_PLACES_MAX];
    int tick;
};

/* The hazard at a lifetime: runs that ended there divided by runs that lasted as long, including
 * the current one. */
static double hazard_at(const struct virtual_instance *v, int first)
{
    int ends = 0;

    while (first + ends < v->n_ended && v->ended[first + ends] == v->ended[first])
        ends++;
    return (double)ends / (v->n_ended - first + (v->age >= v->ended[first]));
}

static void end_run(struct virtual_instance *v)
{
    int i = v->n_ended < RUNS_MAX ? v->n_ended++ : RUNS_MAX - 1;

    for (; i && v->ended[i - 1] > v->age; i--)
        v->ended[i] = v->ended[i - 1];
    v->ended[i] = v->age;
    v->age = 0;
}

/* The risk that a run ends between age - 1 and age; beyond all ended runs the last hazard is used.
 */
static double risk_of(const struct virtual_instance *v, int age)
{
    double last = 0;

    for (int i = 0; i < v->n_ended; i++) {
        if (i && v->ended[i] == v->ended[i - 1])
            continue;
        last = hazard_at(v, i);
        if (v->ended[i] == age)
            return last;
        if (v->ended[i] > age)
            return 0;
    }
    return last;
}

static void look(struct nomad *s, const struct spot_market *m, const struct spot_market_now *now)
{
    const int i = s->tick % TICKS_MAX;

    for (size_t k = 0; k < m->n_place; k++) {
        struct virtual_instance *v = &s->of[k];
        const bool was = v->age > 0;

        v->lost[i] = was && !now->has_spot[k];
        v->risk[i] = was ? risk_of(v, v->age) : 0;
        if (v->lost[i])
            end_run(v);
        v->age += now->has_spot[k];
    }
    s->tick++;
}

/* The highest ratio of losses to expected losses, over windows up to now in which at most one is
 * expected. */
static double volatility(const struct nomad *s, const struct virtual_instance *v)
{
    double risk = 0, most = 1;
    int lost = 0;

    for (int back = 1; back <= s->tick && back < TICKS_MAX; back++) {
        const int i = (s->tick - back) % TICKS_MAX;

        risk += v->risk[i];
        lost += v->lost[i];
        if (risk > 1)
            return most;
        if (risk > 1e-6)
            most = fmax(most, lost / risk);
    }
    return 1; /* too little was observed */
}

/* Expected remaining ticks of a run of this age. */
static double lifetime(const struct nomad *s, const struct virtual_instance *v)
{
    const double times = volatility(s, v);
    double sum = 0, alive = 1, last = 0;
    int age = v->age;

    for (int i = 0; i < v->n_ended; i++) {
        if (i && v->ended[i] == v->ended[i - 1])
            continue;
        last = hazard_at(v, i);
        if (v->ended[i] <= age)
            continue;
        sum += alive * (v->ended[i] - age);
        alive *= exp(-times * last);
        age = v->ended[i];
    }
    return last > 0 ? sum + alive / (1 - exp(-times * last)) : INFINITY;
}

/* Usd per hour of progress. */
static double value_of(const struct spot_market *m, const struct spot_market_now *now,
                       bool is_planned)
{
    const double done_s = m->work_s - now->left_s, planned = m->work_s / m->deadline_s;
    const double needed = now->left_s / fmax(m->deadline_s - now->elapsed_s, 1);
    double on_demand = INFINITY, spot = INFINITY;

    for (size_t k = 0; k < m->n_place; k++) {
        on_demand = fmin(on_demand, m->place[k].on_demand_usd_per_h);
        spot = fmin(spot, m->place[k].spot_usd_per_h);
    }
    return fmax(spot, on_demand * needed /
                          (is_planned || done_s <= 0 ? planned : done_s / now->elapsed_s));
}

static double utility(const struct spot_market *m, const struct spot_market_now *now,
                      struct spot_market_step step, double value, double last_s)
{
    const bool goes_on = step.mode == now->mode && step.place == now->place;
    const double restart_s =
        m->restart_s[m->n_restart - 1] + spot_market_move_s(m, now, step.place);
    const double usd = spot_market_usd_per_h(m, step, spot_market_ticks(m, now));
    const double speed = m->place[step.place].speed;

    if (step.mode == SPOT_DEADLINE_IDLE)
        return 0;
    if (goes_on)
        return value * speed - usd;
    if (step.mode == SPOT_DEADLINE_ON_DEMAND)
        last_s = fmax(m->deadline_s - now->elapsed_s, m->tick_s);
    return value * speed *
               (step.mode == SPOT_DEADLINE_ON_DEMAND ? 1 : fmax(0, last_s - restart_s) / last_s) -
           usd - spot_market_move_usd(m, now, step.place) / (last_s / 3600);
}

static struct spot_market_step follow(const struct spot_market *m,
                                      const struct spot_market_now *now, struct nomad *s,
                                      bool is_planned)
{
    const double value = value_of(m, now, is_planned);
    const double margin = now->mode == SPOT_DEADLINE_IDLE ? 0 : MARGIN + MARGIN_OF_VALUE * value;
    struct spot_market_step best = { now->mode, now->place };
    double most;

    look(s, m, now);
    most = utility(m, now, best, value, 0);
    if (most < 0) { /* going idle needs no margin */
        best.mode = SPOT_DEADLINE_IDLE;
        most = 0;
    }
    most += best.mode == SPOT_DEADLINE_IDLE ? 0 : margin;
    for (size_t k = 0; k < m->n_place; k++)
        for (enum spot_deadline_mode mode = SPOT_DEADLINE_SPOT; mode <= SPOT_DEADLINE_ON_DEMAND;
             mode++) {
            const struct spot_market_step step = { mode, k };
            const double last_s =
                fmin(lifetime(s, &s->of[k]) * m->tick_s, m->deadline_s - now->elapsed_s);
            double u;

            if ((mode == SPOT_DEADLINE_SPOT && !now->has_spot[k]) ||
                (mode == now->mode && k == now->place))
                continue;
            u = utility(m, now, step, value, fmax(last_s, 1));
            if (u > most) {
                most = u;
                best = step;
            }
        }
    return spot_market_settle(m, now, best);
}

static struct spot_market_step published(const struct spot_market *m,
                                         const struct spot_market_now *now, void *memory)
{
    return follow(m, now, memory, false);
}

static struct spot_market_step planned(const struct spot_market *m,
                                       const struct spot_market_now *now, void *memory)
{
    return follow(m, now, memory, true);
}

const struct spot_deadline_policy spot_skynomad[] = {
    { "skynomad", "most value of progress over the price (SkyNomad)", published,
      sizeof(struct nomad), false, false },
    { "skynomad-planned", "the same, progress valued by the pace planned at first", planned,
      sizeof(struct nomad), false, false },
    { 0 },
};
