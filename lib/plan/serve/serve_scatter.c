/* SPDX-License-Identifier: MIT */
#include "plan/serve/serve_scatter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

enum {
    QUANTILES = 64, /* quantiles of the distribution if all requests have the same lengths */
    KEPT = SPOT_SERVE_SCATTER_POINTS,
};

/* Replace each length by the longest of B consecutive ones (cyclically); B is a power of two. The
 * cached part becomes the longest prompt less the largest part that any of them has to compute. */
static void widen(struct spot_serve_length *length, size_t n, int64_t B)
{
    struct spot_serve_length *wide = spot_xcalloc(n, sizeof(*wide));

    for (int64_t have = 1; have < B; have *= 2) {
        for (size_t i = 0; i < n; i++) {
            const struct spot_serve_length *a = &length[i], *b = &length[(i + (size_t)have) % n];

            const int64_t a_new = a->prompt_token - a->cached_token;
            const int64_t b_new = b->prompt_token - b->cached_token;

            wide[i].prompt_token =
                a->prompt_token > b->prompt_token ? a->prompt_token : b->prompt_token;
            wide[i].cached_token = wide[i].prompt_token - (a_new > b_new ? a_new : b_new);
            wide[i].output_token =
                a->output_token > b->output_token ? a->output_token : b->output_token;
        }
        memcpy(length, wide, n * sizeof(*length));
    }
    free(wide);
}

/* The i-th quantile in an order unrelated to lengths: multiples of the golden ratio, modulo 1. */
static double quantile(size_t i)
{
    const double x = ((double)i + 0.5) * 0.6180339887498949;

    return x - floor(x);
}

/* The sorted times are grouped at these shares; the groups are finer where percentiles lie. */
static const double bound[KEPT + 1] = { 0, 0.4, 0.7, 0.85, 0.93, 0.97, 0.985, 0.995, 1 };

/* Reduce x[n] to x[KEPT], the means of the groups. */
static void thin(double *x, size_t n)
{
    double kept[KEPT];

    qsort(x, n, sizeof(*x), spot_num_compare);
    for (size_t k = 0; k < KEPT; k++) {
        const double from = bound[k] * (double)n, to = bound[k + 1] * (double)n;

        kept[k] = 0;
        for (size_t i = (size_t)from; i < n && (double)i < to; i++)
            kept[k] += x[i] * (fmin(to, (double)i + 1) - fmax(from, (double)i)) / (to - from);
    }
    memcpy(x, kept, sizeof(kept));
}

static void sum_up(struct spot_serve_scatter *s, struct spot_serve_time *mean)
{
    const double n = (double)s->n;
    double square = 0;

    for (size_t i = 0; i < s->n; i++)
        square += (s->request_s[i] - mean->request_s) * (s->request_s[i] - mean->request_s) / n;
    s->scv = square / (mean->request_s * mean->request_s);
}

struct spot_serve_scatter *spot_serve_scatter_new(const struct spot_serve_ask *ask,
                                                  const struct spot_serve_shape *shape,
                                                  struct spot_serve_time *time)
{
    const bool has_lengths = ask->n_length && spot_serve_knows_lengths(ask->serve);
    const size_t n = has_lengths ? ask->n_length : QUANTILES;
    const size_t room = n > KEPT ? n : KEPT;
    struct spot_serve_time mean = { 0 };
    struct spot_serve_length *length;
    struct spot_serve_scatter *s;

    if (!has_lengths && !ask->serve->n_spread)
        return NULL;
    s = spot_xcalloc(1, sizeof(*s));
    s->n = n;
    s->first_s = spot_xcalloc(2 * room + KEPT, sizeof(double));
    s->request_s = s->first_s + room;
    s->share = s->request_s + room;
    length = spot_xcalloc(n, sizeof(*length));
    for (size_t i = 0; i < n; i++)
        length[i] = has_lengths ? ask->length[i]
                                : (struct spot_serve_length){ ask->serve->prompt_token,
                                                              ask->serve->output_token, 0 };
    widen(length, n, shape->B);
    for (size_t i = 0; i < n; i++) {
        const double x = spot_serve_spread_at(ask->serve, quantile(i));
        struct spot_serve_time t = { 0 };

        spot_serve_time_of(ask->serve, shape, &length[i], &t);
        s->first_s[i] = x * (t.prefill_s + t.decode_s);
        s->request_s[i] = x * t.request_s;
        mean.prefill_s += x * t.prefill_s / (double)n;
        mean.decode_s += x * t.decode_s / (double)n;
        mean.request_s += s->request_s[i] / (double)n;
    }
    sum_up(s, &mean);
    if (ask->slo.ttft.limit_s > 0)
        thin(s->first_s, n);
    thin(s->request_s, n);
    s->n = KEPT;
    for (size_t k = 0; k < KEPT; k++)
        s->share[k] = bound[k + 1] - bound[k];
    *time = mean;
    free(length);
    return s;
}

void spot_serve_scatter_free(struct spot_serve_scatter *s)
{
    if (!s)
        return;
    free(s->first_s);
    free(s);
}
