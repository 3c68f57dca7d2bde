/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/deadline/deadline_grid.h"

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static void swap(double **a, double **b)
{
    double *const keep = *a;

    *a = *b;
    *b = keep;
}

/* Walk from the start along the actions of each tick. */
static void walk(const struct deadline_grid *grid, const struct spot_deadline_job *job,
                 const uint8_t *action, const uint8_t *has_spot, int64_t ticks, uint8_t *mode)
{
    const int64_t n_mode = 1 + 2 * grid->n_pending;
    struct spot_deadline_now now = { .left_s = job->work_s };

    for (int64_t t = 0; t < ticks; t++) {
        const int64_t level = llround(now.left_s / grid->unit_s);
        int64_t m;

        if (now.mode == SPOT_DEADLINE_SPOT && !has_spot[t])
            now.mode = SPOT_DEADLINE_IDLE;
        m = deadline_grid_mode(grid, job, &now);
        mode[t] = level ? action[(t * n_mode + m) * grid->n_level + level] : SPOT_DEADLINE_IDLE;
        spot_deadline_step(job, &now, mode[t]);
    }
}

double spot_deadline_offline(const struct spot_deadline_job *job, const uint8_t *has_spot, size_t n,
                             uint8_t *mode)
{
    const int64_t tick = llround(job->tick_s), restart = llround(job->restart_s);
    const int64_t work = llround(job->work_s),
                  unit = common_divisor(work, common_divisor(tick, restart));
    struct deadline_grid grid;
    const struct spot_deadline_now start = { .left_s = job->work_s };
    const int64_t ticks = spot_deadline_ticks(job, &start);
    double *value, *next, usd;
    uint8_t *action = NULL;
    int64_t n_mode;

    if (fabs(job->tick_s - (double)tick) > 1e-6 || fabs(job->restart_s - (double)restart) > 1e-6 ||
        fabs(job->work_s - (double)work) > 1e-6)
        return NAN;
    if ((size_t)ticks > n)
        return NAN;
    deadline_grid_init(&grid, job, job->work_s, (double)unit);
    n_mode = 1 + 2 * grid.n_pending;
    value = spot_xcalloc((size_t)(n_mode * grid.n_level), sizeof(double));
    next = spot_xcalloc((size_t)(n_mode * grid.n_level), sizeof(double));
    if (mode)
        action = spot_xcalloc((size_t)(ticks * n_mode), (size_t)grid.n_level);
    for (int64_t i = 0; i < n_mode * grid.n_level; i++)
        value[i] = i % grid.n_level ? INFINITY : 0;
    for (int64_t t = ticks - 1; t >= 0; t--) {
        const int64_t possible = (t + 1) * tick / unit;
        const int64_t from = possible < grid.n_level ? grid.n_level - 1 - possible : 0;

        swap(&value, &next);
        for (int64_t m = 0; m < n_mode; m++) {
            const bool is_lost = !has_spot[t] && m >= 1 && m <= grid.n_pending;

            deadline_grid_relax(&grid, is_lost ? 0 : m, has_spot[t], ticks - t, true, next, from,
                                value + m * grid.n_level,
                                action ? action + (t * n_mode + m) * grid.n_level : NULL);
        }
    }
    usd = value[grid.n_level - 1];
    if (mode)
        walk(&grid, job, action, has_spot, ticks, mode);
    free(action);
    free(value);
    free(next);
    return usd;
}
