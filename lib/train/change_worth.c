/* SPDX-License-Identifier: MIT */
#include "train/change_worth.h"

#include <math.h>

/* An acceptable pause, and the acceptable cost of avoiding a longer one; both in steps. */
static const double unnoticed = 0.05, fair = 0.5;

/* E[min(X, t)] */
static double until_s(const struct spot_change_worth *w, double t)
{
    return isinf(w->lasts_s) ? t : -w->lasts_s * expm1(-t / w->lasts_s);
}

/* Expected samples at a rate between two times. */
static double between(const struct spot_change_worth *w, double per_s, double from_s, double to_s)
{
    return per_s * (until_s(w, to_s) - until_s(w, from_s));
}

double spot_change_cost(const struct spot_change_worth *w, enum spot_change_when when)
{
    const double precopy_s = w->moves_s + w->step_s, more = w->then_per_s - w->now_per_s;

    switch (when) {
    case SPOT_CHANGE_AT_ONCE:
        return between(w, w->then_per_s, 0, w->form_s + w->moves_s);
    case SPOT_CHANGE_PRECOPY:
        return between(w, w->then_per_s, 0, w->form_s) +
               between(w, more, w->form_s, w->form_s + precopy_s) +
               between(w, w->then_per_s, w->form_s + precopy_s, 2 * w->form_s + precopy_s);
    default:
        return more * w->lasts_s;
    }
}

enum spot_change_when spot_change_how(const struct spot_change_worth *w)
{
    const double more =
        spot_change_cost(w, SPOT_CHANGE_PRECOPY) - spot_change_cost(w, SPOT_CHANGE_AT_ONCE);
    const double bearable =
        w->moves_s > unnoticed * w->step_s ? fair * w->step_s * w->then_per_s : 0;

    return more < bearable ? SPOT_CHANGE_PRECOPY : SPOT_CHANGE_AT_ONCE;
}

bool spot_change_pays(const struct spot_change_worth *w)
{
    return w->then_per_s > w->now_per_s &&
           spot_change_cost(w, spot_change_how(w)) < spot_change_cost(w, SPOT_CHANGE_LATER);
}
