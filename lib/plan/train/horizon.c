/* SPDX-License-Identifier: MIT */
#include "plan/train/horizon.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/simd.h"
#include "common/xalloc.h"

static const double UNSEEN = 1e-7; /* probability of each size of change that was never observed */
enum { ROUNDS_MAX = 200 };         /* limit on the rounds of fitting */
static const double MET = 1e-6;    /* accuracy with which distributions must be met */

static int counts_of(const struct spot_horizon *h)
{
    return h->n_max - h->n_low + 1;
}

/* From one row of counts to the next: whole vectors of four. */
static size_t row_of(const struct spot_horizon *h)
{
    return ((size_t)counts_of(h) + 3) / 4 * 4;
}

static double *kernel_of(const struct spot_horizon *h, int step, int i)
{
    return h->next + ((size_t)(step - 1) * (size_t)counts_of(h) + (size_t)i) * row_of(h);
}

const double *spot_horizon_next(const struct spot_horizon *h, int step, int count)
{
    return kernel_of(h, step, count - h->n_low);
}

double spot_horizon_mass(const struct spot_horizon *h, int step, int count)
{
    return h->mass[(size_t)step * row_of(h) + (size_t)(count - h->n_low)];
}

/* --- the chain itself, step by step over counts and contexts --- */

struct walk {
    const struct spot_count_chain *chain;
    struct spot_horizon *h;
    int lost_max;
    double *now, *then;            /* [count][context] probabilities */
    struct spot_count_step **step; /* [count][context] the step from there, computed on demand */
    int *size;                     /* [count][context] its largest change */
};

static size_t step_of(struct walk *w, int i, int c)
{
    const size_t at = (size_t)i * (size_t)w->h->n_context + (size_t)c;
    struct spot_count_step *s = w->step[at];

    if (s)
        return at;
    w->step[at] = s = spot_xcalloc(1, sizeof(*s));
    spot_count_chain_step(w->chain, i + w->h->n_low, c, s);
    for (int k = 1; k <= w->chain->size_max; k++)
        w->size[at] = s->lost[k] > 0 || s->gained[k] > 0 ? k : w->size[at];
    return at;
}

/* Record changes by first..last, all of one way (< 0: lost), from count i in context c: prob[0] is
 * the chance of the first, `by` apart, each times `times`. */
static void pass(struct walk *w, int i, int c, int way, int first, int last, const double *prob,
                 size_t by, double times, double *kernel)
{
    struct spot_horizon *h = w->h;
    const int most = counts_of(h) - 1, least = i - w->lost_max > 0 ? i - w->lost_max : 0;
    const size_t wide = (size_t)h->n_context;
    double *then = w->then + (wide == 1 ? 0 : spot_count_chain_after(c, way));

    for (int k = first; k <= last; k++, prob += by) {
        const int at = i + way * k, to = at < least ? least : at > most ? most : at;

        kernel[to] += times * *prob; /* 0 changes nothing */
        then[(size_t)to * wide] += times * *prob;
    }
}

/* The kernel of count i in step `step`: a mixture over its contexts. A count that cannot be reached
 * has no context of its own; it gets the one long after a loss. */
static void pass_count(struct walk *w, int step, int i)
{
    struct spot_horizon *h = w->h;
    const int far = counts_of(h) - 1 < SPOT_CHAIN_SIZE_MAX ? counts_of(h) - 1 : SPOT_CHAIN_SIZE_MAX;
    const double *now = w->now + (size_t)i * (size_t)h->n_context;
    double *kernel = kernel_of(h, step, i), sum = 0, all = 0;

    for (int c = 0; c < h->n_context; c++)
        sum += now[c];
    for (int c = 0; c < h->n_context; c++) {
        const bool stands_in = sum <= 0 && c == (h->n_context == 1 ? 0 : SPOT_CHAIN_AGE_MAX - 1);
        const double weight = stands_in ? 1e-300 : now[c];
        const struct spot_count_step *s;
        size_t at;

        if (weight <= 0)
            continue;
        at = step_of(w, i, c);
        s = w->step[at];
        all += weight;
        pass(w, i, c, 0, 0, 0, &s->still, 0, weight, kernel);
        pass(w, i, c, -1, 1, w->size[at], s->lost + 1, 1, weight, kernel);
        pass(w, i, c, 1, 1, w->size[at], s->gained + 1, 1, weight, kernel);
    }
    /* the following context does not depend on the one before */
    pass(w, i, 0, -1, 1, far, &UNSEEN, 0, all, kernel);
    pass(w, i, 0, 1, 1, far, &UNSEEN, 0, all, kernel);
    sum = 0;
    for (int j = 0; j < counts_of(h); j++)
        sum += kernel[j];
    for (int j = 0; j < counts_of(h); j++)
        kernel[j] /= sum;
}

static void walk_chain(struct walk *w, int context)
{
    struct spot_horizon *h = w->h;
    const size_t n = (size_t)counts_of(h) * (size_t)h->n_context;
    double *memory = spot_xcalloc(2 * n, sizeof(*memory));

    w->step = spot_xcalloc(n, sizeof(struct spot_count_step *));
    w->size = spot_xcalloc(n, sizeof(*w->size));
    w->now = memory;
    w->then = memory + n;
    w->now[(size_t)(h->start - h->n_low) * (size_t)h->n_context +
           (size_t)(h->n_context == 1 ? 0 : context)] = 1;
    for (int step = 1; step <= h->n_step; step++) {
        double *swap = w->now;

        memset(w->then, 0, n * sizeof(*w->then));
        for (int i = 0; i < counts_of(h); i++)
            pass_count(w, step, i);
        w->now = w->then;
        w->then = swap;
    }
    for (int i = 0; i < counts_of(h); i++) {
        const double *now = w->now + (size_t)i * (size_t)h->n_context;
        double *out = h->context + (size_t)i * (size_t)h->n_context, sum = 0;

        for (int c = 0; c < h->n_context; c++)
            sum += now[c];
        for (int c = 0; c < h->n_context; c++)
            out[c] = sum > 0 ? now[c] / sum : 1. / h->n_context;
    }
    for (size_t i = 0; i < n; i++)
        free(w->step[i]);
    free(w->step);
    free(w->size);
    free(memory);
}

/* --- the nearest chain with the forecast's distributions --- */

struct fit {
    struct spot_horizon *h;
    double *target; /* [n_step][count] distributions of the forecast */
    double *factor; /* [n_step][count] factor on the probability of each count */
    double *after;  /* [n_step + 1][count] product of the later factors, expected from a count */
    double *both;   /* [count] */
    double *is;     /* [3][count] scratch; first the current distribution */
    double missed;  /* largest difference from the target distributions */
};

/* For speed, sums stay in registers: of eight rows, or of 36 columns. */

/* out[0..rows) = the products of so many rows of x, `row` apart, with y. */
SPOT_SIMD_INLINE void multiply(const double *x, size_t row, const double *y, int n, int rows,
                               double *out)
{
    spot_four sum[8] = { { 0 } };
    int i = 0;

    for (; i + 4 <= n; i += 4) {
        const spot_four b = *(const spot_four *)(y + i);

        for (int r = 0; r < rows; r++)
            sum[r] += *(const spot_four *)(x + (size_t)r * row + i) * b;
    }
    for (; i < n; i++)
        for (int r = 0; r < rows; r++)
            sum[r][0] += x[(size_t)r * row + (size_t)i] * y[i];
    for (int r = 0; r < rows; r++)
        out[r] = sum[r][0] + sum[r][1] + sum[r][2] + sum[r][3];
}

/* next[0..4 * vectors) = the same columns of the sum of n rows x, `row` apart, each times[k] > 0.
 */
SPOT_SIMD_INLINE void add(const double *x, size_t row, const double *times, int n, int vectors,
                          double *next)
{
    spot_four sum[9] = { { 0 } };

    for (int k = 0; k < n; k++, x += row) {
        if (!(times[k] > 0))
            continue;
        for (int v = 0; v < vectors; v++)
            sum[v] += times[k] * ((const spot_four *)x)[v];
    }
    for (int v = 0; v < vectors; v++)
        ((spot_four *)next)[v] = sum[v];
}

/* Compute after[] from the last step backwards. */
SPOT_SIMD_INLINE void look_back_inline(struct fit *f)
{
    const int n = counts_of(f->h);
    const size_t row = row_of(f->h);

    for (int i = 0; i < n; i++)
        f->after[(size_t)(f->h->n_step * n + i)] = 1;
    for (int step = f->h->n_step; step >= 1; step--) {
        const double *factor = f->factor + (size_t)((step - 1) * n);
        const double *then = f->after + (size_t)(step * n);
        double *now = f->after + (size_t)((step - 1) * n), most = 0;

        for (int j = 0; j < n; j++)
            f->both[j] = factor[j] * then[j];
        for (int i = 0; i + 8 <= n; i += 8)
            multiply(kernel_of(f->h, step, i), row, f->both, n, 8, now + i);
        for (int i = n / 8 * 8; i < n; i++)
            multiply(kernel_of(f->h, step, i), row, f->both, n, 1, now + i);
        for (int i = 0; i < n; i++)
            most = now[i] > most ? now[i] : most;
        for (int i = 0; i < n && most > 0; i++)
            now[i] /= most;
    }
}

SPOT_SIMD_TWICE(look_back, (struct fit * f), (f))

/* Set the factors of a step so that it meets its target. is[]: the current weights of the counts,
 * which add up to `sum`; is[n .. 3n) is scratch. */
SPOT_SIMD_INLINE void meet(double *restrict is, const double *restrict target, double sum, int n,
                           double *restrict factor, double *missed)
{
    double *restrict off = is + n, *restrict met = is + 2 * (size_t)n, most = *missed;

    for (int j = 0; j < n && sum > 0; j++)
        is[j] /= sum;
    for (int j = 0; j < n; j++)
        is[j] = sum > 0 ? is[j] : 0;
    for (int j = 0; j < n; j++) {
        off[j] = fabs(is[j] - target[j]);
        met[j] = factor[j] * (target[j] / is[j]); /* without a branch, for speed */
    }
    for (int j = 0; j < n; j++) {
        most = off[j] > most ? off[j] : most;
        factor[j] = is[j] > 0 ? met[j] : factor[j];
    }
    *missed = most;
}

/* next = now times the step's kernel. */
SPOT_SIMD_INLINE void add_rows(const struct fit *f, int step, const double *now, double *next)
{
    const double *kernel = kernel_of(f->h, step, 0);
    const size_t row = row_of(f->h);
    const int n = counts_of(f->h);
    size_t j = 0;

    for (; j + 36 <= row; j += 36)
        add(kernel + j, row, now, n, 9, next + j);
    for (; j + 16 <= row; j += 16)
        add(kernel + j, row, now, n, 4, next + j);
    for (; j < row; j += 4)
        add(kernel + j, row, now, n, 1, next + j);
}

/* Forward pass: set the factors of each step to meet its distribution. */
SPOT_SIMD_INLINE void set_factors_inline(struct fit *f)
{
    const int n = counts_of(f->h);
    const size_t row = row_of(f->h);
    double *mass = f->h->mass;

    f->missed = 0;
    for (int step = 1; step <= f->h->n_step; step++) {
        const double *target = f->target + (size_t)((step - 1) * n);
        const double *then = f->after + (size_t)(step * n), *now = mass + (size_t)(step - 1) * row;
        double *factor = f->factor + (size_t)((step - 1) * n), *next = mass + (size_t)step * row;
        double *is = f->is, sum = 0, all = 0;

        add_rows(f, step, now, next);
        for (int j = 0; j < n; j++)
            is[j] = next[j] * factor[j] * then[j];
        for (int j = 0; j < n; j++)
            sum += is[j];
        meet(is, target, sum, n, factor, &f->missed);
        for (int j = 0; j < n; j++)
            next[j] *= factor[j];
        for (int j = 0; j < n; j++)
            all += next[j];
        for (int j = 0; j < n && all > 0; j++)
            next[j] /= all;
    }
}

SPOT_SIMD_TWICE(set_factors, (struct fit * f), (f))

/* Compute the kernels of the fitted chain and the distributions that they lead to. */
SPOT_SIMD_INLINE void settle_inline(struct fit *f)
{
    struct spot_horizon *h = f->h;
    const int n = counts_of(h);

    look_back(f);
    for (int step = 1; step <= h->n_step; step++) {
        const double *factor = f->factor + (size_t)((step - 1) * n);
        const double *then = f->after + (size_t)(step * n);
        const double *now = h->mass + (size_t)(step - 1) * row_of(h);
        double *next = h->mass + (size_t)step * row_of(h);

        memset(next, 0, (size_t)n * sizeof(*next));
        for (int i = 0; i < n; i++) {
            double *kernel = kernel_of(h, step, i), sum = 0;

            for (int j = 0; j < n; j++)
                sum += kernel[j] * factor[j] * then[j];
            for (int j = 0; j < n; j++) {
                kernel[j] = sum > 0 ? kernel[j] * factor[j] * then[j] / sum : kernel[j];
                next[j] += now[i] * kernel[j];
            }
        }
    }
}

SPOT_SIMD_TWICE(settle, (struct fit * f), (f))

void spot_horizon_init(struct spot_horizon *h, const struct spot_count_chain *chain, int n_context,
                       int n_low, int n_max, int lost_max, int start, int context, int n_step,
                       const struct spot_horizon_goal *goal)
{
    const size_t n = (size_t)(n_max - n_low + 1), steps = (size_t)n_step;
    struct walk walk = { .chain = chain, .h = h, .lost_max = lost_max };
    struct fit fit = { .h = h };
    double *memory = spot_xcalloc((3 * steps + 5) * n + 1, sizeof(*memory));

    *h = (struct spot_horizon){ n_low, n_max, n_step, start, n_context, NULL, NULL, NULL, 0 };
    h->next = spot_xcalloc(steps * n * row_of(h) + 1, sizeof(*h->next));
    h->mass = spot_xcalloc((steps + 1) * row_of(h), sizeof(*h->mass));
    h->context = spot_xcalloc(n * (size_t)n_context, sizeof(*h->context));
    fit.target = memory;
    fit.factor = memory + steps * n;
    fit.after = fit.factor + steps * n;
    fit.both = fit.after + (steps + 1) * n;
    fit.is = fit.both + n;
    for (size_t i = 0; i < steps * n; i++)
        fit.factor[i] = 1;
    for (size_t s = 0; s < steps; s++)
        for (int k = 0; k < goal->n; k++) {
            const int count = k + goal->shift;
            const int at = count < n_low ? n_low : count > n_max ? n_max : count;

            fit.target[s * n + (size_t)(at - n_low)] += goal->pmf[s * (size_t)goal->n + (size_t)k];
        }
    walk_chain(&walk, context);
    h->mass[start - n_low] = 1;
    for (int round = 0; round < ROUNDS_MAX && n_step; round++) {
        look_back(&fit);
        set_factors(&fit);
        h->missed = fit.missed;
        if (h->missed < MET)
            break;
    }
    settle(&fit);
    free(memory);
}

void spot_horizon_release(struct spot_horizon *h)
{
    free(h->next);
    free(h->mass);
    free(h->context);
    memset(h, 0, sizeof(*h));
}
