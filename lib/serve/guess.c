/* SPDX-License-Identifier: MIT */
#include "serve/guess.h"

#include <math.h>

enum { REMEMBERED = 64 };

static int class_of(int64_t n_most)
{
    int k = 0;

    while (n_most > 1 && k < SPOT_OUTPUT_CLASSES - 1) {
        n_most /= 2;
        k++;
    }
    return k;
}

void spot_output_guess_note(struct spot_output_guess *g, int64_t n_most, int64_t n)
{
    const int k = class_of(n_most);

    if (n_most < 1)
        return;
    g->n[k] += g->n[k] < REMEMBERED;
    g->used[k] += (fmin(1, (double)n / (double)n_most) - g->used[k]) / g->n[k];
}

double spot_output_guess_left(const struct spot_output_guess *g, int64_t n_most, int64_t n)
{
    const int k = class_of(n_most);
    const double expected = (double)n_most * (g->n[k] ? g->used[k] : 0.5);
    const double rest = (double)(n_most - n);

    return rest <= 0 ? 0 : fmin(rest, fmax(expected - (double)n, rest / 8));
}

/* --- a first token --- */

static const double keeps = 0.95; /* factor of the weight of earlier observations at each new one */
static const double differ_least = 1e-6; /* variance / mean square below it counts as 0 */

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
