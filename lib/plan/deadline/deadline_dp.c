/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/deadline/deadline_grid.h"

enum { STATES = 2 * SPOT_RUN_STAGES, LEVELS_MIN = 64 };

/* The divisions of a tick in which a restart is a whole number; 4 if there are none. */
static int parts_of(const struct spot_deadline_job *job)
{
    for (int parts = 1; parts <= 5; parts++) {
        const double x = job->restart_s / job->tick_s * parts;

        if (fabs(x - round(x)) < 1e-9)
            return parts;
    }
    return 4;
}

struct solver {
    const struct spot_run_dist *dist;
    struct deadline_grid grid;
    int64_t n_mode, cells; /* a state's */
    double *value, *mean;  /* [STATES][n_mode][n_level]: at the tick, and expected before it */
};

/* Expected values a tick later, seen from each state. A run that is lost leaves spot idle. */
static void expect(struct solver *s)
{
    for (int64_t state = 0; state < STATES; state++) {
        const int64_t up = state / SPOT_RUN_STAGES, j = state % SPOT_RUN_STAGES;
        const double end = s->dist->end_prob[up][j];
        const double on = j + 1 < SPOT_RUN_STAGES ? (1 - end) / ldexp(1, (int)j) : 0;
        const double *ended = s->value + (1 - up) * SPOT_RUN_STAGES * s->cells;
        const double *stays = s->value + state * s->cells;
        const double *older = on > 0 ? stays + s->cells : stays;
        double *mean = s->mean + state * s->cells;

        for (int64_t i = 0; i < s->cells; i++)
            mean[i] = end * ended[i] + (1 - end - on) * stays[i] + on * older[i];
    }
}

static void relax_all(struct solver *s, int64_t ticks, int64_t from, uint8_t *action)
{
    const int64_t n_level = s->grid.n_level;

    for (int64_t state = 0; state < STATES; state++) {
        const bool up = state >= SPOT_RUN_STAGES;

        for (int64_t m = 0; m < s->n_mode; m++) {
            const bool is_lost = !up && m >= 1 && m <= s->grid.n_pending;
            double *value = s->value + state * s->cells + m * n_level;
            uint8_t *act = action ? action + state * s->cells + m * n_level : NULL;

            if (is_lost) { /* as idle, which is done */
                memcpy(value, s->value + state * s->cells, (size_t)n_level * sizeof(double));
                if (act)
                    memcpy(act, action + state * s->cells, (size_t)n_level);
                continue;
            }
            deadline_grid_relax(&s->grid, m, up, ticks, false, s->mean + state * s->cells, from,
                                value, act);
        }
    }
}

/* What each mode costs from now on. */
static void weigh(struct spot_deadline_table *table, const struct solver *s,
                  const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                  int64_t state)
{
    for (enum spot_deadline_mode want = SPOT_DEADLINE_IDLE; want <= SPOT_DEADLINE_ON_DEMAND;
         want++) {
        struct spot_deadline_now then = *now;
        double usd, level;
        int64_t below;
        const double *mean;

        table->usd[want] = INFINITY;
        if ((want == SPOT_DEADLINE_SPOT && !now->has_spot) ||
            !spot_deadline_is_safe(job, now, want))
            continue;
        usd = spot_deadline_step(job, &then, want);
        mean =
            s->mean + state * s->cells + deadline_grid_mode(&s->grid, job, &then) * table->n_level;
        level = fmin(then.left_s / table->unit_s, (double)(table->n_level - 1));
        below = (int64_t)floor(level + 1e-9);
        if (level - (double)below > 1e-9)
            table->usd[want] = usd + (1 - level + (double)below) * mean[below] +
                               (level - (double)below) * mean[below + 1];
        else
            table->usd[want] = usd + mean[below];
    }
}

int spot_deadline_solve(struct spot_deadline_table *table, const struct spot_deadline_job *job,
                        const struct spot_run_dist *dist, const struct spot_deadline_now *now,
                        size_t stage, const struct spot_deadline_effort *effort,
                        struct spot_err *err)
{
    const double cells = effort && effort->cells > 0 ? effort->cells : SPOT_DEADLINE_CELLS_MAX;
    double unit_s = job->tick_s / parts_of(job);
    const int64_t state = (now->has_spot ? SPOT_RUN_STAGES : 0) + (int64_t)stage;
    struct solver s = { .dist = dist };
    double all;

    memset(table, 0, sizeof(*table));
    table->n_tick = spot_deadline_ticks(job, now);
    for (;; unit_s *= 2) { /* coarser levels where the table would be too large */
        deadline_grid_init(&s.grid, job, now->left_s, unit_s);
        s.n_mode = 1 + 2 * s.grid.n_pending;
        s.cells = s.n_mode * s.grid.n_level;
        all = (double)(table->n_tick + 1) * STATES * (double)s.cells;
        if (all <= cells || (2 * unit_s > job->tick_s && all <= SPOT_DEADLINE_CELLS_MAX))
            break;
        if (s.grid.n_level < LEVELS_MIN)
            return spot_err_set(
                err, SPOT_EUSAGE,
                "%lld ticks of %g s with a restart of %g s are too many: use longer "
                "ticks",
                (long long)table->n_tick, job->tick_s, job->restart_s);
    }
    table->n_level = s.grid.n_level;
    table->n_pending = s.grid.n_pending;
    table->unit_s = unit_s;
    table->n_keep = effort && effort->keep_ticks > 0 && effort->keep_ticks < table->n_tick
                        ? effort->keep_ticks
                        : table->n_tick;
    table->action = spot_xcalloc((size_t)(table->n_keep * STATES), (size_t)s.cells);
    s.value = spot_xcalloc((size_t)(STATES * s.cells), sizeof(double));
    s.mean = spot_xcalloc((size_t)(STATES * s.cells), sizeof(double));
    for (int64_t k = 0; k < STATES * s.n_mode; k++)
        deadline_grid_finish(&s.grid, k % s.n_mode, s.value + k * s.grid.n_level);
    for (int64_t ticks = 1; ticks <= table->n_tick; ticks++) {
        const int64_t possible = (int64_t)ceil((double)(table->n_tick - ticks + 1) * s.grid.tick);
        const int64_t from = possible < s.grid.n_level ? s.grid.n_level - 1 - possible : 0;
        const int64_t row = ticks - 1 - (table->n_tick - table->n_keep);

        expect(&s);
        relax_all(&s, ticks, from, row >= 0 ? table->action + row * STATES * s.cells : NULL);
    }
    weigh(table, &s, job, now, state);
    free(s.value);
    free(s.mean);
    return 0;
}

void spot_deadline_release(struct spot_deadline_table *table)
{
    free(table->action);
    memset(table, 0, sizeof(*table));
}

enum spot_deadline_mode spot_deadline_ask(const struct spot_deadline_table *table,
                                          const struct spot_deadline_job *job,
                                          const struct spot_deadline_now *now, size_t stage)
{
    struct deadline_grid grid;
    const int64_t n_mode = 1 + 2 * table->n_pending;
    const int64_t state = (now->has_spot ? SPOT_RUN_STAGES : 0) + (int64_t)stage;
    int64_t level = llround(now->left_s / table->unit_s), row;
    const int64_t ticks = spot_deadline_ticks(job, now);
    enum spot_deadline_mode want;

    deadline_grid_init(&grid, job, now->left_s, table->unit_s);
    level = level < 1 ? 1 : level < table->n_level ? level : table->n_level - 1;
    row = ticks - 1 - (table->n_tick - table->n_keep);
    row = row < 0 ? 0 : row < table->n_keep ? row : table->n_keep - 1;
    if (now->left_s <= 0)
        return SPOT_DEADLINE_IDLE;
    want = table->action[((row * 2 * SPOT_RUN_STAGES + state) * n_mode +
                          deadline_grid_mode(&grid, job, now)) *
                             table->n_level +
                         level];
    if (spot_deadline_is_safe(job, now, want) && (want != SPOT_DEADLINE_SPOT || now->has_spot))
        return want;
    return now->mode == SPOT_DEADLINE_SPOT && spot_deadline_is_safe(job, now, SPOT_DEADLINE_SPOT)
               ? SPOT_DEADLINE_SPOT
               : SPOT_DEADLINE_ON_DEMAND;
}
