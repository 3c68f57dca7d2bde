/* SPDX-License-Identifier: MIT */
/* deadline_grid.h - one tick of the dynamic program, for a distribution and for a known future. */
#ifndef SPOT_PLAN_DEADLINE_DEADLINE_GRID_H
#define SPOT_PLAN_DEADLINE_DEADLINE_GRID_H

#include <stdint.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Modes at the start of a tick: 0 idle, 1 + k spot, 1 + n_pending + k on demand, both k + 1 ticks
 * after their launch; the last k has nothing pending. Work left is on levels of unit_s. */
struct deadline_grid {
    int64_t n_level, n_pending;
    double unit_s, tick, restart; /* the last two in units */
    double usd[3];                /* of a tick in each mode */
};

void deadline_grid_init(struct deadline_grid *grid, const struct spot_deadline_job *job,
                        double work_s, double unit_s);

int64_t deadline_grid_mode(const struct deadline_grid *grid, const struct spot_deadline_job *job,
                           const struct spot_deadline_now *now);

/* For `mode` with `ticks` left: value [n_level] and action [n_level] (may be NULL) from next
 * [n_mode][n_level], the values a tick later. If no step is safe the value is that of running on
 * demand to the end, late; with is_hard it is INFINITY. Levels below `from` are not computed. */
void deadline_grid_relax(const struct deadline_grid *grid, int64_t mode, bool has_spot,
                         int64_t ticks, bool is_hard, const double *next, int64_t from,
                         double *value, uint8_t *action);

/* The cost of on demand from `mode` to the end, at each level. */
void deadline_grid_finish(const struct deadline_grid *grid, int64_t mode, double *value);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_DEADLINE_GRID_H */
