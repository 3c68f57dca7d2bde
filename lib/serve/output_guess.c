/* SPDX-License-Identifier: MIT */
#include "serve/output_guess.h"

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
