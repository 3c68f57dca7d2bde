/* SPDX-License-Identifier: MIT */
#include "train/save_cost.h"

#include <math.h>

/* What is believed of a new measurement; and how many generations go by without one of calm. */
static const double trust = 0.3;
enum { MOST_BEGUN = 8 };

void spot_save_cost_begun(struct spot_save_cost *c)
{
    c->is_beside = true;
    c->n_begun++;
}

void spot_save_cost_ended(struct spot_save_cost *c)
{
    c->is_ended = true;
}

static void measure(struct spot_save_cost *c, double step_s)
{
    if (c->is_beside && c->calm_s > 0)
        c->excess_s += step_s - c->calm_s;
    else if (!c->is_beside)
        c->calm_s += (c->calm_s > 0 ? trust : 1) * (step_s - c->calm_s);
}

void spot_save_cost_step(struct spot_save_cost *c, double step_s, bool is_busy, bool is_usual)
{
    if (is_usual)
        measure(c, step_s);
    if (!c->is_beside)
        c->n_begun = 0;
    if (c->is_ended) {
        c->mean_s += trust * (c->excess_s - c->mean_s);
        c->excess_s = 0;
    }
    c->is_ended = false;
    c->is_beside = is_busy;
}

double spot_save_cost_s(const struct spot_save_cost *c)
{
    return fmax(0, c->mean_s);
}

bool spot_save_cost_wants_calm(const struct spot_save_cost *c)
{
    return c->n_begun >= MOST_BEGUN;
}
