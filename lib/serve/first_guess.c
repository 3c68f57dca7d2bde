/* SPDX-License-Identifier: MIT */
#include "serve/first_guess.h"

#include <math.h>

static const double keeps = 0.95;        /* of the weight, with each that comes */
static const double differ_least = 1e-6; /* of the mean square: else all are of one length */

void spot_first_guess_note(struct spot_first_guess *g, double work, double s)
{
    g->n = keeps * g->n + 1;
    g->x = keeps * g->x + work;
    g->y = keeps * g->y + s;
    g->xx = keeps * g->xx + work * work;
    g->xy = keeps * g->xy + work * s;
}

double spot_first_guess_s(const struct spot_first_guess *g, double work)
{
    double mean, spread, slope;

    if (!(g->n > 0))
        return 0;
    mean = g->x / g->n;
    spread = g->xx / g->n - mean * mean;
    slope = spread > differ_least * g->xx / g->n
                ? fmax(0, (g->xy / g->n - mean * g->y / g->n) / spread)
                : 0;
    return fmax(0, g->y / g->n + slope * (work - mean));
}
