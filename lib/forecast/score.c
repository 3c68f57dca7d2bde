/* SPDX-License-Identifier: MIT */
#include "forecast/score.h"

#include <math.h>
#include <stdlib.h>

#include "forecast/pmf.h"

/* The part of [lo, hi] that lies in [from, to]; if it is a point, 1 if inside. */
static double share_inside(double lo, double hi, double from, double to)
{
    if (hi - lo < 1e-12)
        return lo >= from && lo < to;
    return fmax(0, fmin(hi, to) - fmax(lo, from)) / (hi - lo);
}

void spot_score_add_pit(struct spot_score *score, double lo, double hi)
{
    score->n++;
    score->cover_sum += share_inside(lo, hi, 0.1, 0.9);
    for (int i = 0; i < SPOT_SCORE_PIT; i++)
        score->pit[i] +=
            share_inside(lo, hi, (double)i / SPOT_SCORE_PIT,
                         i + 1 < SPOT_SCORE_PIT ? (i + 1.0) / SPOT_SCORE_PIT : 1 + 1e-9);
}

void spot_score_add(struct spot_score *score, const double *p, int cap, int now, int y)
{
    const double lo = spot_pmf_below(p, y), hi = fmin(lo + p[y], 1);
    const double drop = spot_pmf_below(p, now) - (y < now);

    score->abs_sum += abs(spot_pmf_quantile(p, cap, 0.5) - y);
    score->crps_sum += spot_pmf_crps(p, cap, y);
    score->brier_sum += drop * drop;
    spot_score_add_pit(score, lo, hi);
}

void spot_score_merge(struct spot_score *sum, const struct spot_score *part)
{
    sum->n += part->n;
    sum->abs_sum += part->abs_sum;
    sum->crps_sum += part->crps_sum;
    sum->brier_sum += part->brier_sum;
    sum->cover_sum += part->cover_sum;
    for (int i = 0; i < SPOT_SCORE_PIT; i++)
        sum->pit[i] += part->pit[i];
}
