/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/deadline/market_grid.h"

enum { PARTS = 30 };

/* Walk from the start along the actions of each tick. */
static void walk(const struct market_grid *grid, const uint8_t *action, const uint8_t *has_spot,
                 int64_t n_tick, struct spot_market_step *step)
{
    const struct spot_market *m = grid->market;
    struct spot_market_now now = { .left_s = m->work_s, .is_new = true };

    for (int64_t t = 0; t < n_tick; t++) {
        const int64_t level = llround(now.left_s / grid->unit_s);
        uint8_t code;

        if (now.mode == SPOT_DEADLINE_SPOT &&
            !has_spot[t * (int64_t)m->n_place + (int64_t)now.place]) {
            now.mode = SPOT_DEADLINE_IDLE;
            now.pending = 0;
        }
        code = action[(t * grid->n_mode + market_grid_mode(grid, &now)) * grid->n_level + level];
        step[t] = level ? (struct spot_market_step){ code % 3, code / 3 }
                        : (struct spot_market_step){ SPOT_DEADLINE_IDLE, now.place };
        if (level)
            spot_market_take(m, &now, step[t], m->restart_s[0]);
    }
}

double spot_market_offline(const struct spot_market *market, const uint8_t *has_spot, size_t n_tick,
                           struct spot_market_step *step)
{
    struct spot_market m = *market;
    struct market_grid grid;
    const int64_t n = (int64_t)n_tick;
    double *value, *next, usd;
    uint8_t *action = NULL;
    size_t cells;

    m.n_restart = 1;
    m.restart_prob[0] = 1;
    market_grid_init(&grid, &m, m.work_s, PARTS);
    grid.is_hard = true;
    cells = (size_t)(grid.n_mode * grid.n_level);
    value = spot_xcalloc(cells, sizeof(double));
    next = spot_xcalloc(cells, sizeof(double));
    if (step)
        action = spot_xcalloc(n_tick, cells);
    for (size_t i = 0; i < cells; i++)
        value[i] = i % (size_t)grid.n_level ? INFINITY : 0;
    for (int64_t t = n - 1; t >= 0; t--) {
        bool up[SPOT_MARKET_PLACES_MAX];
        double *const keep = next;

        next = value;
        value = keep;
        for (size_t k = 0; k < m.n_place; k++)
            up[k] = has_spot[(size_t)t * m.n_place + k];
        market_grid_relax(&grid, up, n - t, next, 0, value,
                          action ? action + (size_t)t * cells : NULL);
    }
    usd = value[grid.n_mode * grid.n_level - 1];
    if (step)
        walk(&grid, action, has_spot, n, step);
    market_grid_release(&grid);
    free(action);
    free(value);
    free(next);
    return usd;
}
