/* SPDX-License-Identifier: MIT */
/* The optimum when the whole series is known: backwards over ticks and levels of remaining work.
 *
 * With the future known no launch is ever abandoned, so a launch is one action that spans its
 * ticks, up to the one in which it completes. The remaining states are idle, by region, and
 * running, by offer: a place on spot or on demand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/deadline.h"

static const double BYTES_MAX = 1 << 30; /* size limit of the tables */

enum { PARTS = 30, OFFERS_MAX = 2 * SPOT_MARKET_PLACES_MAX, STOP = 0, STAY = 1, LAUNCH = 2 };

struct offer {
    struct spot_market_step step;
    size_t home; /* the idle row of its region */
};

struct ahead {
    const struct spot_market *market;
    const uint8_t *has_spot; /* [n_tick][n_place] */
    int64_t n_tick, n_level, n_layer;
    double unit_s;
    bool is_bound; /* a unit that has begun counts as done */
    struct offer offer[OFFERS_MAX];
    size_t n_offer;
    size_t place_of[SPOT_MARKET_PLACES_MAX + 1]; /* for each idle row, a place of its region */
    /* number of idle rows: one for each region with its own move costs; the last is "nothing
     * launched yet" */
    size_t n_home;
    double *value;   /* [n_layer][n_home + n_offer][n_level] */
    uint8_t *action; /* [n_tick][n_home + n_offer][n_level] */
};

static double *row_at(const struct ahead *a, int64_t tick, size_t row)
{
    return a->value +
           (((size_t)(tick % a->n_layer)) * (a->n_home + a->n_offer) + row) * (size_t)a->n_level;
}

/* Remaining work in units; below 1e-6 s the job is done, as in the simulator. */
static int64_t level_of(const struct ahead *a, double left_s)
{
    return (int64_t)fmax(0, ceil((left_s - 1e-6) / a->unit_s));
}

/* Places between which a move is free and takes no time share an idle row. */
static void find_homes(struct ahead *a)
{
    const struct spot_market *m = a->market;
    bool moves = m->egress_usd > 0;

    for (size_t k = 0; k < m->n_place; k++)
        moves = moves || m->place[k].leave_usd > 0 || m->place[k].leave_s > 0;
    for (size_t k = 0; k < m->n_place; k++) {
        size_t home = 0;

        while (home < a->n_home && moves &&
               m->place[a->place_of[home]].region != m->place[k].region)
            home++;
        if (home == a->n_home)
            a->place_of[a->n_home++] = k;
        for (size_t is_od = 0; is_od < 2; is_od++)
            if (!is_od || !isinf(m->place[k].on_demand_usd_per_h))
                a->offer[a->n_offer++] =
                    (struct offer){ { is_od ? SPOT_DEADLINE_ON_DEMAND : SPOT_DEADLINE_SPOT, k },
                                    home };
    }
    a->n_home++; /* the row "nothing launched yet" */
}

/* On demand in a region where another place sells it at the same price. */
static bool is_twin(const struct ahead *a, size_t i)
{
    const struct spot_market_place *p = &a->market->place[a->offer[i].step.place];

    for (size_t j = 0; j < i && a->offer[i].step.mode == SPOT_DEADLINE_ON_DEMAND; j++) {
        const struct spot_market_place *q = &a->market->place[a->offer[j].step.place];

        if (a->offer[j].step.mode == SPOT_DEADLINE_ON_DEMAND &&
            a->offer[j].home == a->offer[i].home && q->region == p->region &&
            q->speed == p->speed && !q->path[1] && !p->path[1] &&
            q->on_demand_usd_per_h == p->on_demand_usd_per_h)
            return true;
    }
    return false;
}

static double usd_at(const struct ahead *a, struct spot_market_step step, int64_t tick)
{
    return spot_market_usd_per_h(a->market, step, a->n_tick - tick) * a->market->tick_s / 3600;
}

static bool is_there(const struct ahead *a, const struct offer *o, int64_t tick)
{
    return o->step.mode == SPOT_DEADLINE_ON_DEMAND ||
           a->has_spot[tick * (int64_t)a->market->n_place + (int64_t)o->step.place];
}

static void take_less(double *value, uint8_t *action, int64_t c, double x, uint8_t code)
{
    if (x < value[c]) {
        value[c] = x;
        if (action)
            action[c] = code;
    }
}

/* Fill value and action[from..] for paying `usd` for some units of work and then continuing from
 * `then`. */
static void go_on(const struct ahead *a, double usd, double work, const double *then, uint8_t code,
                  double *value, uint8_t *action)
{
    const double done = a->is_bound ? ceil(work - 1e-9) : work;
    const int64_t whole = (int64_t)floor(done + 1e-9);
    const double part = done - (double)whole > 1e-9 ? done - (double)whole : 0;

    for (int64_t c = 1; c < a->n_level && c <= whole; c++)
        take_less(value, action, c, usd, code);
    for (int64_t c = whole + 1; c < a->n_level; c++) {
        const double x =
            usd + (1 - part) * then[c - whole] + (part > 0 ? part * then[c - whole - 1] : 0);

        if (x < value[c]) {
            value[c] = x;
            if (action)
                action[c] = code;
        }
    }
}

/* Launch offer i at a tick from an idle row. */
static void launch(const struct ahead *a, size_t home, size_t i, int64_t tick, double *value,
                   uint8_t *action)
{
    const struct spot_market *m = a->market;
    const struct offer *o = &a->offer[i];
    const struct spot_market_now now = { .place = a->place_of[home],
                                         .is_new = home + 1 == a->n_home };
    const double wait = (m->restart_s[0] + spot_market_move_s(m, &now, o->step.place)) / m->tick_s;
    const int64_t n = (int64_t)fmax(1, ceil(wait - 1e-9));
    double usd = spot_market_move_usd(m, &now, o->step.place);

    if (tick + n > a->n_tick)
        return;
    for (int64_t t = tick; t < tick + n; t++) {
        if (!is_there(a, o, t))
            return;
        usd += usd_at(a, o->step, t);
    }
    go_on(a, usd, ((double)n - wait) * m->tick_s / a->unit_s * m->place[o->step.place].speed,
          row_at(a, tick + n, a->n_home + i), (uint8_t)(LAUNCH + i), value, action);
}

static void relax_tick(const struct ahead *a, int64_t tick)
{
    const struct spot_market *m = a->market;
    const size_t n_row = a->n_home + a->n_offer, n_level = (size_t)a->n_level;
    uint8_t *action = a->action ? a->action + (size_t)tick * n_row * n_level : NULL;

    for (size_t home = 0; home < a->n_home; home++) {
        double *v = row_at(a, tick, home);
        uint8_t *code = action ? action + home * n_level : NULL;

        memcpy(v, row_at(a, tick + 1, home), n_level * sizeof(*v));
        for (size_t i = 0; i < a->n_offer; i++)
            if (is_there(a, &a->offer[i], tick) && !is_twin(a, i))
                launch(a, home, i, tick, v, code);
    }
    for (size_t i = 0; i < a->n_offer; i++) {
        const struct offer *o = &a->offer[i];
        double *v = row_at(a, tick, a->n_home + i);
        uint8_t *code = action ? action + (a->n_home + i) * n_level : NULL;

        memcpy(v, row_at(a, tick, o->home), n_level * sizeof(*v));
        if (is_there(a, o, tick) && !is_twin(a, i))
            go_on(a, usd_at(a, o->step, tick),
                  m->tick_s / a->unit_s * m->place[o->step.place].speed,
                  row_at(a, tick + 1, a->n_home + i), STAY, v, code);
    }
}

/* Follow the actions from the start. Where rounding leaves no action, run on demand. */
static void walk(const struct ahead *a, double usd, struct spot_market_step *step)
{
    const struct spot_market *m = a->market;
    struct spot_market_now now = { .left_s = m->work_s, .is_new = true };
    const size_t n_row = a->n_home + a->n_offer;
    size_t row = a->n_home - 1;
    int64_t until = 0; /* the current launch lasts until here */
    double restart_s = 0;

    for (int64_t t = 0; t < a->n_tick; t++) {
        const size_t level = (size_t)level_of(a, now.left_s);
        uint8_t code = STAY;

        step[t] = (struct spot_market_step){ SPOT_DEADLINE_IDLE, now.place };
        if (isinf(usd))
            step[t] = (struct spot_market_step){ SPOT_DEADLINE_ON_DEMAND, spot_market_refuge(m) };
        if (!level || isinf(usd))
            continue;
        if (t >= until)
            code = a->action[((size_t)t * n_row + row) * (size_t)a->n_level + level];
        if (row >= a->n_home && code == STOP) { /* decide as the idle row there does */
            row = a->offer[row - a->n_home].home;
            code = a->action[((size_t)t * n_row + row) * (size_t)a->n_level + level];
        }
        if (code >= LAUNCH) {
            const size_t i = code - LAUNCH;
            const struct spot_market_now was = { .place = a->place_of[row],
                                                 .is_new = row + 1 == a->n_home };

            restart_s = m->restart_s[0] + spot_market_move_s(m, &was, a->offer[i].step.place);
            until = t + (int64_t)fmax(1, ceil(restart_s / m->tick_s - 1e-9));
            row = a->n_home + i;
        }
        if (row >= a->n_home)
            step[t] = a->offer[row - a->n_home].step;
        if (step[t].mode != SPOT_DEADLINE_IDLE && now.mode == step[t].mode &&
            now.place == step[t].place && code >= LAUNCH)
            now.mode = SPOT_DEADLINE_IDLE; /* lost and available again at once: needs a launch */
        spot_market_take(m, &now, step[t], restart_s);
    }
}

static bool is_whole(double x)
{
    return fabs(x - round(x)) < 1e-9;
}

/* The number of parts of a tick in which restarts, moves and speeds are whole numbers. */
static int find_parts(const struct spot_market *m)
{
    for (int parts = 1; parts < PARTS; parts++) {
        bool fits = true;

        for (size_t k = 0; k < m->n_place; k++) {
            const double part = parts * m->place[k].speed;

            fits = fits && is_whole(m->restart_s[0] / m->tick_s * part) && is_whole(part);
            for (size_t j = 0; j < m->n_place; j++)
                fits = fits && is_whole(m->place[j].leave_s / m->tick_s * part);
        }
        if (fits)
            return parts;
    }
    return PARTS;
}

static double solve(struct ahead *a)
{
    const size_t n_row = a->n_home + a->n_offer;

    for (int64_t layer = 0; layer < a->n_layer; layer++)
        for (size_t row = 0; row < n_row; row++)
            for (int64_t c = 1; c < a->n_level; c++)
                row_at(a, layer, row)[c] = INFINITY;
    for (int64_t t = a->n_tick - 1; t >= 0; t--)
        relax_tick(a, t);
    return row_at(a, 0, a->n_home - 1)[a->n_level - 1];
}

/* With units rounded down the result is a feasible policy, with units rounded up a bound. */
double spot_market_offline(const struct spot_market *market, const uint8_t *has_spot, size_t n_tick,
                           struct spot_market_step *step)
{
    struct ahead a = { .market = market, .has_spot = has_spot, .n_tick = (int64_t)n_tick };
    const int parts = find_parts(market);
    double longest_s = market->restart_s[0], usd;
    size_t n_row;

    for (size_t k = 0; k < market->n_place; k++)
        longest_s = fmax(longest_s, market->restart_s[0] + market->place[k].leave_s);
    a.unit_s = market->tick_s / parts;
    a.n_level = level_of(&a, market->work_s) + 1;
    a.n_layer = (int64_t)fmax(1, ceil(longest_s / market->tick_s - 1e-9)) + 1;
    find_homes(&a);
    n_row = a.n_home + a.n_offer;
    if (((double)n_tick + (double)a.n_layer * sizeof(double)) * (double)n_row * (double)a.n_level >
        BYTES_MAX)
        return NAN;
    a.value = spot_xcalloc((size_t)a.n_layer * n_row * (size_t)a.n_level, sizeof(double));
    if (step)
        a.action = spot_xcalloc(n_tick * n_row, (size_t)a.n_level);
    usd = solve(&a);
    if (step)
        walk(&a, usd, step);
    free(a.action);
    a.action = NULL;
    a.is_bound = true;
    if (parts == PARTS)
        usd = solve(&a);
    free(a.value);
    return usd;
}
