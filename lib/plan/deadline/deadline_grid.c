/* SPDX-License-Identifier: MIT */
#include "plan/deadline/deadline_grid.h"

#include <math.h>

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void deadline_grid_init(struct deadline_grid *grid, const struct spot_deadline_job *job,
                        double work_s, double unit_s)
{
    const double tick_h = job->tick_s / 3600;

    *grid = (struct deadline_grid){
        .n_level = (int64_t)ceil(work_s / unit_s - 1e-9) + 1,
        .n_pending = (int64_t)fmax(1, ceil(job->restart_s / job->tick_s - 1e-9)),
        .unit_s = unit_s,
        .tick = job->tick_s / unit_s,
        .restart = job->restart_s / unit_s,
        .usd = { 0, job->spot_usd_per_h * tick_h, job->on_demand_usd_per_h * tick_h },
    };
}

int64_t deadline_grid_mode(const struct deadline_grid *grid, const struct spot_deadline_job *job,
                           const struct spot_deadline_now *now)
{
    const double past = (job->restart_s - now->pending_s) / job->tick_s;
    const int64_t k = now->pending_s > 0 ? (int64_t)fmax(0, round(past) - 1) : grid->n_pending - 1;

    switch (now->mode) {
    case SPOT_DEADLINE_IDLE:
        return 0;
    case SPOT_DEADLINE_SPOT:
        return 1 + min_of(k, grid->n_pending - 1);
    case SPOT_DEADLINE_ON_DEMAND:
        return 1 + grid->n_pending + min_of(k, grid->n_pending - 1);
    }
    return 0;
}

/* Where a tick of `want` leads from `mode`: the mode then, and the units of work done. */
static int64_t lead(const struct deadline_grid *grid, int64_t mode, enum spot_deadline_mode want,
                    double *done)
{
    const int64_t first = want == SPOT_DEADLINE_SPOT ? 1 : 1 + grid->n_pending;
    const bool goes_on = mode >= first && mode < first + grid->n_pending;
    const int64_t age = goes_on ? mode - first + 1 : 0; /* ticks since the launch */
    const double pending =
        goes_on && age == grid->n_pending ? 0 : fmax(0, grid->restart - (double)age * grid->tick);

    *done = want == SPOT_DEADLINE_IDLE ? 0 : fmax(0, grid->tick - pending);
    return want == SPOT_DEADLINE_IDLE ? 0 : first + min_of(age, grid->n_pending - 1);
}

void deadline_grid_finish(const struct deadline_grid *grid, int64_t mode, double *value)
{
    double pending = grid->restart;

    if (mode > grid->n_pending) {
        const int64_t age = mode - grid->n_pending;

        pending = age == grid->n_pending ? 0 : fmax(0, grid->restart - (double)age * grid->tick);
    }
    value[0] = 0;
    for (int64_t c = 1; c < grid->n_level; c++)
        value[c] =
            grid->usd[SPOT_DEADLINE_ON_DEMAND] * ceil(((double)c + pending) / grid->tick - 1e-9);
}

/* Offer one action at the levels from..to. */
static void offer(const struct deadline_grid *grid, enum spot_deadline_mode want, double done,
                  const double *next, int64_t from, int64_t to, double *value, uint8_t *action)
{
    const int64_t whole = (int64_t)floor(done + 1e-9);
    const double part = fmax(0, done - (double)whole) > 1e-9 ? done - (double)whole : 0;
    const double usd = grid->usd[want];
    int64_t c = from;

    for (; c <= to && c <= whole + 1; c++) { /* work ends within the tick */
        const double here = c > whole ? next[c - whole] : 0;
        const double below = c > whole + 1 ? next[c - whole - 1] : 0;
        const double x = usd + (part > 0 ? (1 - part) * here + part * below : here);

        if (x < value[c]) {
            value[c] = x;
            if (action)
                action[c] = (uint8_t)want;
        }
    }
    for (; c <= to; c++) {
        const double x = part > 0 ? usd + (1 - part) * next[c - whole] + part * next[c - whole - 1]
                                  : usd + next[c - whole];
        const bool is_less = x < value[c];

        value[c] = is_less ? x : value[c];
        if (action)
            action[c] = is_less ? (uint8_t)want : action[c];
    }
}

void deadline_grid_relax(const struct deadline_grid *grid, int64_t mode, bool has_spot,
                         int64_t ticks, bool is_hard, const double *next, int64_t from,
                         double *value, uint8_t *action)
{
    const int64_t top = grid->n_level - 1;
    /* on demand, launched after this tick, still does this much */
    const double room = (double)(ticks - 1) * grid->tick - grid->restart;
    double done;
    int64_t then;

    for (int64_t c = from; c <= top; c++)
        value[c] = c ? INFINITY : 0;
    from = from > 1 ? from : 1;
    then = lead(grid, mode, SPOT_DEADLINE_ON_DEMAND, &done);
    if (action)
        for (int64_t c = from; c <= top; c++)
            action[c] = SPOT_DEADLINE_ON_DEMAND;
    offer(grid, SPOT_DEADLINE_ON_DEMAND, done, next + then * grid->n_level, from, top, value,
          action);
    for (enum spot_deadline_mode want = SPOT_DEADLINE_IDLE; want <= SPOT_DEADLINE_SPOT; want++) {
        double most;

        if (want == SPOT_DEADLINE_SPOT && !has_spot)
            continue;
        then = lead(grid, mode, want, &done);
        /* what ends within the tick needs no room */
        most = is_hard ? (double)top : fmax(floor(room + done + 1e-9), done + 1e-9);
        if (want == SPOT_DEADLINE_IDLE && most < 1)
            continue;
        offer(grid, want, done, next + then * grid->n_level, from, min_of((int64_t)most, top),
              value, action);
    }
}
