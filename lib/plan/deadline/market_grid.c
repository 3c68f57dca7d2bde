/* SPDX-License-Identifier: MIT */
#include "plan/deadline/market_grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { FRESH = -1 }; /* age of an instance launched now */

struct branch {
    int64_t mode;
    double prob, done; /* probability; work done, in units */
};

struct branches {
    struct branch of[SPOT_MARKET_RESTARTS_MAX + 1];
    size_t n;
    /* work done in the worst branch, units; restart time left after the tick, at most */
    double done_min, pending_max;
};

static bool is_whole(double x)
{
    return fabs(x - round(x)) < 1e-9;
}

void market_grid_set_unit(struct market_grid *grid, double work_s, double unit_s)
{
    grid->unit_s = unit_s;
    grid->tick = grid->market->tick_s / unit_s;
    grid->n_level = (int64_t)ceil(work_s / unit_s - 1e-9) + 1;
    free(grid->buffer);
    grid->buffer =
        spot_xcalloc((2 * grid->market->n_place + 1) * (size_t)grid->n_level, sizeof(double));
}

void market_grid_init(struct market_grid *grid, const struct spot_market *m, double work_s,
                      int parts_max)
{
    int parts = 1;

    for (; parts <= parts_max; parts++) {
        bool fits = true;

        for (size_t i = 0; i < m->n_restart; i++)
            for (size_t k = 0; k < m->n_place; k++)
                fits = fits && is_whole(m->restart_s[i] / m->tick_s * parts * m->place[k].speed) &&
                       is_whole(m->place[k].speed * parts);
        if (fits)
            break;
    }
    *grid = (struct market_grid){ .market = m };
    grid->n_age = (int64_t)fmax(1, ceil(m->restart_s[m->n_restart - 1] / m->tick_s - 1e-9));
    grid->n_mode = (int64_t)m->n_place * (1 + 2 * grid->n_age) + 1;
    market_grid_set_unit(grid, work_s, m->tick_s / (parts <= parts_max ? parts : 4));
}

void market_grid_release(struct market_grid *grid)
{
    free(grid->buffer);
    grid->buffer = NULL;
}

static int64_t mode_at(const struct market_grid *grid, enum spot_deadline_mode mode, size_t place,
                       int64_t age)
{
    const int64_t k = (int64_t)place, n = (int64_t)grid->market->n_place;

    return mode == SPOT_DEADLINE_IDLE
               ? k
               : n + (2 * k + (mode == SPOT_DEADLINE_ON_DEMAND)) * grid->n_age + age;
}

int64_t market_grid_mode(const struct market_grid *grid, const struct spot_market_now *now)
{
    if (now->is_new && now->mode == SPOT_DEADLINE_IDLE)
        return grid->n_mode - 1;
    return mode_at(grid, now->mode, now->place,
                   now->pending < grid->n_age ? now->pending : grid->n_age - 1);
}

double market_grid_late(const struct market_grid *grid, int64_t level)
{
    const struct spot_market *m = grid->market;
    const struct spot_market_step step = { SPOT_DEADLINE_ON_DEMAND, spot_market_refuge(m) };
    double ticks;

    if (!level)
        return 0;
    if (step.place == m->n_place)
        return spot_market_late_usd(m) * (1 + (double)level / (double)grid->n_level);
    ticks = ceil((double)level / grid->tick / m->place[step.place].speed +
                 spot_market_longest(m, step.place) / m->tick_s - 1e-9);
    return ticks * spot_market_usd_per_h(m, step, 0) * m->tick_s / 3600;
}

/* The outcomes of a tick that begins `age` ticks after a launch. */
static void branch(const struct market_grid *grid, enum spot_deadline_mode mode, size_t place,
                   int64_t age, struct branches *b)
{
    const struct spot_market *m = grid->market;
    const double speed = m->place[place].speed;
    const int64_t begun = age > 0 ? age : 0;
    double all = 0, later = 0;

    *b = (struct branches){ .done_min = grid->tick * speed };
    if (!age) {
        b->of[b->n++] = (struct branch){ mode_at(grid, mode, place, 0), 1, grid->tick * speed };
        return;
    }
    for (size_t i = 0; i < m->n_restart; i++) {
        /* restart time left, in ticks */
        const double left = m->restart_s[i] / m->tick_s - (double)begun;
        const double done = grid->tick * speed * fmin(1, 1 - left);

        if (begun && left <= 1e-9)
            continue; /* the restart would be complete */
        all += m->restart_prob[i];
        if (left > 1 + 1e-9) {
            later += m->restart_prob[i];
            b->pending_max = (left - 1) * grid->tick;
            b->done_min = 0;
            continue;
        }
        b->of[b->n++] =
            (struct branch){ mode_at(grid, mode, place, 0), m->restart_prob[i], fmax(0, done) };
        b->done_min = fmin(b->done_min, fmax(0, done));
    }
    if (later > 0)
        b->of[b->n++] = (struct branch){ mode_at(grid, mode, place, begun + 1), later, 0 };
    for (size_t i = 0; i < b->n; i++)
        b->of[i].prob /= all;
}

/* The highest level of remaining work from which the tick is safe. */
static int64_t most_of(const struct market_grid *grid, enum spot_deadline_mode mode, size_t place,
                       const struct branches *b, int64_t ticks)
{
    const struct spot_market *m = grid->market;
    const double left = (double)(ticks - 1) * grid->tick;
    const size_t refuge = spot_market_refuge(m);
    double room;

    if (refuge == m->n_place)
        return grid->n_level - 1;
    room = m->place[refuge].speed * (left - spot_market_longest(m, refuge) / grid->unit_s);

    if (mode == SPOT_DEADLINE_ON_DEMAND)
        room = fmax(room, m->place[place].speed * (left - b->pending_max));
    return (int64_t)fmin((double)(grid->n_level - 1),
                         /* the job may end within the tick */
                         floor(fmax(0, room) + b->done_min + 1e-9));
}

/* x[from..to] of a tick: its cost and the value after it. */
static void expect(const struct market_grid *grid, double usd, const struct branches *b,
                   const double *next, int64_t from, int64_t to, double *x)
{
    for (int64_t c = from; c <= to; c++)
        x[c] = usd;
    for (size_t i = 0; i < b->n; i++) {
        const double *then = next + b->of[i].mode * grid->n_level;
        const int64_t whole = (int64_t)floor(b->of[i].done + 1e-9);
        const double part = fmax(0, b->of[i].done - (double)whole);
        const double here = b->of[i].prob * (part < 1e-9 ? 1 : 1 - part);
        const double below = part < 1e-9 ? 0 : b->of[i].prob * part;

        for (int64_t c = from > whole + 1 ? from : whole + 1; c <= to; c++)
            x[c] += here * then[c - whole] + (below > 0 ? below * then[c - whole - 1] : 0);
    }
}

static double usd_of(const struct market_grid *grid, enum spot_deadline_mode mode, size_t place,
                     int64_t ticks)
{
    const struct spot_market *m = grid->market;
    const struct spot_market_step step = { mode, place };

    return spot_market_usd_per_h(m, step, ticks) * m->tick_s / 3600;
}

static bool can(const struct market_grid *grid, const bool *has_spot, enum spot_deadline_mode mode,
                size_t place)
{
    return mode == SPOT_DEADLINE_SPOT ? has_spot[place]
                                      : !isinf(grid->market->place[place].on_demand_usd_per_h);
}

static void keep_less(const double *x, double more, int64_t from, int64_t to, uint8_t code,
                      double *value, uint8_t *action)
{
    for (int64_t c = from; c <= to; c++) {
        const bool is_less = x[c] + more < value[c];

        value[c] = is_less ? x[c] + more : value[c];
        if (action)
            action[c] = is_less ? code : action[c];
    }
}

/* The expected cost of every launch now, and the highest level from which it is safe. */
static void launch(const struct market_grid *grid, const bool *has_spot, int64_t ticks,
                   const double *next, int64_t from, int64_t *to)
{
    for (size_t k = 0; k < grid->market->n_place; k++)
        for (enum spot_deadline_mode mode = SPOT_DEADLINE_SPOT; mode <= SPOT_DEADLINE_ON_DEMAND;
             mode++) {
            const size_t i = 2 * k + (mode == SPOT_DEADLINE_ON_DEMAND);
            struct branches b;

            to[i] = 0;
            if (!can(grid, has_spot, mode, k))
                continue;
            branch(grid, mode, k, FRESH, &b);
            to[i] = most_of(grid, mode, k, &b, ticks);
            expect(grid, usd_of(grid, mode, k, ticks), &b, next, from, to[i],
                   grid->buffer + (int64_t)i * grid->n_level);
        }
}

/* What a mode of the grid stands for. */
struct held {
    enum spot_deadline_mode mode;
    size_t place;
    int64_t age;
    bool is_new; /* nothing was ever launched */
};

static struct held held_in(const struct market_grid *grid, int64_t i)
{
    const int64_t n = (int64_t)grid->market->n_place, j = i - n;

    if (i == grid->n_mode - 1)
        return (struct held){ .mode = SPOT_DEADLINE_IDLE, .is_new = true };
    if (i < n)
        return (struct held){ .mode = SPOT_DEADLINE_IDLE, .place = (size_t)i };
    return (struct held){
        .mode = j / grid->n_age % 2 == 1 ? SPOT_DEADLINE_ON_DEMAND : SPOT_DEADLINE_SPOT,
        .place = (size_t)(j / (2 * grid->n_age)),
        .age = j % grid->n_age,
    };
}

/* One mode: continue, stop, or launch. */
static void relax_mode(const struct market_grid *grid, const struct held *held, int64_t ticks,
                       const double *next, int64_t from, const int64_t *to, double *value,
                       uint8_t *action)
{
    const struct spot_market *m = grid->market;
    const enum spot_deadline_mode mode = held->mode;
    const size_t place = held->place;
    double *x = grid->buffer + 2 * (int64_t)m->n_place * grid->n_level;
    const struct branches still = {
        .of = { { held->is_new ? grid->n_mode - 1 : mode_at(grid, SPOT_DEADLINE_IDLE, place, 0), 1,
                  0 } },
        .n = 1,
    };
    const int64_t idle_to = most_of(grid, SPOT_DEADLINE_IDLE, place, &still, ticks);

    if (mode != SPOT_DEADLINE_IDLE) {
        struct branches b;
        int64_t stay_to;

        branch(grid, mode, place, held->age, &b);
        stay_to = most_of(grid, mode, place, &b, ticks);
        expect(grid, usd_of(grid, mode, place, ticks), &b, next, from, stay_to, x);
        keep_less(x, 0, from, stay_to, (uint8_t)(3 * place + mode), value, action);
    }
    expect(grid, usd_of(grid, SPOT_DEADLINE_IDLE, place, ticks), &still, next, from, idle_to, x);
    keep_less(x, 0, from, idle_to, (uint8_t)(3 * place), value, action);
    for (size_t i = 0; i < 2 * m->n_place; i++) {
        const enum spot_deadline_mode want = i % 2 ? SPOT_DEADLINE_ON_DEMAND : SPOT_DEADLINE_SPOT;
        const struct spot_market_now now = { .place = place, .is_new = held->is_new };
        /* the time of a move is charged at the price paid during it */
        const double more =
            spot_market_move_usd(m, &now, i / 2) +
            spot_market_move_s(m, &now, i / 2) / m->tick_s * usd_of(grid, want, i / 2, ticks);

        if (to[i] && !(want == mode && i / 2 == place))
            keep_less(grid->buffer + (int64_t)i * grid->n_level, more, from, to[i],
                      (uint8_t)(3 * (i / 2) + want), value, action);
    }
}

void market_grid_relax(const struct market_grid *grid, const bool *has_spot, int64_t ticks,
                       const double *next, int64_t from, double *value, uint8_t *action)
{
    const struct spot_market *m = grid->market;
    const size_t place = spot_market_refuge(m);
    const uint8_t refuge = place < m->n_place ? (uint8_t)(3 * place + SPOT_DEADLINE_ON_DEMAND) : 0;
    int64_t to[2 * SPOT_MARKET_PLACES_MAX];

    from = from > 1 ? from : 1;
    launch(grid, has_spot, ticks, next, from, to);
    for (int64_t i = 0; i < grid->n_mode; i++) {
        const struct held held = held_in(grid, i);
        const size_t lost = held.place;
        double *v = value + i * grid->n_level;
        uint8_t *a = action ? action + i * grid->n_level : NULL;

        /* spot was lost: same as idle, which is already computed */
        if (held.mode == SPOT_DEADLINE_SPOT && !has_spot[lost]) {
            memcpy(v, value + (int64_t)lost * grid->n_level, (size_t)grid->n_level * sizeof(*v));
            if (a)
                memcpy(a, action + (int64_t)lost * grid->n_level, (size_t)grid->n_level);
            continue;
        }
        v[0] = 0;
        for (int64_t c = from; c < grid->n_level; c++)
            v[c] = INFINITY;
        if (a)
            memset(a + from, refuge, (size_t)(grid->n_level - from));
        relax_mode(grid, &held, ticks, next, from, to, v, a);
        for (int64_t c = grid->n_level - 1; c >= from && isinf(v[c]); c--)
            v[c] = market_grid_late(grid, c);
    }
}
