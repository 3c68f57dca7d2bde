/* SPDX-License-Identifier: MIT */
/* Fewer sweeps: the next values are extrapolated from the changes of the last few sweeps (Anderson
 * 1965). This does not affect the result: a solve ends only when a sweep over all targets no longer
 * moves the values, wherever they came from. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

enum { DEPTH = 5 };

struct spot_liveput_speed {
    size_t n;     /* number of values */
    int kept, at; /* differences kept; the oldest is overwritten next */
    bool is_first;
    double *then, *moved;   /* [n] of the last sweep: its result, and how far it moved the values */
    double *d_then[DEPTH];  /* [n] differences of results from one sweep to the next */
    double *d_moved[DEPTH]; /* differences of the moves */
    double gram[DEPTH][DEPTH], last; /* inner products of d_moved; size of the last move */
};

struct spot_liveput_speed *spot_liveput_speed_new(size_t n)
{
    struct spot_liveput_speed *s = spot_xcalloc(1, sizeof(*s));
    double *memory = spot_xcalloc((2 + 2 * DEPTH) * n, sizeof(*memory));

    s->n = n;
    s->is_first = true;
    s->then = memory;
    s->moved = memory + n;
    for (int i = 0; i < DEPTH; i++) {
        s->d_then[i] = memory + (size_t)(2 + 2 * i) * n;
        s->d_moved[i] = memory + (size_t)(3 + 2 * i) * n;
    }
    return s;
}

void spot_liveput_speed_free(struct spot_liveput_speed *s)
{
    if (s)
        free(s->then);
    free(s);
}

static double product(const double *a, const double *b, size_t n)
{
    double sum[4] = { 0 };
    size_t i = 0;

    for (; i + 4 <= n; i += 4) /* unrolled for speed */
        for (size_t k = 0; k < 4; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Solve gram x = b by Cholesky, slightly damped; false if the rank is too low. */
static bool weigh(const struct spot_liveput_speed *s, double *x)
{
    double l[DEPTH][DEPTH];

    for (int i = 0; i < s->kept; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = s->gram[i][j] * (i == j ? 1 + 1e-10 : 1);

            for (int k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i == j && !(sum > 0))
                return false;
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
        for (int k = 0; k < i; k++)
            x[i] -= l[i][k] * x[k];
        x[i] /= l[i][i];
    }
    for (int i = s->kept - 1; i >= 0; i--) {
        for (int k = i + 1; k < s->kept; k++)
            x[i] -= l[k][i] * x[k];
        x[i] /= l[i][i];
    }
    return true;
}

/* Store the differences between this sweep and the last. */
static void keep(struct spot_liveput_speed *s, const double *value, const double *next)
{
    double *d_then = s->d_then[s->at], *d_moved = s->d_moved[s->at];

    for (size_t i = 0; i < s->n; i++) {
        const double moved = next[i] - value[i];

        d_then[i] = next[i] - s->then[i];
        d_moved[i] = moved - s->moved[i];
        s->then[i] = next[i];
        s->moved[i] = moved;
    }
    if (s->is_first) {
        s->is_first = false;
        return;
    }
    s->kept += s->kept < DEPTH;
    for (int k = 0; k < s->kept; k++)
        s->gram[s->at][k] = s->gram[k][s->at] = product(d_moved, s->d_moved[k], s->n);
    s->at = (s->at + 1) % DEPTH;
}

void spot_liveput_speed_up(struct spot_liveput_speed *s, const double *value, double *next)
{
    double x[DEPTH], size;

    keep(s, value, next);
    size = product(s->moved, s->moved, s->n);
    if (size > 4 * s->last) /* other targets are the best now: the history is useless */
        s->kept = s->at = 0;
    s->last = size;
    for (int k = 0; k < s->kept; k++)
        x[k] = product(s->d_moved[k], s->moved, s->n);
    if (!s->kept || !weigh(s, x))
        return;
    for (int k = 0; k < s->kept; k++)
        for (size_t i = 0; i < s->n; i++)
            next[i] -= x[k] * s->d_then[k][i];
}
