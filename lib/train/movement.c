/* SPDX-License-Identifier: MIT */
#include "train/movement.h"

#include <math.h>

#include "common/clock.h"

/* With fewer losses the lifetime of members is not estimated. */
enum { LOSSES_FEW = 3 };

/* Bundles sent in a step: initially those that fit into a share of its time; the limit is a
 * multiple of that. */
static const struct pace {
    double share, bearable;
} pace_for_grid = { 0.5, 1.1 }, pace_warm = { 0.05, 1.02 };

void spot_movement_members(struct spot_movement *m, size_t n)
{
    const double now_s = spot_clock_s();

    if (m->exposed_since_s > 0)
        m->exposed_s += (now_s - m->exposed_since_s) * (double)n;
    m->exposed_since_s = now_s;
}

double spot_movement_lasts_s(const struct spot_movement *m, double n)
{
    return m->n_gone < LOSSES_FEW ? INFINITY : m->exposed_s / (double)m->n_gone / n;
}

static const struct pace *pace_of(const struct spot_movement *m)
{
    return m->is_for_grid ? &pace_for_grid : &pace_warm;
}

double spot_movement_share(const struct spot_movement *m)
{
    return pace_of(m)->share;
}

void spot_movement_pace(struct spot_movement *m, double step_s)
{
    if (step_s <= pace_of(m)->bearable * m->usual_s)
        m->n_precopy *= 2;
    else if (m->n_precopy > 1)
        m->n_precopy /= 2;
}
